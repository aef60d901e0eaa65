//! The loop over a simulated machine: a clock that jumps to the next event, jobs that end after a
//! given CPU time, and a blocker that records its calls.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use memweir_core::medium::data::MediumData;
use memweir_core::{Counts, Lines, MAX_MEDIA, Media};
use memweir_linux::blocker::{Mechanism, SpawnTarget};
use memweir_linux::fake::{Call, FakeBlocker, FakeControl, Kind};
use memweir_linux::launch::LaunchError;
use memweir_linux::{Capabilities, Launch, Meter, MeterKind, Reading};
use memweir_policy::Bus;
use proptest::prelude::*;

use super::*;
use crate::batch::known::{Knowledge, Known};
use crate::batch::plan::Frame;
use crate::jobs::{Batch, Command};
use crate::observer::{Event, Observer};
use crate::options::{OnExit, RunOptions};
use crate::report::BatchReport;
use memweir_linux::world::{Occurrence, World};

const QUANTUM: Nanos = Nanos::from_millis(100);

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// Behavior of a simulated job.
#[derive(Clone, Debug)]
struct Script {
    /// CPU time after which its first process exits.
    work: Nanos,
    code: i32,
    /// Time for which children go on after the first process.
    children: Nanos,
    /// Errno of exec, if it fails.
    exec_error: Option<i32>,
}

impl Script {
    fn of(work: Nanos) -> Self {
        Self { work, code: 0, children: Nanos::ZERO, exec_error: None }
    }
}

/// A machine with one core per running job.
struct Machine {
    now: Nanos,
    control: FakeControl,
    scripts: Vec<Script>,
    left: HashMap<JobId, Nanos>,
    orphans: HashMap<JobId, Nanos>,
    stops: Vec<Nanos>,
    suspensions: Vec<Nanos>,
    /// Added to every wait, as on a machine that wakes us late.
    late: Nanos,
    fail_wait_at: Option<Nanos>,
    /// Time to create a process.
    labor: Nanos,
    /// Time for which a program has run when its start is known.
    head_start: Nanos,
    bound: Bound,
}

/// The CPUs that jobs were bound to last.
type Bound = Arc<Mutex<HashMap<JobId, Vec<usize>>>>;

impl Machine {
    fn new(scripts: Vec<Script>, control: FakeControl) -> Self {
        Self {
            now: ms(5_000),
            control,
            scripts,
            left: HashMap::new(),
            orphans: HashMap::new(),
            stops: Vec::new(),
            suspensions: Vec::new(),
            late: Nanos::ZERO,
            fail_wait_at: None,
            labor: Nanos::ZERO,
            head_start: Nanos::ZERO,
            bound: Bound::default(),
        }
    }

    /// Time of the next event, at the latest `until`.
    fn next_event(&self, until: Nanos) -> Nanos {
        let running = self.control.running();
        let ends = self
            .left
            .iter()
            .chain(&self.orphans)
            .filter(|(job, _)| running.contains(*job))
            .map(|(_, left)| self.now + *left);
        let signals = self.stops.iter().chain(&self.suspensions);
        ends.chain(signals.map(|at| (*at).max(self.now))).fold(until.max(self.now), Nanos::min)
    }

    fn advance_to(&mut self, to: Nanos) {
        let span = to - self.now;
        for job in self.control.running() {
            for left in [self.left.get_mut(&job), self.orphans.get_mut(&job)].into_iter().flatten()
            {
                *left = left.saturating_sub(span);
            }
        }
        self.control.advance(span);
        self.now = to;
    }
}

impl World for Machine {
    fn now(&self) -> Nanos {
        self.now
    }

