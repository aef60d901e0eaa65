//! The bank-level machine as the processor of the simulated operating system, and both as a backend
//! of the quantum loop.

use std::ops::Range;

use memweir_bank::clock::Time;
use memweir_bank::experiment::ProgramSpec;
use memweir_bank::observed::Observed;
use memweir_bank::system::{Progress, System};
use memweir_core::input::Refusal;
use memweir_core::{Counts, JobId, Lines, Nanos};
use memweir_flow::experiment::Overheads;
use memweir_flow::kernel::{Kernel, Processor};
use memweir_policy::quantum_loop::{Backend, Event, Quantum, Start};
use memweir_policy::{Decision, Ending, JobSpec, Observation};

use super::End;

/// Femtoseconds in a nanosecond.
const FEMTOS: f64 = 1e6;

/// The cores of the machine. Their times are compressed ones.
pub(super) struct Cores<'s, 'o> {
    system: &'s mut System<'o, Observed<()>>,
    compression: f64,
    /// Thread on each core.
    on: Vec<Option<usize>>,
    /// Thread that was last on each core.
    last: Vec<Option<usize>>,
    threads: Vec<Thread>,
    /// Threads of each job.
    jobs: Vec<Range<usize>>,
    /// Reason for which the machine cannot go on.
    refused: Option<Refusal>,
}

/// Times of a thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// Time on cores up to its last departure from one.
    busy: f64,
    /// Time at which it was put on the core that it is on.
    since: Option<f64>,
}

impl<'s, 'o> Cores<'s, 'o> {
    pub(super) fn new(
        system: &'s mut System<'o, Observed<()>>,
        cores: u32,
        programs: &[ProgramSpec],
        compression: u32,
    ) -> Self {
        let mut count = 0;
        let threads = |program: &ProgramSpec| {
            let first = count;
            count += usize::from(program.threads);
            first..count
        };
        let jobs: Vec<Range<usize>> = programs.iter().map(threads).collect();
        Self {
            system,
            compression: compression.into(),
            on: vec![None; cores as usize],
            last: vec![None; cores as usize],
            threads: vec![Thread::default(); count],
            jobs,
            refused: None,
        }
    }

    /// Returns the point of simulated time that is not before a compressed one.
    fn uncompressed(&self, time: f64) -> Time {
        Time((time / self.compression * FEMTOS).ceil() as u64)
    }

    /// Returns the compressed nanoseconds that a thread has spent on cores.
    fn busy(&self, thread: usize) -> f64 {
        let Thread { busy, since } = self.threads[thread];
        busy + since.map_or(0.0, |since| self.now() - since)
    }

    /// Returns the compressed time on cores and the progress of a job's threads together.
    fn so_far(&mut self, job: usize) -> (f64, Progress) {
        let (mut busy, mut sum) = (0.0, Progress::default());
        for thread in self.jobs[job].clone() {
            busy += self.busy(thread);
            let progress = self.system.progress(thread);
            sum.instructions += progress.instructions;
            sum.reads += progress.reads;
            sum.writes += progress.writes;
        }
        (busy, sum)
    }
}

impl Processor for Cores<'_, '_> {
    fn now(&self) -> f64 {
        self.system.now().0 as f64 / FEMTOS * self.compression
    }

    fn put(&mut self, core: usize, task: usize, pause: Nanos) {
        let at = self.uncompressed(self.now() + pause.as_f64());
        self.system.put_on(task, at, self.last[core]);
        self.threads[task].since = Some(self.now());
        (self.on[core], self.last[core]) = (Some(task), Some(task));
    }

    fn take(&mut self, core: usize) -> usize {
        let task = self.on[core].take().expect("a task is taken off a core that has one");
        self.system.take_off(task);
        self.threads[task] = Thread { busy: self.busy(task), since: None };
        task
    }

    fn run(&mut self, until: f64) -> Option<usize> {
        if self.refused.is_some() {
            return None;
        }
        let ended = match self.system.advance(self.uncompressed(until)) {
            Ok(ended) => ended?,
            Err(refusal) => {
                self.refused = Some(refusal);
                return None;
            }
        };
        self.threads[ended] = Thread { busy: self.busy(ended), since: None };
        let core = self.on.iter().position(|on| *on == Some(ended))?;
        self.on[core] = None;
        Some(core)
    }

    fn home(&self, _: usize) -> usize {
        0
    }
}

