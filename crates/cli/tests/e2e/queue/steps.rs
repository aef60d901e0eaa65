//! A fault at each step of a daemon, in the first one of a queue and in those that take over jobs:
//! no job is lost, and none runs twice.

use std::process::{Command, ExitStatus};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::{Daemon, client, daemon, launch, spawned};
use crate::steps::{Fault, Reached, Steps, ended_by, reached};
use crate::support::{World, wait_until};

const OPTIONS: [&str; 6] = ["--policy", "round-robin", "--admit", "2", "--quantum", "20ms"];

/// Time for which a daemon is left alone with jobs that cannot end without room.
const WITHOUT_ROOM: Duration = Duration::from_millis(300);

/// Exit code of memweir where the machine refuses.
const REFUSED: i32 = 3;
const CANCELED: i32 = 143;

/// By this a job says that it begins.
const BEGINS: &str = "echo >> began.$MEMWEIR_JOB_ID";

/// State of a queue before the first fault.
#[derive(Clone, Copy, Debug)]
enum Queue {
    /// Nothing is there.
    New,
    /// Its daemon was killed. One of its jobs runs, and one has ended since.
    Left,
}

/// One queue, of which daemons meet faults.
struct Trial {
    daemon: Daemon,
    /// Jobs that a daemon has confirmed.
    confirmed: Vec<u32>,
    /// Those that wait for their release or their cancellation.
    held: Vec<u32>,
    /// Those of which a daemon has confirmed that.
    changed: Vec<u32>,
}

impl Trial {
    fn new(queue: Queue) -> Self {
        let (daemon, confirmed) = match queue {
            Queue::New => {
                // There is no daemon yet.
                let process = Command::new("true").spawn().expect("it starts");
                (Daemon { world: World::new(), process }, Vec::new())
            }
            Queue::Left => left_by_a_killed_daemon(),
        };
        Self { daemon, confirmed, held: Vec::new(), changed: Vec::new() }
    }

    /// Lets the next daemon meet a fault.
    fn meet(&mut self, fault: Fault, step: u64, steps: &Steps) -> Reached {
        let what = format!("{fault:?} at step {step}");
        let world = &self.daemon.world;
        let mut command = daemon(world, &OPTIONS);
        steps.arm(&mut command, world, fault, step);
        self.daemon.process = spawned(world, &mut command);
        wait_until("the daemon answers or ends", || {
            self.end().is_some() || self.granted("status", &[]).is_some()
        });
        self.use_it(fault);
        let reached = reached(&self.daemon.world, step);
        match (fault, self.end()) {
            (Fault::Kill | Fault::Interrupt, _) if reached == Reached::No => {}
            (Fault::Kill, _) => wait_until("it is killed", || {
                self.end().is_some_and(|end| ended_by(end, Signal::SIGKILL))
            }),
            (Fault::Interrupt, _) => {
                wait_until("it ends", || self.end().is_some());
                let end = self.end().expect("it has ended");
                assert!(end.success() || ended_by(end, Signal::SIGINT), "{what}: {end:?}");
            }
            (_, Some(end)) => assert_eq!(end.code(), Some(REFUSED), "{what}: {end:?}"),
            (Fault::Shortage, None) => self.assert_ends(&what),
            (Fault::LastingShortage, None) => {}
        }
        let _ = self.daemon.process.kill();
        let _ = self.daemon.process.wait();
        reached
    }

    /// The end of the daemon, if it has ended.
    fn end(&mut self) -> Option<ExitStatus> {
        self.daemon.process.try_wait().expect("a child")
    }

    /// The answer to a client, if the daemon has granted its request.
    fn granted(&self, verb: &str, arguments: &[&str]) -> Option<String> {
        let output = client(&self.daemon.world, verb).args(arguments).output().expect("it starts");
        let said = String::from_utf8(output.stdout).expect("text");
        output.status.success().then(|| said.trim().to_owned())
    }

    fn submit(&mut self, options: &[&str], name: &str) -> Option<u32> {
        let script = format!("{BEGINS}; exit {name}");
        let named = ["--parsable", "--name", name];
        let job = self.granted("submit", &[&named, options, &["--", "sh", "-c", &script]].concat());
        let job = job?.parse().expect("a number");
        self.confirmed.push(job);
        Some(job)
    }

    /// Releases or cancels a job, as its name demands, unless that was granted before.
    fn change(&mut self, job: u32, name: &str) {
        let verb = if name == "canceled" { "cancel" } else { "release" };
        if !self.changed.contains(&job) && self.granted(verb, &[&job.to_string()]).is_some() {
            self.changed.push(job);
            self.held.retain(|held| *held != job);
        }
    }