    fn wait(&mut self, until: Nanos) -> io::Result<Vec<Occurrence>> {
        if self.fail_wait_at.is_some_and(|at| self.now >= at) {
            return Err(io::Error::other("planted"));
        }
        self.advance_to(self.next_event(until + self.late));
        let known = self.control.known();
        // SIGKILL of a fake job empties it; its first process is gone then.
        let killed = |job: &JobId| {
            self.control.calls().contains(&Call::Signal(*job, 9)) && known.contains(job)
        };
        let over: Vec<JobId> = self
            .left
            .iter()
            .filter(|(job, left)| **left == Nanos::ZERO || killed(job))
            .map(|(job, _)| *job)
            .collect();
        let now = self.now;
        let taken = |signals: &mut Vec<Nanos>, occurrence| {
            let pending = signals.len();
            signals.retain(|at| *at > now);
            vec![occurrence; pending - signals.len()]
        };
        let mut occurrences = taken(&mut self.stops, Occurrence::Stop);
        occurrences.extend(taken(&mut self.suspensions, Occurrence::Suspend));
        for job in over {
            let left = self.left.remove(&job);
            let script = &self.scripts[job.index()];
            let code = if left == Some(Nanos::ZERO) { script.code } else { 137 };
            occurrences.push(Occurrence::Exited { job, code, cpu_time: None });
            if script.children > Nanos::ZERO {
                self.orphans.insert(job, script.children);
            } else {
                self.control.empty(job);
            }
        }
        let control = &self.control;
        self.orphans.retain(|job, left| {
            if *left == Nanos::ZERO {
                control.empty(*job);
            }
            *left > Nanos::ZERO
        });
        Ok(occurrences)
    }

    fn spawn(&mut self, job: JobId, _: &Launch, _: &SpawnTarget) -> Result<i32, LaunchError> {
        // A new process waits before exec and uses no CPU time.
        self.now += self.labor;
        Ok(1000 + job.0 as i32)
    }

    fn exec(&mut self, job: JobId) -> Result<(), LaunchError> {
        let script = &self.scripts[job.index()];
        if let Some(errno) = script.exec_error {
            self.control.empty(job);
            let source = io::Error::from_raw_os_error(errno);
            return Err(LaunchError { what: "executing".to_owned(), source, help: None });
        }
        self.left.insert(job, script.work);
        self.advance_to(self.now + self.head_start);
        Ok(())
    }

    fn bind(&mut self, job: JobId, cpus: &[usize]) -> io::Result<()> {
        self.bound.lock().expect("one thread").insert(job, cpus.to_vec());
        Ok(())
    }

    fn forget(&mut self, job: JobId) {
        self.left.remove(&job);
    }
}

/// Counts one line per microsecond of CPU time, and fails after `fail_from` reads.
#[derive(Debug)]
struct Ruler {
    kind: MeterKind,
    reads: u32,
    fail_from: u32,
}

impl Ruler {
    fn failing_from(fail_from: u32) -> Self {
        Self { kind: MeterKind::Perf, reads: 0, fail_from }
    }
}

impl Meter for Ruler {
    fn kind(&self) -> MeterKind {
        self.kind
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { media: true, ..Capabilities::default() }
    }

    fn attach(&mut self, _: JobId, _: i32) -> Result<(), MeterError> {
        Ok(())
    }

    fn read(&mut self, _: JobId, cpu_time: Nanos, _: Nanos) -> Result<Reading, MeterError> {
        self.reads += 1;
        if self.reads > self.fail_from {
            return Err(MeterError::other("planted"));
        }
        let counts = Counts { reads: Lines(cpu_time.0 / 1_000), ..Counts::default() };
        Ok(Reading { counts, ..Reading::default() })
    }

    fn detach(&mut self, _: JobId) {}
}

/// All events, as text.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Observer for Diary {
    fn event(&mut self, event: Event<'_>) {
        self.0.lock().expect("one thread").push(format!("{event:?}"));
    }
}

/// A batch on the simulated machine.
struct Case {
    cores: u32,
    options: RunOptions,
    meter: Option<Ruler>,
    pinning: Pinning,
    blocker: FakeBlocker,
    world: Machine,
    logs: tempfile::TempDir,
}

impl Case {
    fn new(policy: &'static str, cores: u32, work_ms: &[u64]) -> Self {
        let (blocker, control) = FakeBlocker::new(Mechanism::CgroupV2);
        let scripts = work_ms.iter().map(|work| Script::of(ms(*work))).collect();
        Self {
            cores,
            options: RunOptions {
                policy: policy.to_owned(),
                quantum: QUANTUM,
                ..RunOptions::default()
            },
            meter: Some(Ruler::failing_from(u32::MAX)),
            pinning: Pinning::Free,
            blocker,
            world: Machine::new(scripts, control),
            logs: tempfile::tempdir().expect("a directory"),
        }
    }

