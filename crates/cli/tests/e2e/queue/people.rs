//! The daemon of root, used by another user, and the daemon of another user.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, Command as StdCommand, Output, Stdio};

use nix::sys::signal::Signal;

use super::{Daemon, socket};
use crate::support::{MEMWEIR, World, refusal, root, send, wait_until};

/// A user that every system has, without privileges.
const NOBODY: u32 = 65534;

/// A group that no system has.
const OPERATORS: &str = "3999999999";

/// memweir as that user.
fn as_nobody(daemon: &Daemon, arguments: &[&str]) -> Output {
    as_nobody_in(daemon, "--clear-groups", arguments)
}

/// memweir as that user, with these supplementary groups.
fn as_nobody_in(daemon: &Daemon, groups: &str, arguments: &[&str]) -> Output {
    let mut command = StdCommand::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", groups, "--", MEMWEIR]);
    command.args(&arguments[..1]).arg("--socket").arg(socket(&daemon.world));
    command.args(&arguments[1..]).current_dir("/").output().expect("setpriv starts")
}

/// Standard error of a command that the daemon must have refused.
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(3));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A daemon that another user can reach; `None`, and a report of a skip, where there cannot be one.
fn shared(options: &[&str]) -> Option<Daemon> {
    if !root("running jobs as another user") {
        return None;
    }
    let daemon = Daemon::start(options);
    // The socket's directory is the test's, and must let the other user in.
    std::fs::set_permissions(daemon.world.path(), PermissionsExt::from_mode(0o711))
        .expect("a mode");
    let can = as_nobody(&daemon, &["status"]).status.success();
    if !can {
        memweir_test_support::skip!(Privilege, "another user cannot execute the command here");
    }
    can.then_some(daemon)
}