    /// Changes the queue in each way that there is, for as long as the daemon lives.
    fn use_it(&mut self, fault: Fault) {
        self.submit(&[], "0");
        for name in ["5", "canceled"] {
            if let Some(job) = self.submit(&["--hold"], name) {
                self.held.push(job);
                self.change(job, name);
            }
        }
        self.daemon.world.file("go", "");
        if fault == Fault::LastingShortage {
            std::thread::sleep(WITHOUT_ROOM);
            return;
        }
        for job in self.confirmed.iter().filter(|job| !self.held.contains(job)) {
            let _ = client(&self.daemon.world, "wait").arg(job.to_string()).output();
        }
    }

    /// Asserts that each job has the end of its name, and began once, or never if it was canceled.
    fn assert_ends(&mut self, what: &str) {
        let jobs = self.daemon.jobs();
        let ids: Vec<_> = jobs.iter().filter_map(|job| job["id"].as_u64()).collect();
        let lost = self.confirmed.iter().find(|job| !ids.contains(&u64::from(**job)));
        assert_eq!(lost, None, "{what}: it is not in the list");
        for (job, id) in jobs.iter().zip(ids) {
            let (id, name) = (id as u32, job["name"].as_str().expect("a name"));
            self.change(id, name);
            let code = name.parse().unwrap_or(CANCELED);
            let (end, log) = (self.daemon.wait(id), self.daemon.world.read("daemon.log"));
            assert_eq!(end, code, "{what}: {}\n{log}", self.daemon.job(id));
            let began = self.daemon.world.path().join(format!("began.{id}"));
            let times = std::fs::read_to_string(began).unwrap_or_default().lines().count();
            assert_eq!(times, usize::from(code != CANCELED), "{what}: starts of job {id}");
        }
    }
}

/// A daemon that was killed while two jobs ran, of which one has ended since.
fn left_by_a_killed_daemon() -> (Daemon, Vec<u32>) {
    let mut daemon = Daemon::start(&OPTIONS);
    let jobs = ["go", "end"].map(|file| {
        let waits = format!("{BEGINS}; while [ ! -e {file} ]; do sleep 0.01; done; exit 4");
        daemon.submit(&["--name", "4"], &waits)
    });
    wait_until("both run", || daemon.world.has("began.1") && daemon.world.has("began.2"));
    daemon.kill();
    daemon.world.file("end", "");
    wait_until("its end is on disk", || daemon.world.has("state/runs/2.1.exit"));
    (daemon, jobs.into())
}

/// Lets daemons of one queue meet these faults, the first of them at each step.
fn try_steps(queue: Queue, faults: &[Fault]) {
    let Some(steps) = Steps::compiled() else { return };
    Steps::each(|step| {
        let mut trial = Trial::new(queue);
        let reached = trial.meet(faults[0], step, &steps);
        for fault in &faults[1..] {
            // Any step, but the same one each time.
            trial.meet(*fault, 1 + step * 37 % 101, &steps);
        }
        trial.daemon.process = launch(&trial.daemon.world, &OPTIONS);
        trial.assert_ends(&format!("{queue:?}, {faults:?}, the first at step {step}"));
        reached
    });
}

#[test]
fn a_first_daemon_can_be_killed_at_each_step() {
    try_steps(Queue::New, &[Fault::Kill]);
}

#[test]
fn a_successor_can_be_killed_at_each_step() {
    try_steps(Queue::Left, &[Fault::Kill]);
}

#[test]
fn a_first_daemon_can_be_short_of_room_at_each_step() {
    try_steps(Queue::New, &[Fault::Shortage]);
}

#[test]
fn a_successor_can_be_short_of_room_at_each_step() {
    try_steps(Queue::Left, &[Fault::Shortage]);
}

#[test]
fn a_daemon_can_be_left_without_room_at_each_step() {
    try_steps(Queue::New, &[Fault::LastingShortage]);
    try_steps(Queue::Left, &[Fault::LastingShortage]);
}

#[test]
fn a_daemon_can_be_interrupted_at_each_step() {
    try_steps(Queue::New, &[Fault::Interrupt]);
    try_steps(Queue::Left, &[Fault::Interrupt]);
}

#[test]
fn the_successor_of_a_killed_daemon_can_be_killed_too() {
    try_steps(Queue::New, &[Fault::Kill, Fault::Kill]);
}

#[test]
fn the_successor_of_a_killed_daemon_can_be_short_of_room() {
    try_steps(Queue::New, &[Fault::Kill, Fault::Shortage]);
    try_steps(Queue::New, &[Fault::Kill, Fault::LastingShortage]);
}

#[test]
fn the_successor_of_a_daemon_without_room_can_be_killed() {
    try_steps(Queue::Left, &[Fault::LastingShortage, Fault::Kill]);
}
