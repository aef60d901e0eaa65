//! Ctrl-C once ends a batch in an orderly way, twice at once; Ctrl-Z suspends batches and profiles.

use std::fmt::Debug;
use std::io::Write;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::{EMULATOR, MEMWEIR, World, exists, send, wait_until};

/// A job that says when it runs and then runs for ever.
const FOREVER: &str = "echo $$ > started; while :; do sleep 0.01; done";
/// The same, deaf to SIGTERM.
const STUBBORN: &str = "trap '' TERM INT; echo $$ > started; while :; do :; done";

fn job_of(world: &World, memweir: &mut Child) -> Pid {
    wait_until("the job says its number", || {
        let status = memweir.try_wait().expect("a child can be waited for");
        assert_eq!(status, None, "memweir ended: {}", world.read("stderr"));
        world.has("started") && !world.read("started").is_empty()
    });
    Pid::from_raw(world.read("started").trim().parse().expect("a process number"))
}

/// A memweir that will write `report.json`, after its one job has started.
fn reporting(world: &World, script: &str) -> Child {
    let run = ["run", "--policy", "round-robin", "--json", "report.json"];
    let mut memweir = world.start(&[&run[..], &["--", "sh", "-c", script]].concat());
    job_of(world, &mut memweir);
    memweir
}

fn code(status: ExitStatus) -> Option<i32> {
    status.code()
}

#[test]
fn one_interrupt_ends_the_batch_and_still_reports() {
    let world = World::new();
    let mut memweir = reporting(&world, FOREVER);
    send(&memweir, Signal::SIGINT);
    assert_eq!(code(memweir.wait().expect("memweir ends")), Some(130));
    let report = world.json("report.json");
    assert_eq!(report["outcome"], "interrupted");
    assert_eq!(report["jobs"][0]["exit_code"], 143);
    wait_until("nothing is left", || world.processes().is_empty());
}

/// A batch that nohup starts outlives its terminal, and one in the background of a script its
/// interrupt.
#[test]
fn a_signal_that_is_ignored_ends_nothing() {
    let nohup = "exec nohup \"$0\" \"$@\"";
    let background = "\"$0\" \"$@\" & wait $!";
    for (signal, script) in [(Signal::SIGHUP, nohup), (Signal::SIGINT, background)] {
        let world = World::new();
        let mut shell = world.surrounded(Command::new("sh"));
        let job = "echo $PPID > started; while [ ! -e go ]; do sleep 0.01; done";
        shell.args(["-c", script, MEMWEIR, "run", "--policy", "round-robin"]);
        shell.args(["--", "sh", "-c", job]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = shell.spawn().expect("it starts");
        let memweir = job_of(&world, &mut shell);
        kill(memweir, signal).expect("it runs");
        // Long enough for a batch to end the job.
        std::thread::sleep(Duration::from_millis(200));
        world.file("go", "");
        assert_eq!(code(shell.wait().expect("it ends")), Some(0), "{signal}");
    }
}

/// The state of a process in `/proc`.
fn state(process: Pid) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it exists");
    let behind_name = stat.rsplit(") ").next().expect("a state");
    behind_name.chars().next().expect("a letter")
}

/// Time for which memweir is suspended.
const SUSPENDED: Duration = Duration::from_millis(500);

/// Suspends memweir, as Ctrl-Z does; nothing may change `beats` from then on.
fn suspend<T: PartialEq + Debug>(memweir: &Child, beats: impl Fn() -> T) {
    send(memweir, Signal::SIGTSTP);
    let process = Pid::from_raw(memweir.id() as i32);
    wait_until("it stops", || state(process) == 'T');
    let before = beats();
    std::thread::sleep(SUSPENDED);
    assert_eq!(beats(), before);
}