#[test]
fn members_of_the_operators_command_the_jobs_of_others() {
    let Some(daemon) = shared(&["--operators", OPERATORS]) else { return };
    let job = daemon.submit(&["--hold"], "true");
    let message = refused(&as_nobody(&daemon, &["release", "1"]));
    let who = "only root and members of the group 3999999999 may change it";
    assert!(message.contains(who), "{message}");
    let groups = format!("--groups=7,{OPERATORS}");
    let operator = |arguments: &[&str]| {
        let output = as_nobody_in(&daemon, &groups, arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    operator(&["drain"]);
    operator(&["release", "1"]);
    operator(&["cancel", "1"]);
    operator(&["requeue", "1"]);
    operator(&["drain", "--end"]);
    assert_eq!(daemon.wait(job), 0);
}

#[test]
fn an_ordinary_user_has_a_daemon_of_ones_own() {
    let Some(world) = World::of_root("becoming another user") else { return };
    std::os::unix::fs::chown(world.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
    let place = |name: &str| world.path().join(name);
    std::fs::create_dir(place("run")).expect("a directory");
    std::os::unix::fs::chown(place("run"), Some(NOBODY), Some(NOBODY)).expect("root may");
    std::fs::set_permissions(place("run"), PermissionsExt::from_mode(0o700)).expect("a mode");
    let as_user = |arguments: &[&str]| {
        let mut command = world.surrounded(StdCommand::new("setpriv"));
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--", MEMWEIR]);
        command.env("HOME", world.path()).env("XDG_RUNTIME_DIR", place("run"));
        command.env("XDG_STATE_HOME", place("state")).args(arguments).stdin(Stdio::null());
        command
    };
    if !as_user(&["--version"]).output().is_ok_and(|output| output.status.success()) {
        return memweir_test_support::skip!(
            Privilege,
            "another user cannot execute the command here"
        );
    }
    let log = std::fs::File::create(place("daemon.log")).expect("a file");
    let process = as_user(&["daemon", "--cores", "1"]).stderr(log).spawn().expect("it starts");
    let user = |arguments: &[&str]| as_user(arguments).output().expect("it starts");
    let mut process = Reaped(process);
    wait_until("the daemon answers", || {
        let ended = process.0.try_wait().expect("a child");
        assert!(ended.is_none(), "{}", world.read("daemon.log"));
        user(&["status"]).status.success()
    });
    assert!(place("run/memweir/daemon.sock").exists() && place("state/memweir/lock").exists());
    let script = "id -u; echo $MEMWEIR_JOB_ID; exit 4";
    assert_eq!(user(&["submit", "--wait", "--", "sh", "-c", script]).status.code(), Some(4));
    assert_eq!(String::from_utf8_lossy(&user(&["log", "1"]).stdout), "65534\n1\n");
    let raised = user(&["submit", "--priority", "3", "--", "true"]);
    assert!(raised.status.success(), "it is the user's own daemon");
    let output = user(&["daemon", "--operators", "root", "--state", "other"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("serves that user alone"), "{message}");
    // Root may look at it and end jobs, and nobody else can connect.
    let socket = place("run/memweir/daemon.sock");
    let mut list = world.memweir();
    list.args(["queue", "--all", "--socket"]).arg(&socket).assert().success();
    let mut stranger = StdCommand::new("setpriv");
    stranger.args(["--reuid", "65533", "--regid", "65533", "--clear-groups", "--", MEMWEIR]);
    refused(&stranger.args(["queue", "--socket"]).arg(&socket).output().expect("it starts"));
    send(&process.0, Signal::SIGTERM);
    assert!(process.0.wait().expect("it ends").success(), "{}", world.read("daemon.log"));
}

/// A child that ends with the test.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_group_of_operators_must_exist() {
    let world = World::new();
    let mut command = world.memweir();
    let message = refusal(command.args(["daemon", "--operators", "no-such-group"]), 2);
    assert!(message.contains("there is no group `no-such-group`"), "{message}");
}

#[test]
fn a_job_runs_as_its_submitter_who_commands_no_other() {
    let Some(daemon) = shared(&[]) else { return };
    let own = daemon.submit(&[], "sleep 1000");
    let submitted =
        as_nobody(&daemon, &["submit", "--parsable", "--", "sh", "-c", "id -u; id -g; id -G"]);
    assert!(submitted.status.success(), "{}", String::from_utf8_lossy(&submitted.stderr));
    for verb in ["cancel", "hold", "release", "requeue"] {
        let message = refused(&as_nobody(&daemon, &[verb, "1"]));
        assert!(message.contains("job 1 belongs to root"), "{message}");
    }
    refused(&as_nobody(&daemon, &["drain"]));
    let message = refused(&as_nobody(&daemon, &["log", "1"]));
    assert!(message.contains("1.out: Permission denied"), "{message}");
    daemon.command("cancel", own);
    assert_eq!(as_nobody(&daemon, &["wait", "1"]).status.code(), Some(143), "all may wait");
    assert_eq!(daemon.wait(2), 0);
    let log = as_nobody(&daemon, &["log", "2"]);
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    assert_eq!(log.lines().next(), Some("65534"), "{log}");
    assert!(!log.lines().nth(2).unwrap_or("0").split(' ').any(|group| group == "0"), "{log}");
    let file = std::fs::metadata(daemon.world.path().join("state/logs/2.out")).expect("a log");
    assert_eq!((file.uid(), file.mode() & 0o777), (NOBODY, 0o600));
}

#[test]
fn a_user_has_so_many_unfinished_jobs_and_root_any_number() {
    let Some(daemon) = shared(&["--user-jobs", "2"]) else { return };
    let submit = |array| as_nobody(&daemon, &["submit", "--hold", "--array", array, "--", "true"]);
    let message = refused(&submit("1-3"));
    let why = "you have 0 unfinished jobs here, and may have 2: wait for some, or cancel some";
    assert!(message.contains(why), "{message}");
    assert!(submit("1-2").status.success());
    assert!(!submit("1-1").status.success());
    daemon.submit_range(&["--hold", "--array", "1-3"], "true");
    assert!(as_nobody(&daemon, &["cancel", "1"]).status.success());
    assert!(submit("1-1").status.success());
}