    /// Lets the blocker fail at the call of this kind with this number, from one.
    fn fail(&self, kind: Kind, nth: usize) {
        self.world.control.fail(kind, nth, 5);
    }

    fn run(mut self) -> (Result<BatchReport, RunError>, FakeControl, Diary) {
        self.options.logs = self.logs.path().to_owned();
        let control = self.world.control.clone();
        let count = self.world.scripts.len();
        let job = |index| Job::new(format!("job-{index}"), Command::Exec(vec!["true".into()]));
        let batch = Batch { jobs: (0..count).map(job).collect() };
        let plan = Plan {
            batch: &batch,
            policy: self.options.policy.clone(),
            pinning: self.pinning,
            programs: vec!["/bin/true".into(); count],
            frame: Frame::elsewhere(
                self.cores,
                None,
                Bus::default(),
                [None; MAX_MEDIA],
                Default::default(),
            ),
            knowledge: Knowledge { jobs: vec![Known::default(); count], notices: Vec::new() },
            placements: vec![None; count],
            timeline: None,
            notices: Vec::new(),
            options: &self.options,
        };
        let mechanisms = Mechanisms::new(
            Box::new(self.blocker),
            self.meter.map(|meter| Box::new(meter) as Box<dyn Meter>),
            Box::new(self.world),
            "fake".to_owned(),
            Vec::new(),
        );
        let diary = Diary::default();
        let report = plan.run(mechanisms, &mut diary.clone());
        (report, control, diary)
    }
}

fn calls_of(control: &FakeControl, kind: Kind) -> usize {
    control.calls().iter().filter(|call| kind(call)).count()
}

fn is_block_all(call: &Call) -> bool {
    *call == Call::BlockAll
}

fn is_run_only(call: &Call) -> bool {
    matches!(call, Call::RunOnly(_))
}

fn is_run_all(call: &Call) -> bool {
    *call == Call::RunAll
}

fn is_signal(call: &Call) -> bool {
    matches!(call, Call::Signal(..))
}

#[test]
fn two_jobs_on_one_core_take_turns_quantum_by_quantum() {
    let (report, control, _) = Case::new("round-robin", 1, &[250, 250]).run();
    let report = report.expect("nothing fails");
    assert_eq!(report.outcome, Outcome::Finished);
    // 0-100 A, -200 B, -300 A, -400 B, -450 A ends, backfill B until 500.
    let first = &report.jobs[0];
    let second = &report.jobs[1];
    assert_eq!((first.wall_s, second.wall_s), (0.45, 0.4));
    assert_eq!((first.quanta, second.quanta), (3, 3));
    assert_eq!((first.running_s, second.running_s), (0.25, 0.25));
    // One line per microsecond.
    assert_eq!(first.memory_reads, Some(250_000));
    assert_eq!(first.memory_writes, None, "this meter sees no writes");
    assert_eq!(first.bandwidth_mean, Some(64e6));
    assert_eq!(report.turnaround_s, 0.5);
    assert_eq!(calls_of(&control, is_block_all), 4);
    assert_eq!(control.known().len(), 0, "every place was given back");
}

#[test]
fn the_blocker_knows_the_demand_of_blocked_jobs() {
    let demands = |policy| {
        let (_, control, _) = Case::new(policy, 1, &[250, 150]).run();
        let mut demands = control.demands();
        demands.dedup();
        demands
    };
    let demand = |total, running| Demand { total, running };
    // B ends at 350 ms, and A runs alone until 400 ms.
    assert_eq!(demands("round-robin"), [demand(2, 1), demand(1, 1)]);
    assert_eq!(demands("os")[0], demand(2, 2));
}

#[test]
fn the_second_job_is_born_when_it_is_first_chosen() {
    let (_, control, _) = Case::new("round-robin", 1, &[250, 250]).run();
    let calls = control.calls();
    let birth = |job| {
        calls
            .iter()
            .position(|call| matches!(call, Call::Born(id, _) if id.0 == job))
            .expect("born")
    };
    let first_block = calls.iter().position(|call| *call == Call::BlockAll).expect("blocked");
    assert!(birth(0) < first_block && first_block < birth(1));
}