#[test]
fn a_suspended_batch_stands_still() {
    // Each has one beat at least, and goes on until the batch was suspended.
    let beat = "until echo >> beats.$0; [ -e go ]; do sleep 0.01; done";
    let script = |name| format!("sh -c '{beat}' {name}");
    let mechanism = ["--policy", "round-robin", "--mechanism", "sigstop"];
    for options in [&["--policy", "os"], &mechanism[..2], &mechanism] {
        let world = World::new();
        let began = Instant::now();
        let mut arguments =
            [&["run", "--cores", "1", "--quantum", "20ms", "--json", "run.json"], options].concat();
        let jobs = ["a", "b"].map(script);
        arguments.extend(["--", "sh", "-c", &jobs[0], ":::", "sh", "-c", &jobs[1]]);
        let mut memweir = world.start(&arguments);
        wait_until("a job runs", || world.has("beats.a") || world.has("beats.b"));
        let beats = || ["beats.a", "beats.b"].map(|file| world.has(file).then(|| world.read(file)));
        suspend(&memweir, || (options, beats()));
        send(&memweir, Signal::SIGCONT);
        world.file("go", "");
        assert_eq!(code(memweir.wait().expect("it ends")), Some(0), "{options:?}");
        assert!(beats().iter().all(Option::is_some), "{options:?}: both have run");
        let report = world.json("run.json");
        let turnaround = Duration::from_secs_f64(report["turnaround_s"].as_f64().expect("seconds"));
        assert!(turnaround + SUSPENDED <= began.elapsed(), "{options:?}: {turnaround:?}");
    }
}

/// Neither the native run, whose time counts, nor the emulated one goes on; a memweir that is
/// killed meanwhile leaves no program stopped.
#[test]
fn a_suspended_profile_stands_still() {
    if !exists(EMULATOR) {
        return;
    }
    // A run goes on until it was suspended.
    let script = "until [ -e go ]; do echo >> beats; sleep 0.01; done; rm go; echo $$ >> runs";
    let profile = ["profile", "--meter", "software", "--isolation", "none", "--no-store"];
    let begin = |world: &World, report| {
        world.start(&[&profile[..], &["--json", report, "--", "sh", "-c", script]].concat())
    };
    let lines =
        |world: &World, file| if world.has(file) { world.read(file).lines().count() } else { 0 };
    let world = World::new();
    let began = Instant::now();
    let mut memweir = begin(&world, "profile.json");
    let mut ends = Vec::new();
    for run in 0..2 {
        let before = lines(&world, "beats");
        wait_until("a run has begun", || lines(&world, "beats") > before);
        suspend(&memweir, || lines(&world, "beats"));
        send(&memweir, Signal::SIGCONT);
        world.file("go", "");
        wait_until("it has ended", || lines(&world, "runs") > run);
        ends.push(began.elapsed());
    }
    assert_eq!(code(memweir.wait().expect("it ends")), Some(0), "{}", world.read("stderr"));
    assert_eq!(lines(&world, "runs"), 2);
    let report = world.json("profile.json");
    let wall = Duration::from_secs_f64(report["wall_s"].as_f64().expect("seconds"));
    assert!(wall + SUSPENDED <= ends[0], "{wall:?}: {ends:?}");

    let world = World::new();
    let mut memweir = begin(&world, "killed.json");
    wait_until("the program runs", || lines(&world, "beats") > 0);
    suspend(&memweir, || lines(&world, "beats"));
    memweir.kill().and_then(|()| memweir.wait()).expect("it dies");
    world.file("go", "");
    wait_until("the program ends", || lines(&world, "runs") == 1);
}

#[test]
fn a_job_that_ignores_the_request_is_killed() {
    let world = World::new();
    let mut memweir = reporting(&world, STUBBORN);
    send(&memweir, Signal::SIGTERM);
    assert_eq!(code(memweir.wait().expect("memweir ends")), Some(130));
    let report = world.json("report.json");
    assert_eq!(report["jobs"][0]["exit_code"], 137);
    wait_until("nothing is left", || world.processes().is_empty());
}

