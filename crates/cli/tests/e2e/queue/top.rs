//! `memweir top` in a real terminal, of which tmux knows the screen.

use std::process::{Command as StdCommand, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Daemon, socket};
use crate::support::{MEMWEIR, SPIN, World, exists, refusal, wait_until};
use crate::watch::Group;

/// A terminal with memweir in it. It ends with its owner.
struct Terminal<'a> {
    world: &'a World,
    /// Of its own server: one that is told to end takes its time, and whoever connects to it
    /// meanwhile loses the connection.
    socket: String,
}

impl<'a> Terminal<'a> {
    /// Starts memweir with these arguments in a terminal; `None` without tmux.
    fn start(world: &'a World, arguments: &str) -> Option<Self> {
        if !exists("tmux") {
            return None;
        }
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let socket = format!("tmux-{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let terminal = Self { world, socket };
        let command = format!("{MEMWEIR} {arguments}; echo left $?; read end");
        let size = ["new-session", "-d", "-x", "100", "-y", "20"];
        let output = terminal.tmux(&[&size[..], &[command.as_str()]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut tmux = self.world.surrounded(StdCommand::new("tmux"));
        tmux.args(["-f", "/dev/null", "-u", "-S", &self.socket]).args(arguments);
        tmux.env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/sh").output().expect("tmux starts")
    }

    fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn press(&self, key: &str) {
        assert!(self.tmux(&["send-keys", key]).status.success());
    }

    fn shows(&self, text: &str) {
        wait_until(&format!("`{text}` on the screen"), || self.screen().contains(text));
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn the_queue_is_shown_in_a_terminal_and_obeys_keys() {
    let daemon = Daemon::start(&["--policy", "round-robin", "--admit", "2", "--quantum", "50ms"]);
    let turns = "while [ ! -e go ]; do :; done";
    for name in ["first", "second"] {
        daemon.submit(&["--name", name], turns);
    }
    daemon.submit(&["--after", "1", "--name", "last"], "true");
    let socket = socket(&daemon.world);
    let arguments = format!("top --interval 100ms --socket {}", socket.display());
    let Some(terminal) = Terminal::start(&daemon.world, &arguments) else { return };
    terminal.shows("round-robin");
    terminal.shows("waits for job 1");
    // The jobs take turns.
    terminal.shows("█░");
    terminal.press("?");
    terminal.shows("twice, half as fast");
    terminal.press("?");
    for key in ["f", "l", "a", "s", "t", "Enter"] {
        terminal.press(key);
    }
    wait_until("the filter hides the others", || {
        let screen = terminal.screen();
        screen.contains("last") && !screen.contains("second")
    });
    terminal.press("Enter");
    terminal.shows("command");
    terminal.press("Escape");
    terminal.press("Space");
    terminal.shows("paused");
    terminal.press("q");
    terminal.shows("left 0");
    let screen = terminal.screen();
    assert!(!screen.contains("round-robin"), "the terminal is as before: {screen}");
    daemon.world.file("go", "");
}

#[test]
fn recordings_are_played_back_to_their_end() {
    let world = World::new();
    let mut run = world.memweir();
    run.args(["run", "--policy", "round-robin", "--cores", "1", "--quantum", "20ms"]);
    run.args(["--timeline", "t.parquet", "--record", "decisions.jsonl"]);
    run.args(["--", "sh", "-c", SPIN, ":::", "sh", "-c", SPIN]).assert().success();
    for file in ["t.parquet", "decisions.jsonl"] {
        let Some(terminal) = Terminal::start(&world, &format!("top {file}")) else { return };
        terminal.shows("sh");
        "++++".chars().for_each(|key| terminal.press(&key.to_string()));
        terminal.shows(" end");
        terminal.shows("█░█");
        terminal.press("C-c");
        terminal.shows("left 0");
    }
}

#[test]
fn top_ends_with_its_terminal() {
    let world = World::new();
    let mut run = world.memweir();
    run.args(["run", "--policy", "os", "--timeline", "t.csv", "--", "sh", "-c", SPIN])
        .assert()
        .success();
    let Some(terminal) = Terminal::start(&world, "top t.csv") else { return };
    terminal.shows(" end");
    drop(terminal);
    wait_until("nothing is left of it", || world.processes().is_empty());
}

#[test]
fn a_batch_in_progress_is_followed() {
    let world = World::new();
    let mut run = world.without_input();
    run.args(["run", "--policy", "round-robin", "--cores", "1", "--quantum", "50ms"]);
    run.args(["--timeline", "t.csv"]);
    let turns = "while [ ! -e go ]; do :; done";
    run.args(["--", "sh", "-c", turns, ":::", "sh", "-c", turns]);
    let mut run = run.stderr(Stdio::null()).stdout(Stdio::null()).spawn().expect("it starts");
    // The file is made and removed once before, to find out if it can be written.
    let begun = || world.path().join("t.csv").metadata().is_ok_and(|file| file.len() > 0);
    wait_until("the timeline begins", begun);
    if let Some(terminal) = Terminal::start(&world, "top --follow t.csv --interval 100ms") {
        terminal.shows("followed");
        terminal.shows("█░█");
        let before = terminal.screen();
        wait_until("the screen goes on", || terminal.screen() != before);
        world.file("go", "");
        terminal.press("q");
        terminal.shows("left 0");
    }
    world.file("go", "");
    assert!(run.wait().expect("it ends").success());
    let Some(terminal) = Terminal::start(&world, "top --follow t.parquet") else { return };
    terminal.shows("until then");
    terminal.shows("left 2");
}

#[test]
fn control_groups_are_shown_with_their_cores_and_states() {
    let Some(world) = World::of_root("making a control group") else { return };
    let group = Group::new("topped");
    let arguments = format!("top --watch --cgroup {} --interval 100ms", group.path());
    let Some(terminal) = Terminal::start(&world, &arguments) else { return };
    terminal.shows("memweir top: watch");
    terminal.shows("without processes");
    let mut busy = group.start("while :; do :; done");
    terminal.shows(" cores");
    group.freeze();
    terminal.shows("frozen");
    terminal.shows("█░");
    terminal.press("Enter");
    terminal.shows(&format!("cgroup     {}", group.jobid()));
    terminal.press("q");
    terminal.shows("left 0");
    busy.kill().expect("a child");
    busy.wait().expect("a child");
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let world = World::new();
    let message = refusal(world.memweir().arg("top"), 2);
    assert!(message.contains("no terminal") && message.contains("memweir queue"), "{message}");
    for two in [["--watch", "x.csv"], ["--unit=a", "x.csv"], ["--meter=perf", "--socket=s"]] {
        let message = refusal(world.memweir().arg("top").args(two), 2);
        assert!(message.contains("cannot be used with"), "{message}");
    }
    world.file("odd.csv", "a,b\n1,2\n");
    let Some(terminal) = Terminal::start(&world, "top odd.csv") else { return };
    terminal.shows("it is no timeline");
    terminal.shows("left 2");
}
