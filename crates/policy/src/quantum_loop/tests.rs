//! The loop over a toy machine: a core for every job that is not blocked, and a log of the calls.

use std::collections::BTreeMap;

use memweir_core::{Counts, Lines};
use proptest::prelude::*;

use super::*;
use crate::scheduler::Kind;
use crate::scheduler::{QuantumScheduler, SchedulerConfig};

const QUANTUM: Nanos = ms(100);

const fn ms(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

/// Work and arrival of a job.
#[derive(Clone, Copy, Debug)]
struct Toy {
    arrival: Nanos,
    work: Nanos,
}

/// The machine. A job counts one line per microsecond.
#[derive(Debug, Default)]
struct Toys {
    now: Nanos,
    jobs: Vec<Toy>,
    /// Number of jobs that have arrived.
    arrived: usize,
    running: Vec<JobId>,
    done: BTreeMap<JobId, Nanos>,
    read: BTreeMap<JobId, Nanos>,
    /// Time that the switch takes.
    switch: Nanos,
    /// Jobs that cannot be started.
    broken: Vec<JobId>,
    /// Jobs that fail at their end.
    failing: Vec<JobId>,
    /// Kinds of the first jobs; the others have none.
    kinds: Vec<u64>,
    /// Number of blocks after which blocking no longer works.
    blocks_left: Option<u32>,
    stop_at: Option<Nanos>,
    log: Vec<String>,
    quanta: Vec<Quantum>,
}

impl Toys {
    /// A machine with jobs that work for these milliseconds and arrive at once.
    fn new(work: &[u64]) -> Self {
        let toy = |work: &u64| Toy { arrival: Nanos::ZERO, work: ms(*work) };
        Self { jobs: work.iter().map(toy).collect(), ..Self::default() }
    }

    fn observe(&mut self, job: JobId) -> Observation {
        let done = self.done.get(&job).copied().unwrap_or_default();
        let before = self.read.insert(job, done).unwrap_or_default();
        let cpu_time = done - before;
        let counts = Counts { reads: Lines(cpu_time.0 / 1_000), ..Counts::default() };
        Observation::new(job, cpu_time, Some(counts))
    }

    fn left(&self, job: JobId) -> Nanos {
        self.jobs[job.index()].work - self.done.get(&job).copied().unwrap_or_default()
    }

    fn ended(&mut self, job: JobId) -> Event {
        self.running.retain(|other| *other != job);
        let failed = self.failing.contains(&job);
        let ending = if failed { Ending::Unfinished } else { Ending::Completed };
        Event::Ended { observation: self.observe(job), at: self.now, ending }
    }
}

impl Backend for Toys {
    type Error = &'static str;

    fn now(&mut self) -> Nanos {
        self.now
    }

    fn wait(&mut self, until: Nanos) -> Result<Vec<Event>, Self::Error> {
        let ends = self.running.iter().map(|job| self.now + self.left(*job));
        let arrival = self.jobs.get(self.arrived).map(|toy| toy.arrival.max(self.now));
        let events = ends.chain(arrival).chain(self.stop_at);
        let to = events.fold(until, Nanos::min);
        if to == Nanos(u64::MAX) {
            return Err("nothing will ever happen");
        }
        for job in &self.running {
            *self.done.entry(*job).or_default() += to - self.now;
        }
        self.now = to;
        let over: Vec<JobId> =
            self.running.iter().copied().filter(|job| self.left(*job) == Nanos::ZERO).collect();
        let mut events: Vec<Event> = over.into_iter().map(|job| self.ended(job)).collect();
        while self.jobs.get(self.arrived).is_some_and(|toy| toy.arrival <= self.now) {
            let kind = self.kinds.get(self.arrived).copied().map(Kind);
            events
                .push(Event::Arrived(JobSpec { kind, ..JobSpec::new(JobId(self.arrived as u32)) }));
            self.arrived += 1;
        }
        events.extend(self.stop_at.filter(|stop| *stop <= self.now).map(|_| Event::Stop));
        Ok(events)
    }

    fn expects_jobs(&self) -> bool {
        self.arrived < self.jobs.len()
    }

    fn can_block(&self) -> bool {
        self.blocks_left != Some(0)
    }

    fn block(&mut self) {
        self.log.push(format!("{} block", self.now.as_millis_f64()));
        self.running.clear();
        self.blocks_left = self.blocks_left.map(|left| left - 1);
    }

    fn read(&mut self, jobs: &[JobId]) -> Vec<Observation> {
        jobs.iter().map(|job| self.observe(*job)).collect()
    }

    fn switch(&mut self, _: &Quantum) {
        self.now += self.switch;
    }

    fn resume(&mut self, _: &Decision, jobs: &[JobId]) -> Vec<(JobId, Start)> {
        let names: Vec<u32> = jobs.iter().map(|job| job.0).collect();
        self.log.push(format!("{} resume {names:?}", self.now.as_millis_f64()));
        let (broken, whole): (Vec<JobId>, Vec<JobId>) =
            jobs.iter().partition(|job| self.broken.contains(job));
        self.running = whole;
        broken.into_iter().map(|job| (job, Start::Failed)).collect()
    }

    fn quantum_ended(&mut self, quantum: &Quantum) {
        self.quanta.push(quantum.clone());
    }

    /// Kills the running jobs after ten milliseconds.
    fn stop(&mut self) -> Result<Vec<Event>, Self::Error> {
        for job in &self.running {
            *self.done.entry(*job).or_default() += ms(10);
        }
        self.now += ms(10);
        let killed = self.running.clone();
        Ok(killed.into_iter().map(|job| self.ended(job)).collect())
    }
}

fn quantum_loop(policy: &str, cores: u32) -> QuantumLoop {
    let config = SchedulerConfig {
        policy: policy.to_owned(),
        cores,
        quantum: QUANTUM,
        seed: 1,
        ..SchedulerConfig::default()
    };
    let scheduler = QuantumScheduler::new(config).unwrap();
    QuantumLoop::new(RecordingScheduler::recording(scheduler), QUANTUM)
}

/// Runs the machine's jobs; returns the conclusion, and starts and lengths of the quanta in ms.
fn run(policy: &str, cores: u32, toys: &mut Toys) -> (Conclusion, Vec<(f64, f64)>) {
    let conclusion = quantum_loop(policy, cores).run(toys).unwrap();
    let span = |quantum: &Quantum| {
        (quantum.start.as_millis_f64(), quantum.summary.elapsed.as_millis_f64())
    };
    (conclusion, toys.quanta.iter().map(span).collect())
}

#[test]
fn two_jobs_on_one_core_take_turns() {
    let mut toys = Toys::new(&[150, 100]);
    let (conclusion, quanta) = run("round-robin", 1, &mut toys);
    assert_eq!(conclusion, Conclusion::Finished);
    let log = ["0 resume [0]", "100 block", "100 resume [1]", "200 resume [0]"];
    // Job 1 ends at the very end of its quantum: the next selection fills its core.
    assert_eq!(toys.log, [&log[..3], &["200 block"], &log[3..]].concat());
    assert_eq!(quanta, [(0.0, 100.0), (100.0, 100.0), (200.0, 50.0)]);
    let entry = toys.quanta[0].jobs[0];
    assert_eq!((entry.job, entry.chosen, entry.running), (JobId(0), true, ms(100)));
    assert_eq!(entry.reason, Some("head of the run queue"));
    // 100,000 lines of 64 bytes in 100 ms.
    assert_eq!(toys.quanta[0].summary.bandwidth, BytesPerSec(64e6));
}

#[test]
fn the_time_of_a_switch_is_between_the_quanta_and_is_told() {
    let mut toys = Toys { switch: ms(2), ..Toys::new(&[150, 150]) };
    let (_, quanta) = run("round-robin", 1, &mut toys);
    // Ends lie on the grid: the second quantum is shorter by the switch.
    assert_eq!(quanta[..2], [(0.0, 100.0), (102.0, 98.0)]);
    assert_eq!(toys.quanta[0].switch, Some(ms(2)));
    assert_eq!(toys.quanta.last().unwrap().switch, None);

    let mut toys = Toys { switch: ms(2), ..Toys::new(&[150, 150]) };
    run("os", 1, &mut toys);
    assert_eq!(toys.quanta[0].switch, None, "the operating system schedules: none is blocked");
}

#[test]
fn a_core_that_falls_idle_is_filled_at_once() {
    let mut toys = Toys::new(&[30, 30, 30]);
    let (_, quanta) = run("round-robin", 1, &mut toys);
    assert_eq!(toys.log, ["0 resume [0]", "30 resume [1]", "60 resume [2]"]);
    assert_eq!(quanta, [(0.0, 90.0)]);
    let running: Vec<Nanos> = toys.quanta[0].jobs.iter().map(|entry| entry.running).collect();
    assert_eq!(running, [ms(30); 3]);
}

#[test]
fn jobs_that_arrive_join_and_end_an_idle_time() {
    let mut toys = Toys::new(&[100, 20, 20]);
    (toys.jobs[1].arrival, toys.jobs[2].arrival) = (ms(50), ms(730));
    let (_, quanta) = run("round-robin", 2, &mut toys);
    assert_eq!(toys.log[..2], ["0 resume [0]", "50 resume [0, 1]"]);
    // The quantum after the idle time begins with the arrival.
    assert_eq!(quanta, [(0.0, 100.0), (730.0, 20.0)]);
    for policy in ["os", "round-robin"] {
        let mut toys = Toys::new(&[100, 20]);
        toys.jobs[1].arrival = ms(50);
        run(policy, 2, &mut toys);
        let entry = toys.quanta[0].jobs[1];
        assert_eq!((entry.chosen, entry.running), (true, ms(20)), "{policy}");
    }
}

#[test]
fn a_job_that_cannot_be_started_leaves_its_core_and_no_record() {
    let mut toys = Toys { broken: vec![JobId(0)], ..Toys::new(&[50, 50]) };
    let (conclusion, quanta) = run("round-robin", 1, &mut toys);
    assert_eq!(conclusion, Conclusion::Finished);
    assert_eq!(toys.log, ["0 resume [0]", "0 resume [1]"]);
    assert_eq!(quanta, [(0.0, 50.0)]);
    assert_eq!(toys.quanta[0].jobs.len(), 1);

    let mut toys = Toys { broken: vec![JobId(0)], ..Toys::new(&[50]) };
    assert_eq!(run("round-robin", 1, &mut toys), (Conclusion::Finished, vec![]));
}

#[test]
fn everything_runs_once_blocking_has_failed() {
    let mut toys = Toys { blocks_left: Some(1), ..Toys::new(&[300, 300]) };
    run("round-robin", 1, &mut toys);
    assert_eq!(toys.log[..3], ["0 resume [0]", "100 block", "100 resume [0, 1]"]);
    assert!(!toys.log[3..].iter().any(|line| line.contains("block")), "{:?}", toys.log);
    assert_eq!(toys.quanta.iter().filter(|quantum| quantum.switch.is_some()).count(), 1);
}

#[test]
fn a_stopped_batch_ends_with_a_quantum_of_its_own() {
    let mut toys = Toys { stop_at: Some(ms(130)), ..Toys::new(&[500, 500]) };
    let (conclusion, quanta) = run("round-robin", 2, &mut toys);
    assert_eq!(conclusion, Conclusion::Stopped);
    // The quantum of the end begins where the last one ended.
    assert_eq!(quanta, [(0.0, 100.0), (100.0, 30.0), (130.0, 10.0)]);
    assert_eq!(toys.quanta[2].jobs[0].running, ms(10));
}

#[test]
fn every_call_is_passed_on_once_and_in_order() {
    let mut toys = Toys::new(&[150, 100]);
    let mut quanta = quantum_loop("round-robin", 1);
    quanta.run(&mut toys).unwrap();
    let kind = |call: &Call| match call {
        Call::Admit(_) => 'a',
        Call::Observe { .. } => 'o',
        Call::Select(_) => 's',
        Call::Backfill(_) => 'b',
        Call::Learn { .. } => 'l',
        Call::Retire(_) => 'r',
    };
    let kinds = |calls: &[Call]| calls.iter().map(kind).collect::<String>();
    let of_quanta: Vec<String> = toys.quanta.iter().map(|quantum| kinds(&quantum.calls)).collect();
    // Two arrive, a selection with an offer of free cores, an observation, the next; then job 1
    // ends at a deadline, job 0 within its quantum.
    assert_eq!(of_quanta, ["aasbosb", "rosb", "rbo"]);
    assert_eq!(quanta.take_calls(), []);
}

#[test]
fn jobs_of_a_kind_that_have_done_their_work_are_learned_from() {
    let kinds = vec![7, 7];
    let mut toys = Toys { kinds, failing: vec![JobId(0)], ..Toys::new(&[130, 250, 50]) };
    let mut quanta = quantum_loop("round-robin", 3);
    quanta.run(&mut toys).unwrap();
    let calls = toys.quanta.iter().flat_map(|q| q.calls.clone()).chain(quanta.take_calls());
    let ends = calls.filter_map(|call| match call {
        Call::Learn { elapsed, last } => Some((last.job.0, Some((elapsed, last.cpu_time)))),
        Call::Retire(job) => Some((job.0, None)),
        _ => None,
    });
    // Job 0 fails, and job 2 has no kind. Two quanta of job 1 have been observed.
    let last = (ms(50), Some(ms(50)));
    assert_eq!(ends.collect::<Vec<_>>(), [(2, None), (0, None), (1, Some(last)), (1, None)]);
}

#[test]
fn errors_of_the_backend_end_the_loop() {
    let mut toys =
        Toys { jobs: vec![Toy { arrival: Nanos(u64::MAX), work: ms(1) }], ..Toys::new(&[]) };
    assert_eq!(quantum_loop("os", 1).run(&mut toys), Err("nothing will ever happen"));
}

#[test]
fn lateness_does_not_add_up() {
    let next = |now| next_deadline(ms(1_000), ms(now), QUANTUM);
    assert_eq!(next(1_001), ms(1_100));
    assert_eq!(next(1_049), ms(1_100));
    // Less than half of the quantum would be left.
    assert_eq!(next(1_060), ms(1_200));
    // Whole quanta were missed; the grid stays.
    assert_eq!(next(1_330), ms(1_400));
    assert_eq!(next(1_380), ms(1_500));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// For any jobs, arrivals and policy, all jobs end, every part of their work is in exactly one
    /// quantum, and quanta do not overlap.
    #[test]
    fn every_batch_ends_with_its_work_accounted_for(
        policy in prop::sample::select(crate::policies::names().collect::<Vec<_>>()),
        cores in 1_u32..5,
        mut jobs in prop::collection::vec((0_u64..900, 1_u64..400), 1..12),
        switch in 0_u64..80,
    ) {
        jobs.sort_unstable();
        let toy = |(arrival, work): &(u64, u64)| Toy { arrival: ms(*arrival), work: ms(*work) };
        let mut toys = Toys {
            jobs: jobs.iter().map(toy).collect(),
            switch: ms(switch),
            ..Toys::default()
        };
        let (conclusion, _) = run(policy, cores, &mut toys);
        prop_assert_eq!(conclusion, Conclusion::Finished);
        let mut lines = vec![0; jobs.len()];
        for quantum in &toys.quanta {
            for entry in &quantum.jobs {
                prop_assert_eq!(entry.cpu_time, entry.running);
                lines[entry.job.index()] += entry.counts.unwrap().reads.0;
            }
        }
        let work: Vec<u64> = jobs.iter().map(|(_, work)| work * 1_000).collect();
        prop_assert_eq!(lines, work);
        for pair in toys.quanta.windows(2) {
            prop_assert!(pair[0].start + pair[0].summary.elapsed <= pair[1].start);
        }
    }
}
