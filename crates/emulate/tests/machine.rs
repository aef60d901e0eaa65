//! The machine with fake threads: turns, sleeps, contention and blocking.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use memweir_core::{BytesPerSec, Counts, JobId, Lines, MAX_MEDIA, Nanos, Traffic};
use memweir_emulate::machine::{Allowed, Grain, Machine};
use memweir_emulate::threads::{Glance, Threads};
use memweir_linux::gate::{CoreCaches, Spent, Standing, ThreadId, ThreadView};
use proptest::prelude::*;

/// Femtoseconds per millisecond.
const MS: u64 = 1_000_000_000_000;

/// One action of a fake thread.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Milliseconds of progress, and lines read per millisecond, for which it waits half of the
    /// time.
    Work(u64, u64),
    /// Sleeps for this number of milliseconds.
    Sleep(u64),
}

#[derive(Clone, Debug)]
struct Fake {
    view: ThreadView,
    acts: Vec<Act>,
    /// Progress in the current act.
    into: u64,
    spent: Spent,
    lines: u64,
    wakes: Option<Nanos>,
    /// Turns on a core that had run another thread.
    cold: u64,
    /// The thread whose end starts it.
    after: Option<u64>,
}

#[derive(Debug, Default)]
struct State {
    threads: Vec<Fake>,
    now: Nanos,
}

/// Fake threads.
#[derive(Clone, Debug, Default)]
struct Pretend(Rc<RefCell<State>>);

impl Pretend {
    fn add(&self, job: u32, acts: &[Act]) {
        self.add_after(None, job, acts);
    }

    /// Adds a thread that starts when another ends; returns its birth.
    fn add_after(&self, after: Option<u64>, job: u32, acts: &[Act]) -> u64 {
        let mut state = self.0.borrow_mut();
        let birth = state.threads.len() as u64;
        state.threads.push(Fake {
            view: ThreadView { thread: ThreadId::new(birth, birth as u32), job, pid: 1, slot: 0 },
            acts: acts.to_vec(),
            into: 0,
            spent: Spent::default(),
            lines: 0,
            wakes: None,
            cold: 0,
            after,
        });
        birth
    }

    fn with<T>(&self, thread: ThreadId, f: impl FnOnce(&mut Fake) -> T) -> T {
        f(&mut self.0.borrow_mut().threads[thread.birth as usize])
    }
}

impl Fake {
    fn standing(&self) -> Standing {
        match (self.wakes, self.acts.first()) {
            (Some(time), _) => Standing::AsleepUntil(time),
            (None, Some(_)) => Standing::Ready,
            (None, None) => Standing::Gone,
        }
    }

    fn work(&mut self, limit: u64, now: Nanos) {
        let start = self.spent.used;
        while self.spent.used < limit {
            match self.acts.first() {
                None => return,
                Some(Act::Sleep(ms)) => {
                    let at = now + Nanos((self.spent.used - start) / 1_000_000);
                    self.wakes = Some(at + Nanos::from_millis(*ms));
                    self.acts.remove(0);
                    return;
                }
                Some(Act::Work(ms, lines)) => {
                    let (whole, per_ms) = (ms * MS, *lines);
                    let step = (whole - self.into).min(limit - self.spent.used);
                    let before =
                        (u128::from(self.into) * u128::from(per_ms) / u128::from(MS)) as u64;
                    self.into += step;
                    let after =
                        (u128::from(self.into) * u128::from(per_ms) / u128::from(MS)) as u64;
                    self.spent.used += step;
                    self.spent.stalled += if per_ms > 0 { step / 2 } else { 0 };
                    self.lines += after - before;
                    if self.into == whole {
                        self.into = 0;
                        self.acts.remove(0);
                    }
                }
            }
        }
    }
}

impl Threads for Pretend {
    fn list(&self) -> Vec<ThreadView> {
        let threads = &self.0.borrow().threads;
        let is_gone = |birth: u64| threads[birth as usize].standing() == Standing::Gone;
        let alive = |t: &&Fake| !is_gone(t.view.thread.birth) && t.after.is_none_or(is_gone);
        threads.iter().filter(alive).map(|t| t.view).collect()
    }

    fn standing(&self, thread: ThreadId, _: Glance) -> Standing {
        self.with(thread, |t| t.standing())
    }

    fn spent(&self, thread: ThreadId) -> Spent {
        self.with(thread, |t| t.spent)
    }

    fn counts(&self, view: &ThreadView) -> Counts {
        let mut traffic = [Traffic::default(); MAX_MEDIA];
        traffic[0].reads = Lines(self.with(view.thread, |t| t.lines));
        Counts::by_medium(0, traffic)
    }

    fn set_time(&self, now: Nanos) {
        self.0.borrow_mut().now = now;
    }

    fn turn(&self, thread: ThreadId, limit: u64, caches: CoreCaches) -> Standing {
        let now = self.0.borrow().now;
        self.with(thread, |t| {
            t.cold += u64::from(caches == CoreCaches::Others);
            t.wakes = None;
            t.work(limit, now);
            t.standing()
        })
    }
}

