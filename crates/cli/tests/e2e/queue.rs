//! The queue: the real daemon, its clients and real jobs, with a socket and a state of the test.

mod death;
mod faults;
mod known;
mod load;
mod metrics;
mod people;
mod steps;
mod top;

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command as StdCommand, Stdio};
use std::time::Duration;

use assert_cmd::Command;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{World, json, refusal, send, stdout_of, wait_until};

/// A daemon in the world of a test. It ends with the test.
struct Daemon {
    world: World,
    process: Child,
}

impl Daemon {
    /// Starts a daemon on one core whose jobs never take turns, unless the options say otherwise.
    fn start(options: &[&str]) -> Self {
        let world = World::new();
        let process = launch(&world, options);
        Self { world, process }
    }

    /// Kills the daemon and starts its successor.
    fn succeed(&mut self, options: &[&str]) {
        self.kill();
        self.process = launch(&self.world, options);
    }

    fn kill(&mut self) {
        send(&self.process, Signal::SIGKILL);
        self.process.wait().expect("it was killed");
    }

    /// Ends the daemon in order.
    fn end(&mut self) {
        send(&self.process, Signal::SIGTERM);
        assert!(self.process.wait().expect("it ends").success());
    }

    /// A client of this daemon.
    fn client(&self, verb: &str) -> Command {
        client(&self.world, verb)
    }

    /// Submits a shell script and returns the number of its job.
    fn submit(&self, options: &[&str], script: &str) -> u32 {
        self.submit_range(options, script).parse().expect("a number")
    }

    fn submit_range(&self, options: &[&str], script: &str) -> String {
        let mut command = self.client("submit");
        command.arg("--parsable").args(options).args(["--", "sh", "-c", script]);
        stdout_of(&mut command, 0).trim().to_owned()
    }

    /// The jobs as JSON, the oldest first.
    fn jobs(&self) -> Vec<Value> {
        let value = json(self.client("queue").args(["--all", "--json"]), 0);
        value["jobs"].as_array().expect("a list").clone()
    }

    fn job(&self, id: u32) -> Value {
        self.jobs().into_iter().find(|job| job["id"] == id).expect("a job")
    }

    fn state(&self, id: u32) -> String {
        self.job(id)["state"].as_str().expect("a state").to_owned()
    }

    fn reason(&self, id: u32) -> String {
        self.job(id)["reason"].as_str().unwrap_or_default().to_owned()
    }

    fn wait(&self, id: u32) -> i32 {
        let output = self.client("wait").arg(id.to_string()).output().expect("it starts");
        output.status.code().unwrap_or_else(|| {
            panic!("no end of {}\n{}", self.job(id), self.world.read("daemon.log"))
        })
    }

    fn log(&self, id: u32) -> String {
        stdout_of(self.client("log").arg(id.to_string()), 0)
    }

    fn command(&self, verb: &str, id: u32) {
        self.client(verb).arg(id.to_string()).assert().success();
    }