#[test]
fn the_operating_system_is_never_held_up_but_still_measured() {
    let (report, control, _) = Case::new("os", 2, &[250, 150, 350]).run();
    let report = report.expect("nothing fails");
    assert_eq!(calls_of(&control, is_block_all), 0);
    assert_eq!(calls_of(&control, is_run_only), 0);
    let report = &report.jobs[2];
    assert_eq!((report.wall_s, report.quanta, report.memory_reads), (0.35, 4, Some(350_000)));
}

#[test]
fn a_core_that_falls_free_is_filled_at_once() {
    let report = Case::new("round-robin", 1, &[30, 30, 30]).run().0.expect("nothing fails");
    assert_eq!(report.turnaround_s, 0.09, "three jobs fit into one quantum");
}

#[test]
fn children_that_outlive_the_first_process_belong_to_the_job() {
    let mut case = Case::new("round-robin", 1, &[30, 30]);
    case.world.scripts[0].children = ms(40);
    let report = &case.run().0.expect("nothing fails").jobs[0];
    assert!((0.07..=0.075).contains(&report.wall_s), "{}", report.wall_s);
    assert_eq!(report.exit_code, Some(0));
}

#[test]
fn a_failing_job_ends_the_batch_only_if_wanted() {
    let mut case = Case::new("round-robin", 1, &[30, 500]);
    case.world.scripts[0].code = 3;
    let report = case.run().0.expect("a failing job is no failing batch");
    assert_eq!(report.outcome, Outcome::Finished);
    assert_eq!(report.jobs[0].exit_code, Some(3));

    let mut case = Case::new("round-robin", 1, &[30, 500]);
    case.world.scripts[0].code = 3;
    case.options.on_failure = OnFailure::FailFast;
    let (report, control, _) = case.run();
    let report = report.expect("a failing job is no failing batch");
    assert_eq!(report.outcome, Outcome::FailedFast);
    assert!(control.calls().contains(&Call::Signal(JobId(1), 15)));
}

#[test]
fn a_program_that_vanished_is_a_failed_job() {
    let mut case = Case::new("round-robin", 1, &[30, 30]);
    case.world.scripts[0].exec_error = Some(2);
    let (report, control, _) = case.run();
    let report = report.expect("the other job runs");
    assert_eq!(report.jobs[0].exit_code, Some(127));
    assert_eq!(report.jobs[1].exit_code, Some(0));
    assert!(report.notices[0].contains("job-0 could not be started"), "{:?}", report.notices);
    assert_eq!(control.known().len(), 0);
}

#[test]
fn output_that_cannot_be_kept_is_a_lost_result() {
    let case = Case::new("round-robin", 2, &[30, 30]);
    std::fs::create_dir(case.logs.path().join("job-0.err")).expect("a directory in its way");
    let report = case.run().0.expect("both jobs run");
    assert_eq!(report.jobs[0].exit_code, Some(0));
    let [lost] = report.lost.as_slice() else { panic!("{:?}", report.lost) };
    assert!(lost.path.ends_with("/job-0.err"), "{lost:?}");
    assert!(report.notices[0].contains("the output is not kept"), "{:?}", report.notices);
}

#[test]
fn one_signal_asks_and_kills_later_two_kill_at_once() {
    let mut case = Case::new("round-robin", 1, &[60_000, 60_000]);
    case.world.stops = vec![ms(5_150)];
    let (report, control, _) = case.run();
    let report = report.expect("an orderly end");
    assert_eq!(report.outcome, Outcome::Interrupted);
    let calls = control.calls();
    let at = |call: Call| calls.iter().position(|c| *c == call).expect("called");
    assert!(at(Call::RunAll) < at(Call::Signal(JobId(0), 15)), "SIGTERM needs a thawed job");
    assert!(at(Call::Signal(JobId(0), 15)) < at(Call::Signal(JobId(0), 9)));
    assert!((2.15..2.3).contains(&report.turnaround_s), "{}", report.turnaround_s);
    assert_eq!(report.jobs[0].exit_code, Some(137));

    let mut case = Case::new("round-robin", 1, &[60_000, 60_000]);
    case.world.stops = vec![ms(5_150), ms(5_250)];
    let (report, ..) = case.run();
    let turnaround = report.expect("an orderly end").turnaround_s;
    assert!((0.25..0.4).contains(&turnaround), "{turnaround}");
}