/// Creates a machine with `cores` cores and a bus of 10 GB/s, on which these jobs have started.
fn machine(cores: u32, jobs: &[&[Act]]) -> (Machine<Pretend>, Pretend) {
    machine_with(Grain::default(), cores, jobs)
}

fn machine_with(grain: Grain, cores: u32, jobs: &[&[Act]]) -> (Machine<Pretend>, Pretend) {
    let threads = Pretend::default();
    for (job, acts) in jobs.iter().enumerate() {
        threads.add(job as u32, acts);
    }
    let shape = memweir_flow::Machine::uniform("test", cores, BytesPerSec::from_gb(10.0));
    let mut machine = Machine::new(&shape, cores, grain, 1, threads.clone());
    machine.allow(Allowed::Everybody);
    (machine, threads)
}

/// Runs the machine until no job is left; returns the end of each job in milliseconds.
fn run(machine: &mut Machine<Pretend>, jobs: usize) -> Vec<f64> {
    let mut ends = vec![f64::NAN; jobs];
    for _ in 0..100_000 {
        machine.advance(Nanos(u64::MAX / 2));
        for (job, end) in ends.iter_mut().enumerate() {
            if end.is_nan() && !machine.has_threads(JobId(job as u32)) {
                *end = machine.now().as_millis_f64();
            }
        }
        if ends.iter().all(|end| !end.is_nan()) {
            return ends;
        }
    }
    panic!("nobody comes to an end: {ends:?}");
}

fn ends(cores: u32, jobs: &[&[Act]]) -> Vec<f64> {
    run(&mut machine(cores, jobs).0, jobs.len())
}

fn near(value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{value} instead of {expected}");
}

#[test]
fn work_alone_takes_its_progress() {
    // A thread that is resumed begins within 0.089 ms.
    near(ends(2, &[&[Act::Work(50, 0)]])[0], 50.0, 0.2);
}

#[test]
fn threads_share_a_core_and_take_two() {
    let work: &[Act] = &[Act::Work(40, 0)];
    let shared = ends(1, &[work, work]);
    near(shared[1].max(shared[0]), 80.0, 0.5);
    assert!(shared[0].min(shared[1]) > 70.0, "by turns: {shared:?}");
    let apart = ends(2, &[work, work]);
    near(apart[0].max(apart[1]), 40.0, 0.3);
}

#[test]
fn streams_beyond_the_bus_get_what_it_carries() {
    // 125,000 lines per millisecond are 8 GB/s; two such streams ask for 16 of 10.
    let stream: &[Act] = &[Act::Work(100, 125_000)];
    let both = ends(2, &[stream, stream]);
    near(both[0], 160.0, 2.0);
    near(both[1], 160.0, 2.0);
    near(ends(2, &[stream, &[Act::Work(100, 0)]])[0], 100.0, 0.3);
}

#[test]
fn a_sleep_costs_no_core() {
    let sleeper: &[Act] = &[Act::Work(1, 0), Act::Sleep(30), Act::Work(1, 0)];
    let ends = ends(1, &[sleeper, &[Act::Work(30, 0)]]);
    near(ends[0], 32.0, 6.0);
    near(ends[1], 31.5, 2.0);
}

#[test]
fn a_long_sleep_is_skipped() {
    near(ends(1, &[&[Act::Sleep(1_000_000), Act::Work(1, 0)]])[0], 1_000_001.0, 0.3);
}

/// Two streams ask for 16 of 10 GB/s during four fifths of an epoch, and then sleep.
#[test]
fn a_sleep_does_not_thin_out_the_work_before_it() {
    let grain = Grain { epoch: Nanos::from_millis(5), ..Grain::default() };
    let stream: &[Act] = &[Act::Work(4, 125_000), Act::Sleep(100), Act::Work(1, 0)];
    let (mut machine, _) = machine_with(grain, 2, &[stream, stream]);
    // In the epoch they ask for 12.8 GB/s, so that their waiting half takes 1.56 times as long.
    // They begin and wake a little late.
    let debt = 4.0 * (0.5 + 0.5 * 1.56) - 4.0;
    near(run(&mut machine, 2)[0], 4.0 + 100.0 + debt + 1.0, 0.6);
}

#[test]
fn who_is_not_let_run_does_not() {
    let work: &[Act] = &[Act::Work(10, 0)];
    let (mut machine, threads) = machine(2, &[work, work]);
    machine.block_all();
    machine.allow(Allowed::Only(HashSet::from([1])));
    while machine.has_threads(JobId(1)) {
        machine.advance(Nanos::from_millis(50));
    }
    // A switch takes 0.149 ms.
    near(machine.now().as_millis_f64(), 10.2, 0.1);
    assert_eq!(threads.0.borrow().threads[0].spent, Spent::default());
    assert_eq!(machine.cpu_time(JobId(0)), Nanos::ZERO);
    near(machine.cpu_time(JobId(1)).as_millis_f64(), 10.0, 0.11);
    machine.admit(JobId(0));
    near(run(&mut machine, 2)[0], 20.3, 0.3);
}

