//! The emulated machine: cores, the operating system on them, and the clock.
//!
//! The operating system is that of the simulator. Its tasks are the threads of the jobs; a thread
//! that blocks or sleeps leaves its core, and a thread that can run again is woken at the end of
//! the step in which it becomes ready.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use memweir_core::{JobId, Nanos};
use memweir_flow::kernel::{Kernel, Processor};
use memweir_flow::{KernelConfig, Overheads};
use memweir_linux::gate::{Standing, ThreadId, ThreadView};

use crate::cores::Cores;
use crate::epoch::Memories;
use crate::threads::{Glance, Threads};

/// The division of time in an emulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grain {
    /// Time between two computations of contention.
    pub epoch: Nanos,
    /// Longest turn: the granularity at which cores interleave in the shared cache.
    pub step: Nanos,
}

impl Default for Grain {
    /// Epochs of 1 ms, as in the flow engine, and turns of 100 us.
    fn default() -> Self {
        Self { epoch: Nanos::from_millis(1), step: Nanos(100_000) }
    }
}

/// Jobs that may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Every job.
    Everybody,
    /// These jobs.
    Only(HashSet<u32>),
}

impl Allowed {
    fn has(&self, job: u32) -> bool {
        match self {
            Self::Everybody => true,
            Self::Only(jobs) => jobs.contains(&job),
        }
    }
}

/// State of a thread in the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    /// On no core and in no queue.
    Away,
    /// On a core or in a queue.
    Runnable,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    task: usize,
    seat: Seat,
}

/// Result of a look at the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// At least one thread is runnable.
    Busy,
    /// No thread is runnable; the first one wakes at this time.
    WakesAt(Nanos),
    /// All threads wait for an event outside of the machine.
    Outside,
}

/// A machine that executes threads.
pub struct Machine<T: Threads> {
    kernel: Kernel<Cores<T>>,
    grain: Grain,
    switch: Nanos,
    allowed: Allowed,
    known: HashMap<ThreadId, Known>,
    /// The thread of each task.
    of_task: Vec<ThreadId>,
    epoch_start: Nanos,
    /// Jobs that have threads, as of the last look.
    alive: HashSet<u32>,
}

/// Host time slept while all threads wait for an outside event; virtual time then advances by as
/// much.
const PACE: Duration = Duration::from_micros(500);

impl<T: Threads> Machine<T> {
    /// Creates an idle machine of this shape on which no job may run yet.
    pub fn new(
        shape: &memweir_flow::Machine,
        cores: u32,
        grain: Grain,
        seed: u64,
        threads: T,
    ) -> Self {
        let nodes = || shape.core_nodes().take(cores as usize);
        let processor = Box::new(Cores::new(nodes(), Memories::new(shape), threads));
        let overheads = Overheads::default();
        let costs = (KernelConfig::default(), overheads.context_switch);
        Self {
            kernel: Kernel::on(nodes(), costs, seed, processor),
            grain,
            switch: overheads.quantum_switch,
            allowed: Allowed::Only(HashSet::new()),
            known: HashMap::new(),
            of_task: Vec::new(),
            epoch_start: Nanos::ZERO,
            alive: HashSet::new(),
        }
    }

    /// Returns the virtual time since the machine was switched on.
    pub fn now(&mut self) -> Nanos {
        Nanos(self.cores().now() as u64)
    }

    fn cores(&mut self) -> &mut Cores<T> {
        self.kernel.processor()
    }

    /// Returns the threads.
    pub fn threads(&mut self) -> &T {
        self.cores().threads()
    }

    /// Returns the time that the threads of a job have been on cores.
    pub fn cpu_time(&mut self, job: JobId) -> Nanos {
        Nanos(self.cores().cpu_time(job.0) as u64)
    }

    /// Returns true if a job has threads.
    pub fn has_threads(&mut self, job: JobId) -> bool {
        self.look(Glance::Long);
        self.alive.contains(&job.0)
    }

    /// Blocks all jobs, and keeps the cores idle for the time that a batch scheduler takes to
    /// switch.
    pub fn block_all(&mut self) {
        self.kernel.block_all();
        for known in self.known.values_mut() {
            known.seat = Seat::Away;
        }
        self.allowed = Allowed::Only(HashSet::new());
        let switch = self.switch;
        self.cores().pause(switch);
    }

    /// Allows a job in addition to those that may already run.
    pub fn admit(&mut self, job: JobId) {
        if let Allowed::Only(jobs) = &mut self.allowed {
            jobs.insert(job.0);
        }
    }

    /// Allows these jobs, and no others.
    pub fn allow(&mut self, allowed: Allowed) {
        let mut blocked = Vec::new();
        for known in self.known.values_mut() {
            if !allowed.has(self.kernel.processor().task(known.task).view.job) {
                known.seat = Seat::Away;
            }
            if known.seat == Seat::Away {
                blocked.push(known.task);
            }
        }
        blocked.sort_unstable();
        for task in blocked {
            self.kernel.block(task);
        }
        self.allowed = allowed;
    }