/// A batch under a program that answers twice, and then that it gives up.
fn given_up() -> Case {
    let mut case = Case::new("mine", 1, &[60_000, 60_000, 60_000]);
    let command = "mine=read setup; for n in 1 2; do read view; echo '{\"jobs\": []}'; done; \
                   read view; echo '{\"error\": \"no idea\"}'";
    case.options.programs = vec![command.parse().expect("a command")];
    case
}

#[test]
fn a_policy_that_fails_ends_the_batch_as_a_signal_does() {
    let (report, control, diary) = given_up().run();
    let report = report.expect("what was measured until then");
    assert_eq!(report.outcome, Outcome::PolicyFailed);
    let error = report.policy_failure.expect("a failure").to_string();
    assert_eq!(error, "policy `mine` failed in quantum 1: it gave up: no idea");
    assert_eq!((report.quanta, report.jobs[0].exit_code), (2, Some(137)));
    let calls = control.calls();
    let at = |call: Call| calls.iter().position(|c| *c == call).expect("called");
    assert!(at(Call::RunAll) < at(Call::Signal(JobId(0), 15)), "SIGTERM needs a thawed job");
    assert_eq!(control.known().len(), 0, "every place was given back");
    let events = diary.0.lock().expect("one thread");
    let ended = events.iter().filter(|event| event.starts_with("JobEnded"));
    assert_eq!(ended.count(), 3, "those that had not been started too");

    let mut case = given_up();
    case.options.on_exit = OnExit::Release;
    let (report, control, _) = case.run();
    assert_eq!(report.expect("an orderly end").outcome, Outcome::PolicyFailed);
    assert_eq!(control.running().len(), 2, "both that were started");
    assert_eq!(calls_of(&control, is_signal), 0);
}

#[test]
fn a_job_that_ends_with_the_signal_is_not_waited_for() {
    let mut case = Case::new("round-robin", 2, &[150, 60_000]);
    case.world.stops = vec![ms(5_150)];
    let report = case.run().0.expect("an orderly end");
    assert_eq!((report.jobs[0].exit_code, report.jobs[0].wall_s), (Some(0), 0.15));
    assert_eq!(report.jobs[1].exit_code, Some(137));
}

#[test]
fn release_leaves_the_jobs_running() {
    let mut case = Case::new("round-robin", 1, &[60_000, 60_000, 60_000]);
    case.world.stops = vec![ms(5_150)];
    case.options.on_exit = OnExit::Release;
    let (report, control, _) = case.run();
    let report = report.expect("an orderly end");
    assert_eq!(control.running().len(), 2, "both that were started");
    assert_eq!(calls_of(&control, is_signal), 0);
    assert_eq!(report.jobs[0].exit_code, None);
    assert_eq!(report.notices.len(), 2);
}

#[test]
fn jobs_that_are_left_running_keep_no_core() {
    let mut case = Case::new("round-robin", 2, &[60_000; 3]);
    (case.world.stops, case.pinning) = (vec![ms(5_150)], Pinning::OneJobPerCore);
    case.options.on_exit = OnExit::Release;
    let bound = Arc::clone(&case.world.bound);
    case.run().0.expect("an orderly end");
    let bound = bound.lock().expect("one thread");
    assert_eq!(bound.len(), 3);
    assert!(bound.values().all(|cpus| *cpus == [0, 1]), "{bound:?}");
}

#[test]
fn a_meter_that_fails_costs_its_figures_and_nothing_else() {
    let mut case = Case::new("round-robin", 1, &[250, 250]);
    case.meter = Some(Ruler::failing_from(2));
    let (report, _, diary) = case.run();
    let report = report.expect("the batch goes on");
    assert_eq!(report.outcome, Outcome::Finished);
    let events = diary.0.lock().expect("one thread");
    assert_eq!(events.iter().filter(|event| event.starts_with("MeterFailed")).count(), 2);
    for job in [JobId(0), JobId(1)] {
        let report = &report.jobs[job.index()];
        assert_eq!((report.exit_code, report.memory_reads), (Some(0), None));
    }
    assert_eq!(report.notices.len(), 2, "one per job: {:?}", report.notices);
}