#[test]
fn caches_are_cold_after_another_thread() {
    let work: &[Act] = &[Act::Work(40, 0)];
    let (mut alone, threads) = machine(1, &[work]);
    run(&mut alone, 1);
    assert_eq!(threads.0.borrow().threads[0].cold, 0);
    let (mut shared, threads) = machine(1, &[work, work]);
    run(&mut shared, 2);
    let cold: u64 = threads.0.borrow().threads.iter().map(|t| t.cold).sum();
    // Slices of 4 ms: one change each.
    assert!((15..=22).contains(&cold), "{cold}");
}

#[test]
fn who_pays_for_its_traffic_is_still_in_the_way_of_others() {
    // Each job asks for more than the bus carries, or nearly: they pay in turn, and one runs while
    // the other pays.
    let ends = ends(3, &[&[Act::Work(208, 147_025)], &[Act::Work(192, 171_167)]]);
    // All lines of both, at 10 GB/s.
    near(ends[0], (208.0 * 147_025.0 + 192.0 * 171_167.0) * 64.0 / 10e6, 2.0);
}

#[test]
fn threads_that_end_within_an_epoch_pay_for_their_traffic() {
    // Each of four jobs starts 60 threads, one after the other, which take a fifth to three fifths
    // of an epoch and ask for 1.9 to 5 GB/s, of 10 for all.
    let grain = Grain { epoch: Nanos::from_millis(5), ..Grain::default() };
    let (mut machine, threads) = machine_with(grain, 4, &[&[] as &[Act]; 4]);
    let mut lines = 0;
    for job in 0..4 {
        let mut before = Some(job);
        for turn in 0..60 {
            let (ms, per_ms) = (1 + turn % 3, 30_000 + 12_000 * ((job + turn) % 5));
            lines += ms * per_ms;
            before = Some(threads.add_after(before, job as u32, &[Act::Work(ms, per_ms)]));
        }
    }
    let last = run(&mut machine, 4).into_iter().fold(0.0, f64::max);
    // Jobs end a few milliseconds apart, and leave some of the bus idle. Time that is due to a
    // thread when it ends goes to the next one, which may have more traffic.
    near(lines as f64 * 64.0 / (last / 1e3), 9.95e9, 0.1e9);
}

/// Two of the four jobs share a core within an epoch, and one of these hardly moves memory.
#[test]
fn the_bus_carries_no_more_for_cores_that_change_threads() {
    let jobs = [(15, 8), (16, 155_056), (5, 151_234), (10, 193_583)];
    let acts = jobs.map(|(ms, lines)| [Act::Work(ms, lines)]);
    let last = ends(2, &acts.each_ref().map(|acts| &acts[..])).into_iter().fold(0.0, f64::max);
    let lines: u64 = jobs.iter().map(|(ms, lines)| ms * lines).sum();
    near(lines as f64 * 64.0 / (last / 1e3), 9.9e9, 0.1e9);
}

/// Two streams ask for 16 of 10 GB/s, for less than an epoch.
#[test]
fn the_last_threads_pay_for_their_traffic() {
    let grain = Grain { epoch: Nanos::from_millis(5), ..Grain::default() };
    let stream: &[Act] = &[Act::Work(3, 125_000)];
    let (mut machine, _) = machine_with(grain, 2, &[stream, stream]);
    let ends = run(&mut machine, 2);
    near(ends[0].max(ends[1]), 4.8, 0.1);
    near(machine.cpu_time(JobId(0)).as_millis_f64(), 4.8, 0.1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// No job is faster than alone, and the bus never carries more than its capacity.
    #[test]
    fn work_is_conserved(
        jobs in prop::collection::vec((5_u64..30, 0_u64..200_000), 1..5),
        cores in 1_u32..4,
    ) {
        let acts: Vec<[Act; 1]> = jobs.iter().map(|(ms, lines)| [Act::Work(*ms, *lines)]).collect();
        let refs: Vec<&[Act]> = acts.iter().map(|acts| &acts[..]).collect();
        let ends = ends(cores, &refs);
        for (end, (ms, _)) in ends.iter().zip(&jobs) {
            prop_assert!(*end >= *ms as f64 - 0.01, "{ends:?}");
        }
        let last = ends.iter().copied().fold(0.0, f64::max);
        let bytes: f64 = jobs.iter().map(|(ms, lines)| (ms * lines * 64) as f64).sum();
        prop_assert!(bytes / (last / 1e3) <= 10e9 * 1.001, "{bytes} in {last} ms");
        let busy: f64 = jobs.iter().map(|(ms, _)| *ms as f64).sum();
        prop_assert!(last * f64::from(cores) >= busy - 0.1);
    }
}