    /// Advances virtual time, at most to `until` and at most by one epoch in which a thread runs.
    /// Returns true if a job has lost its last thread: then time has stopped there. When no job is
    /// left that has one, time goes on until the cores have paid their debts.
    pub fn advance(&mut self, until: Nanos) -> bool {
        let mut glance = Glance::Long;
        while self.now() < until && self.now() < self.epoch_end() {
            let before = self.alive.clone();
            let next = self.look(glance);
            glance = Glance::Short;
            if before.iter().any(|job| !self.alive.contains(job)) {
                return true;
            }
            let now = self.now();
            let step = match next {
                Next::Busy => (now + self.grain.step).min(until).min(self.epoch_end()),
                // Nothing can happen before that time, but an epoch that has begun ends in time:
                // spread over the sleep, its work would hardly contend for memory.
                Next::WakesAt(time) if now > self.epoch_start => {
                    time.clamp(now + Nanos(1), until).min(self.epoch_end())
                }
                Next::WakesAt(time) => time.clamp(now + Nanos(1), until),
                Next::Outside => {
                    std::thread::sleep(PACE);
                    glance = Glance::Long;
                    (now + Nanos(PACE.as_nanos() as u64)).min(until)
                }
            };
            if let Some(task) = self.kernel.run(step) {
                let thread = self.of_task[task];
                if let Some(known) = self.known.get_mut(&thread) {
                    known.seat = Seat::Away;
                }
                glance = Glance::Long;
            }
        }
        if self.now() >= self.epoch_end() {
            self.end_epoch();
        }
        false
    }

    fn end_epoch(&mut self) {
        let now = self.now();
        let length = now - self.epoch_start;
        if length > Nanos::ZERO {
            self.cores().end_epoch(length);
            self.epoch_start = now;
        }
    }

    /// Lets the cores pay for the work of the last threads, which may have ended within an epoch.
    fn settle(&mut self) {
        self.end_epoch();
        self.cores().settle();
        self.epoch_start = self.now();
    }

    fn epoch_end(&self) -> Nanos {
        self.epoch_start + self.grain.epoch
    }

    /// Looks at every thread: turns new ones into tasks and wakes those that can run.
    fn look(&mut self, glance: Glance) -> Next {
        let now = self.now();
        let views = self.threads().list();
        self.forget_gone(&views);
        let mut ready = Vec::new();
        let mut wakes: Option<Nanos> = None;
        let was_used = !self.alive.is_empty();
        self.alive.clear();
        for view in views {
            let known = match self.known.get(&view.thread) {
                Some(known) => *known,
                None => {
                    let task = self.kernel.add_task();
                    self.cores().add(view);
                    self.of_task.push(view.thread);
                    let known = Known { task, seat: Seat::Away };
                    self.known.insert(view.thread, known);
                    known
                }
            };
            if known.seat == Seat::Runnable {
                self.alive.insert(view.job);
                continue;
            }
            let standing = self.threads().standing(view.thread, glance);
            if standing == Standing::Gone {
                self.known.remove(&view.thread);
                continue;
            }
            self.alive.insert(view.job);
            if !self.allowed.has(view.job) {
                continue;
            }
            match standing {
                Standing::Ready => ready.push((view.thread, known.task)),
                Standing::AsleepUntil(time) if time <= now => ready.push((view.thread, known.task)),
                Standing::AsleepUntil(time) => {
                    wakes = Some(wakes.map_or(time, |first| first.min(time)));
                }
                Standing::Blocked | Standing::Gone => {}
            }
        }
        if was_used && self.alive.is_empty() {
            self.settle();
        }
        self.wake(&ready);
        let runnable = self.known.values().any(|known| known.seat == Seat::Runnable);
        match wakes {
            _ if runnable => Next::Busy,
            Some(time) => Next::WakesAt(time),
            None => Next::Outside,
        }
    }

    /// Forgets the threads that have ended: most do so in their turn, and are not listed again.
    fn forget_gone(&mut self, listed: &[ThreadView]) {
        if self.known.len() > listed.len() {
            let listed: HashSet<ThreadId> = listed.iter().map(|view| view.thread).collect();
            self.known
                .retain(|thread, known| known.seat == Seat::Runnable || listed.contains(thread));
        }
    }

    fn wake(&mut self, ready: &[(ThreadId, usize)]) {
        if ready.is_empty() {
            return;
        }
        for (thread, _) in ready {
            if let Some(known) = self.known.get_mut(thread) {
                known.seat = Seat::Runnable;
            }
        }
        let mut tasks: Vec<usize> = ready.iter().map(|(_, task)| *task).collect();
        self.kernel.wake(&mut tasks);
    }

    /// Returns true if the process `pid` of a job that has just been started has reached the gate.
    pub fn has_started(&mut self, pid: u32) -> bool {
        let found = self.threads().list().into_iter().find(|view| view.pid == pid);
        found.is_some_and(|view| {
            self.threads().standing(view.thread, Glance::Long) != Standing::Gone
        })
    }
}