#[test]
fn writes_that_the_meter_does_not_count_are_no_figure_of_a_medium() {
    let mut case = Case::new("round-robin", 1, &[50]);
    let pram = MediumData::shipped("pram").expect("it is shipped");
    case.options.media = Media::with_dram(&[pram]).expect("two media");
    let report = case.run().0.expect("a report");
    let of_all = report.media.iter().map(|medium| (medium.memory_reads, medium.memory_writes));
    assert_eq!(Vec::from_iter(of_all), [(50_000, None), (0, None)]);
    let of_job = report.jobs[0].media.iter().map(|medium| (medium.reads, medium.writes));
    assert_eq!(Vec::from_iter(of_job), [(50_000, None), (0, None)]);
}

#[test]
fn a_job_whose_cpu_time_cannot_be_read_is_not_asleep() {
    let case = Case::new("round-robin", 1, &[250, 250]);
    case.world.control.fail_readings(1);
    let (report, control, _) = case.run();
    let selected: Vec<Call> = control.calls().into_iter().filter(is_run_only).collect();
    // Both jobs start in their first quanta, so that the first job is resumed in the third.
    let turns = [&[][..], &[], &[0], &[1], &[0], &[1]];
    let turns = turns.map(|jobs| Call::RunOnly(jobs.iter().copied().map(JobId).collect()));
    assert_eq!(selected, turns);
    let report = report.expect("the batch goes on");
    let running: Vec<f64> = report.jobs.iter().map(|job| job.running_s).collect();
    assert_eq!(running, [0.25, 0.25], "the second reading contains the first quantum");
}

#[test]
fn counts_of_two_quanta_by_cpu_time_are_no_rate_of_one() {
    let mut case = Case::new("round-robin", 1, &[250, 250]);
    case.meter = Some(Ruler { kind: MeterKind::Declared, ..Ruler::failing_from(u32::MAX) });
    case.world.control.fail_readings(1);
    let report = case.run().0.expect("the batch goes on");
    for job in &report.jobs {
        // A line per microsecond.
        assert_eq!((job.memory_reads, job.bandwidth_peak), (Some(250_000), Some(64e6)));
    }
}

#[test]
fn a_blocker_that_fails_lets_everything_run() {
    for kind in [is_block_all as Kind, is_run_only] {
        let case = Case::new("round-robin", 1, &[250, 250, 250]);
        case.fail(kind, 2);
        let (report, control, _) = case.run();
        let report = report.expect("the batch goes on");
        assert_eq!(report.outcome, Outcome::Finished);
        assert!(report.notices[0].contains("can no longer be blocked"), "{:?}", report.notices);
        assert_eq!(calls_of(&control, is_run_all), 1);
        // The machine has a core for every job, so all end within the time of one job and a turn.
        assert!(report.turnaround_s <= 0.6, "{}", report.turnaround_s);
    }
}

#[test]
fn a_suspension_blocks_all_jobs_and_resumes_those_that_ran() {
    let mut case = Case::new("round-robin", 2, &[250, 250, 250]);
    case.world.suspensions = vec![ms(5_050)];
    let (report, control, _) = case.run();
    assert_eq!(report.expect("the batch goes on").notices, [""; 0]);
    let calls = control.calls();
    let first = calls.iter().position(|call| *call == Call::BlockAll).expect("called");
    assert_eq!(calls[first + 1], Call::RunOnly(vec![JobId(0), JobId(1)]));

    let mut case = Case::new("round-robin", 1, &[250, 250]);
    case.world.suspensions = vec![ms(5_050), ms(5_150)];
    case.fail(is_block_all, 1);
    let notices = case.run().0.expect("the batch goes on").notices;
    assert!(notices[0].contains("can no longer be blocked"), "{notices:?}");
    assert!(notices[1].contains("ran on while memweir was stopped"), "{notices:?}");
}

#[test]
fn jobs_that_stay_blocked_are_resumed_with_the_next_decision() {
    let case = Case::new("round-robin", 1, &[250, 250, 250]);
    case.fail(is_block_all, 2);
    case.fail(is_run_all, 1);
    case.fail(is_run_all, 2);
    let (report, control, _) = case.run();
    let report = report.expect("the batch goes on");
    assert_eq!(report.outcome, Outcome::Finished);
    assert!(report.notices[1].contains("stay blocked until"), "{:?}", report.notices);
    assert_eq!(report.notices[2], "all jobs run again");
    assert_eq!(calls_of(&control, is_run_all), 3);
}

