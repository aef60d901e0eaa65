//! The queue on a machine without processes: its clock jumps, and the test writes the files that
//! supervisors would leave.

use std::io;
use std::sync::{Mutex, PoisonError};

use memweir_core::BytesPerSec;
use memweir_linux::blocker::{Mechanism, SpawnTarget};
use memweir_linux::fake::{Call, FakeBlocker, FakeControl};
use memweir_linux::foreign::ProcessName;
use memweir_linux::launch::{Launch, LaunchError};
use memweir_linux::peer::Credentials;
use memweir_linux::signals::Signal;
use memweir_linux::waker::Waker;
use memweir_linux::world::{Occurrence, World};
use memweir_policy::{Ending, Running};

use super::*;
use crate::attempt::{Attempts, Claim, Exit};
use crate::protocol::{Listing, Reply, Request};
use crate::queue::{Capacity, End, Loss, State};
use crate::recovery::recover;
use crate::service::Facts;
use crate::service::tests::submission;
use crate::store::Store;

const FIRST: JobId = JobId(1);

#[derive(Default)]
struct Script {
    now: Nanos,
    occurrences: Vec<Occurrence>,
    /// True if no program can be executed.
    refuses: bool,
}

#[derive(Clone)]
struct Machine {
    script: Arc<Mutex<Script>>,
    control: FakeControl,
}

