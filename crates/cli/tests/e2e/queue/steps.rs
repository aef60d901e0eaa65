//! A fault at each step of a daemon, in the first one of a queue and in one that takes over jobs:
//! no job is lost, and none runs twice.

use std::process::{ExitStatus, Stdio};

use nix::sys::signal::Signal;

use super::{Daemon, client, daemon, launch};
use crate::steps::{Fault, Reached, Steps, is_killed, reached};
use crate::support::{World, send, wait_until};

const OPTIONS: [&str; 6] = ["--policy", "round-robin", "--admit", "2", "--quantum", "20ms"];

/// Exit code of memweir where the machine refuses.
const REFUSED: i32 = 3;
const CANCELED: i32 = 143;

/// By this a job says that it begins.
const BEGINS: &str = "echo >> began.$MEMWEIR_JOB_ID";

#[derive(Clone, Copy, Debug)]
enum Life {
    /// The daemon finds nothing.
    First,
    /// It finds a job that runs, and one that has ended without a daemon.
    Second,
}

/// One queue, of which a daemon meets a fault.
struct Trial {
    daemon: Daemon,
    /// Jobs that a daemon has confirmed.
    confirmed: Vec<u32>,
    /// Those of which it has confirmed the release or the cancellation.
    changed: Vec<u32>,
}

impl Trial {
    fn start(life: Life, fault: Fault, step: u64, steps: &Steps) -> Self {
        let (world, confirmed) = match life {
            Life::First => (World::new(), Vec::new()),
            Life::Second => left_by_a_killed_daemon(),
        };
        let mut command = daemon(&world, &OPTIONS);
        let log = std::fs::File::create(world.path().join("daemon.log")).expect("a file");
        steps.arm(&mut command, &world, fault, step);
        let process = command.stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
        let mut trial = Self { daemon: Daemon { world, process }, confirmed, changed: Vec::new() };
        wait_until("the daemon answers or ends", || {
            trial.end().is_some() || trial.granted("status", &[]).is_some()
        });
        trial
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
        }
    }

    /// Changes the queue in each way that there is, for as long as the daemon lives.
    fn use_it(&mut self) {
        self.submit(&[], "0");
        let ready = self.confirmed.clone();
        for name in ["5", "canceled"] {
            if let Some(job) = self.submit(&["--hold"], name) {
                self.change(job, name);
            }
        }
        self.daemon.world.file("go", "");
        for job in ready.iter().chain(&self.changed) {
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

/// The world of a daemon that was killed while two jobs ran, of which one has ended since.
fn left_by_a_killed_daemon() -> (World, Vec<u32>) {
    let world = World::new();
    let process = launch(&world, &OPTIONS);
    let mut first = Daemon { world, process };
    let jobs = ["go", "end"].map(|file| {
        let waits = format!("{BEGINS}; while [ ! -e {file} ]; do sleep 0.01; done; exit 4");
        first.submit(&["--name", "4"], &waits)
    });
    wait_until("both run", || first.world.has("began.1") && first.world.has("began.2"));
    send(&first.process, Signal::SIGKILL);
    first.process.wait().expect("it was killed");
    first.world.file("end", "");
    wait_until("its end is on disk", || first.world.has("state/runs/2.1.exit"));
    (std::mem::replace(&mut first.world, World::new()), jobs.into())
}

fn try_step(life: Life, fault: Fault, step: u64, steps: &Steps) -> Reached {
    let what = format!("{life:?}, {fault:?} at step {step}");
    let mut trial = Trial::start(life, fault, step, steps);
    trial.use_it();
    let reached = reached(&trial.daemon.world, step);
    match (fault, trial.end()) {
        (Fault::Kill, _) if reached == Reached::No => {}
        (Fault::Kill, _) => wait_until("it is killed", || trial.end().is_some_and(is_killed)),
        (Fault::Shortage, Some(end)) => assert_eq!(end.code(), Some(REFUSED), "{what}: {end:?}"),
        (Fault::Shortage, None) => trial.assert_ends(&what),
    }
    let _ = trial.daemon.process.kill();
    let _ = trial.daemon.process.wait();
    trial.daemon.process = launch(&trial.daemon.world, &OPTIONS);
    trial.assert_ends(&format!("{what}, and then"));
    reached
}

fn try_steps(life: Life, fault: Fault) {
    let Some(steps) = Steps::compiled() else { return };
    Steps::each(|step| try_step(life, fault, step, &steps));
}

#[test]
fn a_first_daemon_can_be_killed_at_each_step() {
    try_steps(Life::First, Fault::Kill);
}

#[test]
fn a_successor_can_be_killed_at_each_step() {
    try_steps(Life::Second, Fault::Kill);
}

#[test]
fn a_first_daemon_can_be_short_of_room_at_each_step() {
    try_steps(Life::First, Fault::Shortage);
}

#[test]
fn a_successor_can_be_short_of_room_at_each_step() {
    try_steps(Life::Second, Fault::Shortage);
}