/// A batch on the bank-level machine.
pub(super) struct BankBatch<'s, 'o> {
    kernel: Kernel<Cores<'s, 'o>>,
    /// Jobs that have not been submitted.
    waiting: Vec<JobSpec>,
    /// Time on cores and progress of each job when it was last read.
    read: Vec<(f64, Progress)>,
    /// Threads of each job that have not ended.
    left: Vec<usize>,
    ends: Vec<End>,
    quanta: Vec<Quantum>,
    over: Vec<bool>,
    /// True while all threads are blocked.
    blocked: bool,
}

impl<'s, 'o> BankBatch<'s, 'o> {
    pub(super) fn new(mut kernel: Kernel<Cores<'s, 'o>>, jobs: Vec<JobSpec>) -> Self {
        for _ in 0..kernel.processor().threads.len() {
            kernel.add_task();
        }
        let left: Vec<usize> = kernel.processor().jobs.iter().map(ExactSizeIterator::len).collect();
        Self {
            read: vec![Default::default(); jobs.len()],
            ends: vec![End::default(); jobs.len()],
            quanta: Vec::new(),
            over: vec![false; kernel.processor().threads.len()],
            left,
            waiting: jobs,
            blocked: false,
            kernel,
        }
    }

    /// Returns the ends of the jobs, and the quanta.
    pub(super) fn finish(self) -> (Vec<End>, Vec<Quantum>) {
        (self.ends, self.quanta)
    }

    fn observe(&mut self, job: JobId) -> Observation {
        let cores = self.kernel.processor();
        let (busy, progress) = cores.so_far(job.index());
        let compression = cores.compression as u64;
        let (before, then) = std::mem::replace(&mut self.read[job.index()], (busy, progress));
        // As many times more lines as time is longer: the bandwidth is that of the machine.
        let since = |now: u64, then: u64| (now - then) * compression;
        let counts = Counts::new(
            since(progress.instructions, then.instructions),
            Lines(since(progress.reads, then.reads)),
            Lines(since(progress.writes, then.writes)),
        );
        Observation::new(job, Nanos((busy - before).round() as u64), Some(counts))
    }

    /// Records the end of a thread. Returns the end of its job if that was the last of its threads.
    fn ended(&mut self, thread: usize) -> Option<Event> {
        self.over[thread] = true;
        let cores = self.kernel.processor();
        let job = cores.jobs.iter().position(|threads| threads.contains(&thread))?;
        self.left[job] -= 1;
        if self.left[job] > 0 {
            return None;
        }
        let (busy, progress) = cores.so_far(job);
        let real = |compressed: f64| Nanos((compressed / cores.compression).round() as u64);
        self.ends[job] = End {
            finish: real(cores.now()),
            running: real(busy),
            lines: progress.reads + progress.writes,
        };
        let (observation, at) = (self.observe(JobId(job as u32)), self.now());
        Some(Event::Ended { observation, at, ending: Ending::Completed })
    }
}

impl Backend for BankBatch<'_, '_> {
    type Error = Refusal;

    fn now(&mut self) -> Nanos {
        Nanos(self.kernel.processor().now().round() as u64)
    }

    fn wait(&mut self, until: Nanos) -> Result<Vec<Event>, Refusal> {
        if !self.waiting.is_empty() {
            return Ok(self.waiting.drain(..).map(Event::Arrived).collect());
        }
        while let Some(thread) = self.kernel.run(until) {
            if let Some(ended) = self.ended(thread) {
                return Ok(vec![ended]);
            }
        }
        match self.kernel.processor().refused.take() {
            Some(refusal) => Err(refusal),
            None => Ok(Vec::new()),
        }
    }

    fn expects_jobs(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn block(&mut self) {
        self.kernel.block_all();
        self.blocked = true;
    }

    fn read(&mut self, jobs: &[JobId]) -> Vec<Observation> {
        jobs.iter().map(|job| self.observe(*job)).collect()
    }

    /// Spends the time of the switch.
    fn switch(&mut self, _: &Quantum) {
        if std::mem::take(&mut self.blocked) {
            let now = self.now();
            self.kernel.run(now + Overheads::default().quantum_switch);
        }
    }

    fn resume(&mut self, _: &Decision, jobs: &[JobId]) -> Vec<(JobId, Start)> {
        let cores = self.kernel.processor();
        let threads = jobs.iter().flat_map(|job| cores.jobs[job.index()].clone());
        let mut threads = threads.filter(|thread| !self.over[*thread]).collect();
        self.kernel.wake(&mut threads);
        Vec::new()
    }

    fn quantum_ended(&mut self, quantum: &Quantum) {
        self.quanta.push(quantum.clone());
    }
}