impl Machine {
    fn with<T>(&self, act: impl FnOnce(&mut Script) -> T) -> T {
        act(&mut self.script.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl World for Machine {
    fn now(&self) -> Nanos {
        self.with(|script| script.now)
    }

    fn wait(&mut self, until: Nanos) -> io::Result<Vec<Occurrence>> {
        self.with(|script| {
            if script.occurrences.is_empty() {
                script.now = script.now.max(until);
            }
            Ok(std::mem::take(&mut script.occurrences))
        })
    }

    fn spawn(&mut self, job: JobId, _: &Launch, _: &SpawnTarget) -> Result<i32, LaunchError> {
        Ok(1000 + job.0 as i32)
    }

    fn exec(&mut self, job: JobId) -> Result<(), LaunchError> {
        if !self.with(|script| script.refuses) {
            return Ok(());
        }
        self.control.empty(job);
        let source = io::ErrorKind::WouldBlock.into();
        Err(LaunchError { what: "executing".to_owned(), source, help: None })
    }

    fn bind(&mut self, _: JobId, _: &[usize]) -> io::Result<()> {
        Ok(())
    }

    fn forget(&mut self, _: JobId) {}
}

/// Exit codes of the jobs whose ends an observer was told of.
#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Vec<Option<i32>>>>);

impl Observer for Ends {
    fn event(&mut self, event: observer::Event<'_>) {
        if let observer::Event::JobEnded { exit_code, .. } = event {
            self.0.lock().unwrap().push(exit_code);
        }
    }
}

struct Daemon {
    service: Arc<Service>,
    backend: QueueBackend<'static>,
    control: FakeControl,
    machine: Machine,
    ends: Ends,
    directory: tempfile::TempDir,
}

impl Daemon {
    /// Returns the daemon of a queue with so many jobs on as many cores.
    fn of(jobs: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let facts = Facts { state: directory.path().to_owned(), ..Facts::default() };
        Attempts::new(directory.path()).create().unwrap();
        let store = Store::open(&directory.path().join("queue.sqlite")).unwrap();
        let capacity = Capacity { cores: jobs, admit: jobs };
        let owner = Credentials::of_this_process().user;
        let service = Service::open(store, capacity, owner, Waker::new().unwrap(), facts).unwrap();
        let service = Arc::new(service);
        let (blocker, control) = FakeBlocker::new(Mechanism::CgroupV2);
        let machine = Machine { script: Arc::default(), control: control.clone() };
        let world = Box::new(machine.clone());
        let mechanisms =
            Mechanisms::new(Box::new(blocker), None, world, "fake".to_owned(), Vec::new());
        let ends = Ends::default();
        let observer = Box::leak(Box::new(ends.clone()));
        let backend =
            QueueBackend::new(Arc::clone(&service), mechanisms, Nanos::MILLI, None, observer);
        let daemon = Self { service, backend, control, machine, ends, directory };
        (0..jobs).for_each(|_| daemon.ask(Request::Submit(Box::new(submission()))));
        daemon
    }

    fn ask(&self, request: Request) {
        let reply = self.service.handle(&Credentials::of_this_process().into(), request);
        assert!(!matches!(reply, Reply::Refused(_)), "{reply:?}");
    }

    /// Waits for `ms` milliseconds, or until the loop is told something.
    fn wait(&mut self, ms: u64) -> Vec<quantum_loop::Event> {
        let until = self.machine.now() + Nanos::from_millis(ms);
        self.backend.wait(until).unwrap()
    }

    /// Starts these jobs, which the loop knows.
    fn resume(&mut self, jobs: &[JobId]) -> Vec<(JobId, Start)> {
        let decision = Decision {
            running: Running::Only(jobs.to_vec()),
            chosen: jobs.to_vec(),
            predicted: BytesPerSec::ZERO,
            target: None,
        };
        self.backend.resume(&decision, jobs)
    }

    /// Returns a daemon whose only job has started.
    fn running() -> Self {
        let mut daemon = Self::of(1);
        assert!(matches!(daemon.wait(0)[..], [quantum_loop::Event::Arrived(_)]));
        assert_eq!(daemon.resume(&[FIRST]), [(FIRST, Start::At(Nanos::ZERO))]);
        daemon
    }

    /// Ends the first process of the job; its supervisor writes that end, if any.
    fn supervisor_ends(&self, exit: Option<Exit>) {
        let attempt = self.service.attempt(&self.service.job(FIRST).unwrap());
        attempt.claim(&Claim::Begun(ProcessName::of_this_process().unwrap())).unwrap();
        exit.into_iter().for_each(|exit| attempt.end(exit).unwrap());
        let exited = Occurrence::Exited { job: FIRST, code: 0, cpu_time: None };
        self.machine.with(|script| script.occurrences.push(exited));
    }

    fn files_of_attempts(&self) -> usize {
        std::fs::read_dir(self.directory.path().join("runs")).unwrap().count()
    }

    fn state(&self) -> State {
        self.service.job(FIRST).unwrap().state
    }

    /// Checks that the job waits after so many attempts, and starts it again.
    fn is_held_until_it_starts(&mut self, attempts: u32) {
        let job = self.service.job(FIRST).unwrap();
        assert_eq!((job.state, job.attempt), (State::Pending, attempts));
        assert!(job.held_by.is_some() && self.wait(0).is_empty());
        self.machine.with(|script| script.refuses = false);
        while self.service.job(FIRST).unwrap().held_by.is_some() {
            self.service.catch_up();
        }
        assert!(matches!(self.wait(0)[..], [quantum_loop::Event::Arrived(_)]));
        assert!(matches!(self.resume(&[FIRST])[..], [(FIRST, Start::At(_))]));
        assert_eq!(self.state(), State::Running);
    }

    fn signals(&self) -> Vec<i32> {
        let signal = |call| if let Call::Signal(_, signal) = call { Some(signal) } else { None };
        self.control.calls().into_iter().filter_map(signal).collect()
    }
}

fn exit(code: i32) -> Exit {
    Exit { code, short_of_memory: false, refused: false }
}

/// Returns how the only event ends the job.
fn ending(events: &[quantum_loop::Event]) -> Ending {
    match events {
        [quantum_loop::Event::Ended { observation, ending, .. }] if observation.job == FIRST => {
            *ending
        }
        other => panic!("no end alone: {other:?}"),
    }
}

#[test]
fn a_job_ends_with_its_last_process_and_the_code_that_its_supervisor_left() {
    for (code, expected) in [(0, Ending::Completed), (3, Ending::Unfinished)] {
        let mut daemon = Daemon::running();
        assert_eq!(daemon.state(), State::Running);
        assert!(daemon.wait(0).is_empty() && daemon.signals().is_empty());
        daemon.supervisor_ends(Some(exit(code)));
        assert!(daemon.wait(1_000).is_empty(), "a process in the background goes on");
        assert!(daemon.wait(1_000).is_empty());
        assert_eq!(daemon.machine.now(), Nanos::from_millis(5), "it is looked for often");
        assert_eq!(daemon.state(), State::Running);
        daemon.control.empty(FIRST);
        assert_eq!(ending(&daemon.wait(1_000)), expected);
        assert_eq!(daemon.state(), State::Ended(End::Exited(code)));
        assert!(daemon.control.known().is_empty() && daemon.wait(1_000).is_empty());
        assert_eq!(daemon.files_of_attempts(), 0);
    }
}

#[test]
fn a_supervisor_that_leaves_no_code_loses_its_job() {
    let mut daemon = Daemon::running();
    daemon.supervisor_ends(None);
    daemon.control.empty(FIRST);
    assert_eq!(ending(&daemon.wait(1_000)), Ending::Unfinished);
    assert_eq!(daemon.state(), State::Ended(End::Lost(Loss::Supervisor)));
}

#[test]
fn a_canceled_job_is_asked_to_end_once_and_then_killed_until_it_is_gone() {
    let mut daemon = Daemon::running();
    daemon.ask(Request::Cancel { ids: vec![(FIRST, FIRST)] });
    let mut sent = Vec::new();
    for _ in 0..3 {
        assert!(daemon.wait(60_000).is_empty());
        sent.push((daemon.machine.now(), daemon.signals().len()));
    }
    // Each wait ends when the next signal is due, 2 s after the last.
    assert_eq!(
        sent,
        [(2, 1), (4, 2), (6, 3)].map(|(s, count)| (Nanos::from_millis(1000 * s), count))
    );
    assert_eq!(
        daemon.signals(),
        [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGKILL].map(|s| s as i32)
    );
    daemon.supervisor_ends(Some(exit(0)));
    assert_eq!(ending(&daemon.wait(1_000)), Ending::Unfinished);
    assert_eq!(daemon.state(), State::Ended(End::Canceled(Some(0))));
}

#[test]
fn jobs_that_are_withdrawn_before_their_first_quantum_leave_the_loop() {
    let mut daemon = Daemon::of(1);
    assert_eq!(daemon.wait(0).len(), 1);
    assert!(daemon.wait(0).is_empty(), "it stays until it is withdrawn");
    daemon.ask(Request::Hold { ids: vec![(FIRST, FIRST)] });
    assert_eq!(ending(&daemon.wait(0)), Ending::Unfinished);
    daemon.ask(Request::Release { ids: vec![(FIRST, FIRST)] });
    assert!(matches!(daemon.wait(0)[..], [quantum_loop::Event::Arrived(_)]));
    // One that is held and released between two looks arrives anew.
    daemon.ask(Request::Hold { ids: vec![(FIRST, FIRST)] });
    daemon.ask(Request::Release { ids: vec![(FIRST, FIRST)] });
    use quantum_loop::Event::{Arrived, Ended};
    assert!(matches!(daemon.wait(0)[..], [Ended { .. }, Arrived(_)]));
    // The loop may select it in the very moment in which it is canceled.
    daemon.ask(Request::Cancel { ids: vec![(FIRST, FIRST)] });
    assert_eq!(daemon.resume(&[FIRST]), [(FIRST, Start::Failed)]);
    assert!(daemon.wait(0).is_empty() && daemon.control.calls().len() == 1);
}

#[test]
fn a_job_for_which_the_machine_has_no_room_waits_and_starts_later() {
    let mut daemon = Daemon::of(1);
    daemon.wait(0);
    daemon.machine.with(|script| script.refuses = true);
    assert_eq!(daemon.resume(&[FIRST]), [(FIRST, Start::Failed)]);
    assert_eq!(daemon.files_of_attempts(), 0);
    daemon.is_held_until_it_starts(1);
    // Its supervisor may be the first to find no room.
    daemon.supervisor_ends(Some(Exit { refused: true, ..exit(126) }));
    daemon.control.empty(FIRST);
    assert_eq!(ending(&daemon.wait(0)), Ending::Unfinished);
    assert_eq!(*daemon.ends.0.lock().unwrap(), [None], "it no longer counts as one that runs");
    daemon.is_held_until_it_starts(2);
}

#[test]
fn a_job_whose_files_cannot_be_made_waits_and_starts_later() {
    let mut daemon = Daemon::of(1);
    daemon.wait(0);
    let runs = daemon.directory.path().join("runs");
    std::fs::remove_dir(&runs).unwrap();
    assert_eq!(daemon.resume(&[FIRST]), [(FIRST, Start::Failed)]);
    std::fs::create_dir(&runs).unwrap();
    daemon.is_held_until_it_starts(1);
}

#[test]
fn a_successor_loses_a_job_with_damaged_files_and_starts_one_that_never_began() {
    let mut daemon = Daemon::running();
    recover(&daemon.service, &mut daemon.backend).unwrap();
    assert_eq!(daemon.state(), State::Pending);
    let mut daemon = Daemon::running();
    let end = daemon.directory.path().join("runs/1.1.exit");
    std::fs::write(end, "damaged").unwrap();
    recover(&daemon.service, &mut daemon.backend).unwrap();
    assert_eq!(daemon.state(), State::Ended(End::Lost(Loss::Files)));
}

#[test]
fn the_time_before_an_adoption_is_part_of_no_quantum() {
    let mut daemon = Daemon::running();
    let hour = Nanos::from_millis(3_600_000);
    daemon.control.set_cpu_time(FIRST, hour);
    let job = daemon.service.job(FIRST).unwrap();
    let process = ProcessName::of_this_process().unwrap().open().unwrap().unwrap();
    daemon.backend.adopt(&job, process);
    daemon.control.set_cpu_time(FIRST, hour + Nanos::from_millis(5));
    assert_eq!(daemon.backend.read(&[FIRST])[0].cpu_time, Some(Nanos::from_millis(5)));
}

#[test]
fn a_daemon_that_stops_leaves_every_job_running() {
    let mut daemon = Daemon::of(2);
    assert_eq!(daemon.wait(0).len(), 2);
    let both = [FIRST, JobId(2)];
    assert_eq!(daemon.resume(&both).len(), 2);
    daemon.resume(&[FIRST]);
    assert_eq!(daemon.control.running(), BTreeSet::from([FIRST]));
    let list = Request::Queue { which: Listing::Unfinished };
    let reply = daemon.service.handle(&Credentials::of_this_process().into(), list);
    let Reply::Jobs(views) = reply else { panic!("no list: {reply:?}") };
    assert_eq!(views.iter().map(|view| view.blocked).collect::<Vec<_>>(), [false, true]);
    assert!(daemon.backend.stop().unwrap().is_empty());
    assert_eq!(daemon.control.running(), BTreeSet::from(both));
}