#[test]
fn an_interrupt_does_not_wait_for_a_policy_program() {
    let world = World::new();
    let program = "read setup; read view; echo > asked; sleep 600";
    let options = ["run", "--policy-program", program, "--policy-timeout", "10m"];
    let report = ["--json", "report.json", "--", "sleep", "600"];
    let mut memweir = world.start(&[&options[..], &report].concat());
    wait_until("the program is asked", || world.has("asked"));
    send(&memweir, Signal::SIGINT);
    let mut ended = None;
    wait_until("memweir ends", || {
        ended = memweir.try_wait().expect("a child can be waited for");
        ended.is_some()
    });
    assert_eq!(ended.and_then(code), Some(130), "{}", world.read("stderr"));
    let report = world.json("report.json");
    assert_eq!(report["outcome"], "interrupted");
    wait_until("nothing is left", || world.processes().is_empty());
}

#[test]
fn a_second_interrupt_does_not_wait() {
    let world = World::new();
    let mut memweir = world.start(&["run", "--policy", "round-robin", "--", "sh", "-c", STUBBORN]);
    job_of(&world, &mut memweir);
    send(&memweir, Signal::SIGINT);
    send(&memweir, Signal::SIGINT);
    assert_eq!(code(memweir.wait().expect("memweir ends")), Some(130));
    wait_until("nothing is left", || world.processes().is_empty());
}

#[test]
fn released_jobs_run_on() {
    let world = World::new();
    let script = "echo $$ > started; until [ -e go ]; do sleep 0.01; done; echo yes > finished";
    let run = ["run", "--on-exit", "release", "--policy", "round-robin", "--cores", "1"];
    let other = "while [ ! -e go ]; do :; done";
    let jobs = ["--json", "report.json", "--", "sh", "-c", script, ":::", "sh", "-c", other];
    let mut memweir = world.start(&[&run[..], &jobs].concat());
    let job = job_of(&world, &mut memweir);
    send(&memweir, Signal::SIGINT);
    assert_eq!(code(memweir.wait().expect("memweir ends")), Some(130));
    let report = world.json("report.json");
    assert_eq!(report["jobs"][0]["exit_code"], Value::Null);
    kill(job, None).expect("the job is still there");
    world.file("go", "");
    wait_until("the released job finishes", || world.has("finished"));
    wait_until("nothing is left", || world.processes().is_empty());
}

/// The input stays open, so that memweir waits for more of the trace.
#[test]
fn an_interrupted_trace_leaves_no_unfinished_file() {
    let convert = ["dram", "convert", "-", "out/t.mwt"];
    let replay = ["dram", "replay", "-", "--memory", "ddr4-2400", "--commands", "out/commands.txt"];
    for command in [&convert[..], &replay[..]] {
        let world = World::new();
        let out = world.path().join("out");
        std::fs::create_dir(&out).expect("a directory");
        let files = || std::fs::read_dir(&out).expect("a directory").count();
        let mut memweir = world.plain();
        memweir.args(command).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut memweir = memweir.spawn().expect("memweir starts");
        let mut input = memweir.stdin.take().expect("a pipe");
        let writer = std::thread::spawn(move || {
            let _ = input.write_all("LD 64\n".repeat(1_000_000).as_bytes());
            input
        });
        let status = format!("/proc/{}/status", memweir.id());
        wait_until("memweir handles signals", || {
            let status = std::fs::read_to_string(&status).expect("memweir runs");
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t"));
            let blocked = u64::from_str_radix(blocked.expect("a mask"), 16).expect("digits");
            blocked >> (Signal::SIGINT as u32 - 1) & 1 == 1
        });
        assert_eq!(files(), 1, "{command:?}");
        send(&memweir, Signal::SIGINT);
        assert_eq!(code(memweir.wait().expect("memweir ends")), Some(130), "{command:?}");
        assert_eq!(files(), 0, "{command:?}");
        writer.join().expect("it writes");
    }
}
