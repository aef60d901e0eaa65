//! Files that other users plant for a memweir that runs as root, and the warnings of `color`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{placing, possible};
use crate::support::{World, refusal, wait_until};

/// Earlier place of memweir's counters, where every user can write.
const SHARED: &str = "/dev/shm";
/// Place of root's counters.
const PRIVATE: &str = "/run/memweir";

/// A path that is removed at the end.
struct Planted(PathBuf);

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs a shell command as a user without rights; true if it succeeds.
fn as_nobody(script: &str) -> bool {
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "--", "sh", "-c", script];
    let output = Command::new("setpriv").args(user).output().expect("setpriv");
    output.status.success()
}

#[test]
fn what_other_users_plant_stops_no_run_and_no_audit() {
    let Some(world) = placing(&[]) else { return };
    let names = ["fifo", "huge", "link"]
        .map(|kind| format!("{SHARED}/memweir-color-{}-{kind}", std::process::id()));
    let _planted = names.clone().map(|name| Planted(name.into()));
    let [fifo, huge, link] = names;
    assert!(as_nobody(&format!(
        "mkfifo {fifo} && truncate -s 1T {huge} && ln -s /dev/zero {link}"
    )));
    let start = ["color", "run", "--map", "map.toml", "--colors", "0-3", "--", "true"];
    world.memweir().args(start).assert().success();
    let pid = std::process::id().to_string();
    let message = refusal(world.memweir().args(["color", "audit", &pid]), 2);
    assert!(message.contains("was not started by `memweir color run`"), "{message}");
    assert!(Path::new(&fifo).exists(), "it is not memweir's to remove");
    let in_private = format!("{PRIVATE}/color-planted");
    assert!(
        !as_nobody(&format!("mkfifo {in_private} || ls {PRIVATE}")),
        "the directory is private"
    );
}

#[test]
fn logs_do_not_follow_what_other_users_plant() {
    if !possible() {
        return;
    }
    let world = World::new();
    let (shared, precious) = (world.path().join("shared"), world.file("precious", "content"));
    std::fs::create_dir(&shared).expect("a directory");
    let chown = std::os::unix::fs::chown(&shared, Some(65534), None);
    chown.expect("root gives files away");
    let traverse = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(world.path(), traverse).expect("own directory");
    let planted = format!(
        "cd {} && mkdir logs && ln -s {} logs/true.out && mkfifo logs/true.err && ln -s /etc etc",
        shared.display(),
        precious.display()
    );
    assert!(as_nobody(&planted));
    let run = |logs: &str| {
        let arguments = ["run", "--policy", "os", "--logs", logs, "--", "true"];
        let output = world.memweir().current_dir(&shared).args(arguments).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let said = run("logs");
    assert!(said.contains("symbolic link"), "{said}");
    assert_eq!(world.read("precious"), "content");
    let said = run("etc");
    assert!(said.contains("belongs to user 65534"), "{said}");
    assert!(!Path::new("/etc/true.out").exists());
}

#[test]
fn an_audit_without_a_reader_ends() {
    let Some(world) = placing(&[]) else { return };
    for more in [&[][..], &["--json", "-"]] {
        let own = std::process::id().to_string();
        let mut audit = world.without_input();
        audit.args(["color", "audit", "--map", "map.toml", "--watch", "0.01", &own]).args(more);
        let mut audit = audit.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
        drop(audit.stdout.take());
        wait_until("the audit ends", || audit.try_wait().is_ok_and(|ended| ended.is_some()));
        assert!(audit.wait().is_ok_and(|status| status.success()));
    }
}

#[test]
fn an_audit_says_why_it_is_not_possible() {
    let Some(world) = placing(&[]) else { return };
    let audit = |pid: &str, code: i32| {
        refusal(world.memweir().args(["color", "audit", "--map", "map.toml", pid]), code)
    };
    assert!(audit("4000000", 2).contains("there is no process 4000000"));
    // The thread of the kernel that starts the others.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        let message = audit("2", 3);
        assert!(message.contains("process 2 has no memory of its own"), "{message}");
    }
}