#[test]
fn a_loop_that_cannot_go_on_leaves_nothing_blocked() {
    let mut case = Case::new("round-robin", 1, &[1_000, 1_000]);
    case.world.fail_wait_at = Some(ms(5_300));
    let (report, control, _) = case.run();
    assert!(matches!(report, Err(RunError::Os(_))));
    assert_eq!(control.running().len(), 2);
}

#[test]
fn every_event_is_told() {
    let (_, _, diary) = Case::new("round-robin", 1, &[150]).run();
    let told = diary.0.lock().expect("one thread");
    assert!(told[0].starts_with("BusKnown"), "{told:?}");
    assert!(told[1].starts_with("JobStarted"), "{told:?}");
    assert!(told.iter().any(|event| event.starts_with("QuantumEnded")), "{told:?}");
    assert!(told.iter().any(|event| event.starts_with("Switched")), "{told:?}");
    assert!(told.iter().any(|event| event.contains("JobEnded") && event.contains("Some(0)")));
}

#[test]
fn a_late_wake_up_is_measured_as_it_was() {
    let mut case = Case::new("round-robin", 1, &[1_000]);
    case.world.late = ms(30);
    let report = &case.run().0.expect("nothing fails").jobs[0];
    assert_eq!((report.bandwidth_mean, report.bandwidth_peak), (Some(64e6), Some(64e6)));
    assert_eq!(report.memory_reads, Some(1_000_000));
}

#[test]
fn starting_the_first_jobs_is_no_part_of_the_first_quantum() {
    let mut case = Case::new("round-robin", 2, &[200, 200]);
    case.world.labor = ms(40);
    let report = case.run().0.expect("nothing fails");
    // The second birth ends 80 ms after the start, both programs start then.
    assert_eq!((report.turnaround_s, report.quanta), (0.2, 2));
    assert_eq!((report.bandwidth_mean, report.bandwidth_std), (Some(128e6), Some(0.0)));
}

#[test]
fn a_job_that_is_over_before_its_start_is_known_has_all_of_its_time() {
    let mut case = Case::new("round-robin", 1, &[5]);
    case.world.head_start = ms(4);
    let report = case.run().0.expect("nothing fails");
    let job = &report.jobs[0];
    assert_eq!((report.turnaround_s, job.wall_s, job.running_s), (0.005, 0.005, 0.005));
    // 5,000 lines in 5 ms, and not in the last of them.
    assert_eq!((job.bandwidth_mean, job.bandwidth_peak), (Some(64e6), Some(64e6)));
    assert_eq!(report.bandwidth_mean, Some(64e6));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any jobs and policy, all jobs end, all their work is accounted for, and no core is idle
    /// while a job waits.
    #[test]
    fn every_batch_ends_with_its_work_accounted_for(
        policy in prop::sample::select(
            memweir_policy::policies::names().collect::<Vec<_>>()
        ),
        cores in 1u32..5,
        work in prop::collection::vec(1u64..700, 1..12),
        late in 0u64..60,
    ) {
        let total: u64 = work.iter().sum();
        let longest = work.iter().max().copied().unwrap_or(0);
        let mut case = Case::new(policy, cores, &work);
        case.world.late = ms(late);
        let (report, control, _) = case.run();
        let report = report.expect("nothing fails");
        prop_assert_eq!(report.outcome, Outcome::Finished);
        prop_assert_eq!(control.known().len(), 0);
        let mut seconds = 0.0;
        for (index, work) in work.iter().enumerate() {
            let report = &report.jobs[index];
            prop_assert_eq!(report.exit_code, Some(0));
            prop_assert_eq!(report.memory_reads, Some(work * 1_000));
            prop_assert!(report.quanta > 0);
            seconds += report.running_s;
        }
        prop_assert!((seconds - total as f64 / 1e3).abs() < 1e-6);
        let took = Nanos::from_secs_f64(report.turnaround_s);
        if policy != "os" {
            // Graham's bound for a list schedule: no core idles while a job waits.
            let bound = total / u64::from(cores) + longest + 1;
            prop_assert!(took <= ms(bound), "{:?} > {} ms", took, bound);
        }
    }
}