    fn runs(&self, id: u32) {
        wait_until("the job runs", || self.state(id) == "running");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn socket(world: &World) -> PathBuf {
    world.path().join("socket")
}

fn client(world: &World, verb: &str) -> Command {
    let mut command = world.memweir();
    command.arg(verb).arg("--socket").arg(socket(world));
    command
}

fn daemon(world: &World, options: &[&str]) -> StdCommand {
    let mut command = world.without_input();
    command.args(["daemon", "--cores", "1"]).arg("--socket").arg(socket(world));
    command.arg("--state").arg(world.path().join("state")).args(options);
    command
}

fn launch(world: &World, options: &[&str]) -> Child {
    launched(world, daemon(world, options))
}

/// Starts a daemon that writes its messages to a file.
fn spawned(world: &World, command: &mut StdCommand) -> Child {
    let mut log = std::fs::File::options();
    let log = log.create(true).append(true).open(world.path().join("daemon.log"));
    command.stdout(Stdio::null()).stderr(log.expect("a file")).spawn().expect("it starts")
}

/// Starts a daemon and waits until it answers.
fn launched(world: &World, mut command: StdCommand) -> Child {
    let mut child = spawned(world, &mut command);
    wait_until("the daemon answers", || {
        let ended = child.try_wait().expect("a child");
        assert!(ended.is_none(), "{ended:?}\n{}", world.read("daemon.log"));
        client(world, "status").output().is_ok_and(|output| output.status.success())
    });
    child
}

#[test]
fn a_job_runs_as_it_was_submitted_and_wait_ends_as_it_did() {
    let daemon = Daemon::start(&[]);
    let script = "pwd; echo $COLOR $MEMWEIR_JOB_ID; echo trouble >&2; exit 7";
    let mut command = daemon.client("submit");
    command.env("COLOR", "green").args(["--name", "mine", "--wait", "--", "sh", "-c", script]);
    command.assert().code(7).stdout("job 1\n");
    assert_eq!(daemon.wait(1), 7);
    let place = std::fs::canonicalize(daemon.world.path()).expect("a directory");
    assert_eq!(daemon.log(1), format!("{}\ngreen 1\n", place.display()));
    daemon.client("log").args(["1", "--stderr"]).assert().success().stdout("trouble\n");
    let job = daemon.job(1);
    assert_eq!((&job["name"], &job["state"]), (&"mine".into(), &"failed".into()));
    assert_eq!(daemon.submit(&[], "kill -9 $$"), 2);
    assert_eq!(daemon.wait(2), 137);
}

#[test]
fn a_program_that_disappears_is_told_in_the_log() {
    let daemon = Daemon::start(&[]);
    let program = daemon.world.file("program", "#!/bin/sh\n");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a mode");
    daemon.client("submit").args(["--hold", "--"]).arg(&program).assert().success();
    std::fs::remove_file(&program).expect("a file");
    daemon.command("release", 1);
    assert_eq!(daemon.wait(1), 127);
    let log = stdout_of(daemon.client("log").args(["1", "--stderr"]), 0);
    assert!(log.contains("cannot start"), "{log}");
}

#[test]
fn pending_jobs_say_why_they_wait() {
    let daemon = Daemon::start(&[]);
    let first = daemon.submit(&[], "while [ ! -e go ]; do sleep 0.01; done");
    let second = daemon.submit(&[], "true");
    let after = daemon.submit(&["--after", "1"], "true");
    let held = daemon.submit(&["--hold"], "true");
    daemon.runs(first);
    assert_eq!(daemon.reason(second), "no free core: 1 of 1 busy");
    assert_eq!(daemon.reason(after), "waits for job 1");
    assert!(daemon.reason(held).starts_with("held by "));
    daemon.client("drain").assert().success();
    assert_eq!(daemon.reason(second), "the queue drains");
    daemon.world.file("go", "");
    assert_eq!(daemon.wait(first), 0);
    assert_eq!(daemon.state(second), "pending");
    daemon.client("drain").arg("--end").assert().success();
    assert_eq!((daemon.wait(second), daemon.wait(after)), (0, 0));
    assert_eq!(daemon.state(held), "pending");
    daemon.command("release", held);
    assert_eq!(daemon.wait(held), 0);
}

#[test]
fn priority_and_dependencies_give_the_order() {
    let daemon = Daemon::start(&[]);
    let gate = daemon.submit(&[], "while [ ! -e go ]; do sleep 0.01; done");
    let low = daemon.submit(&["--priority", "-5"], "echo low >> order");
    let after =
        daemon.submit(&["--after", &low.to_string(), "--priority", "0"], "echo after >> order");
    let normal = daemon.submit(&[], "echo normal >> order");
    daemon.world.file("go", "");
    for job in [gate, low, after, normal] {
        assert_eq!(daemon.wait(job), 0);
    }
    assert_eq!(daemon.world.read("order"), "normal\nlow\nafter\n");
    let failed = daemon.submit(&[], "exit 1");
    let never = daemon.submit(&["--after", &failed.to_string()], "true");
    assert_eq!(daemon.wait(failed), 1);
    assert!(daemon.reason(never).contains("which failed"));
}

#[test]
fn an_array_runs_each_index_within_its_limit() {
    let daemon = Daemon::start(&["--admit", "8"]);
    // Each job notes how many of them run.
    let script = "mkdir run.$MEMWEIR_ARRAY_INDEX; ls -d run.* | wc -l >> counts; sleep 0.1; \
                  rmdir run.$MEMWEIR_ARRAY_INDEX; exit $((MEMWEIR_ARRAY_INDEX == 4))";
    let range = daemon.submit_range(&["--array", "3-8%2"], script);
    assert_eq!(range, "1-6");
    let waited = daemon.client("wait").arg(&range).output().expect("it starts");
    assert_eq!(waited.status.code(), Some(1));
    let counts = daemon.world.read("counts");
    let counts: Vec<u32> =
        counts.lines().map(|line| line.trim().parse().expect("a number")).collect();
    assert_eq!(counts.len(), 6);
    assert!(counts.iter().all(|count| (1..=2).contains(count)), "{counts:?}");
    let names: Vec<Value> = daemon.jobs().iter().map(|job| job["name"].clone()).collect();
    assert_eq!(names[0], "sh[3]");
    assert_eq!(daemon.state(2), "failed");
}

#[test]
fn a_canceled_job_ends_with_its_children_and_can_run_again() {
    let daemon = Daemon::start(&[]);
    let script = "echo run >> runs; sleep 1000 & trap 'exit 9' TERM; wait; wait";
    let job = daemon.submit(&[], script);
    wait_until("the job says so", || daemon.world.has("runs"));
    daemon.command("cancel", job);
    assert_eq!(daemon.wait(job), 9);
    assert_eq!(daemon.state(job), "canceled");
    // One that is deaf to SIGTERM is killed.
    let deaf = daemon.submit(&[], "trap '' TERM; echo > deaf; while :; do sleep 0.01; done");
    wait_until("the job says so", || daemon.world.has("deaf"));
    daemon.command("cancel", deaf);
    assert_eq!(daemon.wait(deaf), 143);
    // One that has not started never does.
    let held = daemon.submit(&["--hold"], "echo > never");
    daemon.command("cancel", held);
    assert_eq!(daemon.wait(held), 143);
    daemon.command("requeue", job);
    wait_until("it runs again", || daemon.world.read("runs") == "run\nrun\n");
    assert_eq!(daemon.job(job)["attempt"], 2);
    daemon.command("cancel", job);
    assert_eq!(daemon.wait(job), 9);
    assert!(!daemon.world.has("never"));
}

#[test]
fn a_log_can_be_followed_to_its_end() {
    let daemon = Daemon::start(&[]);
    let job = daemon.submit(&["--hold"], "for i in 1 2 3; do echo $i; sleep 0.2; done");
    let message = refusal(daemon.client("log").arg("1"), 2);
    assert!(message.contains("has no log: held by"), "{message}");
    let mut command = daemon.world.without_input();
    command.args(["log", "-f", "1", "--socket"]).arg(socket(&daemon.world));
    let follower = command.stdout(Stdio::piped()).spawn().expect("it starts");
    daemon.command("release", job);
    let output = follower.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n2\n3\n");
}

#[test]
fn wrong_requests_are_refused_with_the_reason() {
    let daemon = Daemon::start(&[]);
    let job = daemon.submit(&[], "true");
    assert_eq!(daemon.wait(job), 0);
    let running = daemon.submit(&[], "while :; do sleep 0.01; done");
    let pending = daemon.submit(&[], "true");
    daemon.runs(running);
    assert_eq!((running, pending), (2, 3));
    for verb in ["log", "wait", "hold", "release", "cancel", "requeue"] {
        let message = refusal(daemon.client(verb).arg("7"), 2);
        assert!(message.contains("there is no job 7"), "{verb}: {message}");
    }
    let cases: [(&[&str], &str); 15] = [
        (&["wait", "1-99"], "there is no job"),
        (&["submit", "--after", "7", "--", "true"], "there is no job 7"),
        (&["hold", "1"], "job 1 has ended: only a pending job can be held"),
        (&["release", "1"], "job 1 has ended: only a held job can be released"),
        (&["cancel", "1"], "only a job that has not ended can be canceled"),
        (&["hold", "2"], "job 2 runs: only a pending job can be held"),
        (&["release", "2"], "job 2 runs: only a held job can be released"),
        (&["requeue", "2"], "job 2 runs: only a job that has ended can be requeued"),
        (&["release", "3"], "job 3 is pending: only a held job can be released"),
        (&["requeue", "3"], "job 3 is pending: only a job that has ended can be requeued"),
        (&["log", "3"], "job 3 has no log: no free core"),
        (&["hold", "x"], "is no job"),
        (&["hold", "3-1"], "write `1-3`"),
        (&["submit", "--cores", "9", "--", "true"], "from 1 to 1"),
        (&["submit", "--array", "5", "--", "true"], "1-100%8"),
    ];
    for (arguments, reason) in cases {
        let mut command = daemon.client(arguments[0]);
        let message = refusal(command.args(&arguments[1..]), 2);
        assert!(message.contains(reason), "{reason}: {message}");
    }
    let message = refusal(daemon.client("submit").args(["--", "no-such-program"]), 2);
    assert!(message.contains("no program `no-such-program`"), "{message}");
}

#[test]
fn without_a_daemon_a_client_says_how_to_start_one() {
    let world = World::new();
    let message = refusal(&mut client(&world, "queue"), 3);
    assert!(message.contains("`memweir daemon`"), "{message}");
}

#[test]
fn a_service_manager_learns_when_the_daemon_serves() {
    let world = World::new();
    let manager = UnixDatagram::bind(world.path().join("notify")).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let mut command = daemon(&world, &[]);
    command.env("NOTIFY_SOCKET", world.path().join("notify")).stderr(Stdio::null());
    let process = command.spawn().expect("it starts");
    let mut message = [0; 64];
    let length = manager.recv(&mut message).expect("a message");
    assert_eq!(&message[..length], b"READY=1");
    let mut daemon_of_test = Daemon { world, process };
    daemon_of_test.client("status").assert().success();
    daemon_of_test.end();
    let length = manager.recv(&mut message).expect("a message");
    assert_eq!(&message[..length], b"STOPPING=1");
}

#[test]
fn a_state_directory_has_one_daemon() {
    let daemon_of_test = Daemon::start(&[]);
    let world = &daemon_of_test.world;
    let other_socket = world.path().join("other");
    let mut second = Command::from_std(daemon(world, &[]));
    let message = refusal(second.arg("--socket").arg(&other_socket), 2);
    assert!(message.contains("cannot be used multiple times"), "{message}");
    let mut second = world.memweir();
    second.arg("daemon").arg("--socket").arg(&other_socket);
    let message = refusal(second.arg("--state").arg(world.path().join("state")), 3);
    assert!(message.contains("another daemon uses it"), "{message}");
    let mut third = world.memweir();
    third.arg("daemon").arg("--socket").arg(socket(world));
    let message = refusal(third.arg("--state").arg(world.path().join("other-state")), 3);
    assert!(message.contains("another daemon listens there"), "{message}");
    daemon_of_test.client("status").assert().success();
}

#[test]
fn a_daemon_takes_no_meter_that_counts_no_jobs_of_a_queue() {
    for meter in ["declared", "software"] {
        let world = World::new();
        let mut command = Command::from_std(daemon(&world, &["--meter", meter]));
        let message = refusal(&mut command, 2);
        assert!(
            message.contains(&format!("`{meter}` does not count jobs of a queue")),
            "{message}"
        );
        assert!(message.contains("auto, perf or resctrl"), "{message}");
    }
}

#[test]
fn a_queue_minimizes_the_largest_slowdown_unless_told_otherwise() {
    for (options, policy) in [
        (&[][..], "max-weight:slowdown"),
        (&["--objective", "turnaround"], "max-weight"),
        (&["--policy", "ideal-average"], "ideal-average"),
    ] {
        let daemon = Daemon::start(options);
        let status = stdout_of(&mut daemon.client("status"), 0);
        assert!(status.contains(&format!("policy {policy}, meter ")), "{status}");
    }
}

#[test]
fn a_queue_of_the_future_is_refused() {
    let mut daemon_of_test = Daemon::start(&[]);
    let id = daemon_of_test.submit(&[], "true");
    assert_eq!(daemon_of_test.wait(id), 0);
    daemon_of_test.end();
    let world = &daemon_of_test.world;
    assert!(!world.has("socket"), "an orderly end removes the socket");
    let path = world.path().join("state/queue.sqlite");
    let connection = rusqlite::Connection::open(&path).expect("a database");
    connection.pragma_update(None, "user_version", 99).expect("a change");
    drop(connection);
    let message = refusal(&mut Command::from_std(daemon(world, &[])), 3);
    assert!(message.contains("schema 99 is from a later memweir"), "{message}");
}
