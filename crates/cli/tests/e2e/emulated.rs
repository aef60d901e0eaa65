//! `memweir emulate`: real programs on an emulated machine.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{
    EMULATOR, MARK, World, both_of, exists, json, refusal, root, send, stdout_of, wait_until,
};

/// Two cores on a bus of 2 GB/s, with small caches.
const MACHINE: &str = r#"
name = "trial"
source = "made up"
core_peak = 1.9e9
core_instructions = 2e9
[[nodes]]
cores = 2
[[memories]]
medium = "dram"
capacity = 2e9
[caches.llc]
size = 262144
ways = 16
[caches.l2]
size = 65536
ways = 8
"#;

/// Fills an array of three megabytes, far beyond the caches, and reads it three times.
const STREAM: &str = "mawk 'BEGIN { for (i = 0; i < 30000; i++) a[i] = i; \
                      for (k = 0; k < 3; k++) for (i = 0; i < 30000; i++) s += a[i]; print s }'";

/// A world with the machine; `None`, and a report of a skip, without the emulator.
fn world() -> Option<World> {
    let world = World::with(&[EMULATOR])?;
    world.file("m.toml", MACHINE);
    Some(world)
}

/// The report of an emulation that must succeed.
fn emulate(world: &World, arguments: &[&str]) -> Value {
    let fixed = ["emulate", "--machine", "m.toml", "--json", "-"];
    json(world.memweir().args(fixed).args(arguments), 0)
}

fn turnaround(report: &Value) -> f64 {
    report["turnaround_s"].as_f64().expect("a time")
}

/// The part of a report that must be equal in two runs.
fn of_the_machine(mut report: Value) -> Value {
    report["scheduler_s"] = Value::Null;
    report["notices"] = Value::Null;
    for job in report["jobs"].as_array_mut().expect("jobs") {
        (job["stdout"], job["stderr"]) = (Value::Null, Value::Null);
    }
    report
}

/// Two results of `run` while process ids have as many digits: a shell formats its parent's.
fn twice<T>(mut run: impl FnMut() -> T) -> [T; 2] {
    let digits = || {
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        child.wait().expect("its end");
        child.id().ilog10()
    };
    loop {
        let before = digits();
        let both = [run(), run()];
        if digits() == before {
            return both;
        }
    }
}

#[test]
fn programs_do_what_they_do_and_two_runs_are_equal() {
    let Some(world) = world() else { return };
    let text: String = (0..20_000).map(|n| format!("{n:x} ")).collect();
    world.file("text", &text);
    let options = ["--policy", "round-robin", "--cores", "1", "--quantum", "10ms"];
    let pipe = "seq 1 3000 | sort -rn | tail -n 2; exit 0";
    let jobs = ["gzip", "-c", "text", ":::", "sh", "-c", STREAM, ":::", "sh", "-c", pipe];
    let jobs = [&options[..], &["--timeline", "t.csv", "--"], &jobs].concat();
    let run = || (emulate(&world, &jobs), world.read("t.csv"));
    let [(first, timeline), (second, again)] = twice(run);
    assert_eq!(first["machine"]["name"], "trial");
    assert_eq!((&first["mechanism"], &first["cores"]), (&"virtual time".into(), &1.into()));
    assert_eq!(world.read("memweir-logs/sh.2.out"), "2\n1\n");
    let packed = std::fs::read(world.path().join("memweir-logs/gzip.out")).expect("output");
    assert!(packed.len() > 1000 && packed.starts_with(&[0x1f, 0x8b]));
    assert_eq!(of_the_machine(first), of_the_machine(second));
    assert_eq!(timeline, again, "every quantum of every job");
}

/// `sort` has two threads for so many lines, and in this locale its C library maps shared memory.
#[test]
fn a_program_with_threads_on_a_pipe_runs_twice_the_same() {
    let Some(world) = world() else { return };
    let lines: String = (0..140_000).map(|n| format!("{}\n", n * 7919 % 140_000)).collect();
    world.file("lines", &lines);
    let script = "sort -n --parallel=2 -S 64M lines | tail -n 2";
    let sort = || {
        let fixed = ["emulate", "--machine", "m.toml", "--json", "-", "--", "sh", "-c", script];
        json(world.memweir().args(fixed).env("LANG", "C.UTF-8"), 0)
    };
    let [first, second] = twice(sort);
    assert_eq!(world.read("memweir-logs/sh.out"), "139998\n139999\n");
    assert_eq!(of_the_machine(first), of_the_machine(second));
}

/// Ctrl-Z stops memweir, and without it no thread gets beyond its epoch.
#[test]
fn a_suspended_emulation_stands_still_and_its_times_do_not_change() {
    let Some(world) = world() else { return };
    let script = "i=0; while [ $i -lt 4000 ]; do i=$((i+1)); echo >> beats; done";
    let arguments =
        ["emulate", "--machine", "m.toml", "--json", "e.json", "--", "sh", "-c", script];
    let beats = || if world.has("beats") { world.read("beats").len() } else { 0 };
    let mut runs = 0;
    let [first, second] = twice(|| {
        world.file("beats", "");
        let mut memweir = world.start(&arguments);
        runs += 1;
        if runs % 2 == 0 {
            wait_until("the program runs", || beats() > 0);
            // As the default action of SIGTSTP, which the kernel leaves out where no shell controls
            // the job, as in CI.
            send(&memweir, Signal::SIGSTOP);
            let mut stand = || {
                let before = beats();
                std::thread::sleep(Duration::from_millis(300));
                beats() == before
            };
            wait_until("the last epoch ends", &mut stand);
            assert!(stand());
            assert!(beats() < 4000, "it has ended");
            send(&memweir, Signal::SIGCONT);
        }
        assert!(memweir.wait().expect("it ends").success(), "{}", world.read("stderr"));
        assert_eq!(beats(), 4000);
        world.json("e.json")
    });
    assert_eq!(of_the_machine(first), of_the_machine(second));
}

#[test]
fn verify_says_so() {
    let Some(world) = world() else { return };
    let verify = ["emulate", "--machine", "m.toml", "--verify", "--", "seq", "1", "2000"];
    let text = stdout_of(world.memweir().args(verify), 0);
    assert!(text.contains("verified: a second run gave the same result"), "{text}");
    assert!(text.contains("emulated machine trial: 2 cores, dram"), "{text}");
}

#[test]
fn streams_that_exceed_the_bus_share_it_and_others_do_not_care() {
    let Some(world) = world() else { return };
    let alone = emulate(&world, &["--policy", "os", "--", "sh", "-c", STREAM]);
    let two = emulate(&world, &["--policy", "os", "--each", "2", "--", "sh", "-c", STREAM]);
    let spin = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done";
    let spin_alone = emulate(&world, &["--policy", "os", "--", "sh", "-c", spin]);
    let spins = emulate(&world, &["--policy", "os", "--each", "2", "--", "sh", "-c", spin]);
    assert!(turnaround(&two) > 1.1 * turnaround(&alone), "{two} {alone}");
    assert!(turnaround(&spins) < 1.05 * turnaround(&spin_alone), "{spins} {spin_alone}");
    assert!(two["bandwidth_mean"].as_f64().expect("a rate") < 2.05e9, "no more than it carries");
}

#[test]
fn sleeping_takes_virtual_time_alone() {
    let Some(world) = world() else { return };
    let report = emulate(&world, &["--", "sh", "-c", "sleep 500; date +%Y"]);
    assert!((500.0..500.2).contains(&turnaround(&report)), "{report}");
}

#[test]
fn more_cores_than_the_host_has_run_more_at_once() {
    let Some(world) = world() else { return };
    world.file("m.toml", &MACHINE.replace("cores = 2", "cores = 16"));
    let spin = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done";
    let one = emulate(&world, &["--policy", "os", "--", "sh", "-c", spin]);
    let all = emulate(&world, &["--policy", "os", "--each", "16", "--", "sh", "-c", spin]);
    assert!(turnaround(&all) < 1.2 * turnaround(&one), "{all} {one}");
}

#[test]
fn policies_are_compared_and_decisions_replayed() {
    let Some(world) = world() else { return };
    let jobs = ["--cores", "1", "--quantum", "10ms", "--each", "2", "--", "sh", "-c", STREAM];
    let compared = emulate(&world, &[&["--compare", "os,round-robin"], &jobs[..]].concat());
    assert_eq!(compared["machine"]["cores"], 2);
    assert_eq!(compared["variants"][1]["variant"], "round-robin");
    emulate(&world, &[&["--policy", "ideal-average", "--record", "d.jsonl"], &jobs[..]].concat());
    world.memweir().args(["replay", "d.jsonl"]).assert().success();
}

/// Its emulator could not open the counters, so it runs natively, and the emulation must see its
/// end all the same.
#[test]
fn a_program_in_a_pid_namespace_runs_to_its_end() {
    if !root("a PID namespace") || !exists("unshare") {
        return;
    }
    let Some(world) = world() else { return };
    let command = ["--policy", "os", "--", "unshare", "-pf", "--mount-proc", "sleep", "0.2"];
    let report = emulate(&world, &command);
    assert_eq!(report["jobs"][0]["exit_code"], 0);
    let notices = report["notices"].as_array().expect("a list");
    let is_told = |notice: &Value| notice.as_str().unwrap().contains("another namespace");
    assert!(notices.iter().any(is_told), "{report}");
}

#[test]
fn a_crash_is_reported_and_the_others_go_on() {
    let Some(world) = world() else { return };
    let arguments = ["emulate", "--machine", "m.toml", "--json", "-", "--"];
    let jobs = ["sh", "-c", "kill -SEGV $$", ":::", "sh", "-c", "echo well"];
    let report = json(world.memweir().args(arguments).args(jobs), 1);
    assert_eq!(report["jobs"][0]["exit_code"], 139);
    assert_eq!(report["jobs"][1]["exit_code"], 0);
    assert_eq!(world.read("memweir-logs/sh.2.out"), "well\n");
}

#[test]
fn what_cannot_be_emulated_is_refused_with_the_reason() {
    let Some(world) = world() else { return };
    let run = |machine: &str, command: &str| {
        let arguments = ["emulate", "--machine", machine, "--", command];
        refusal(world.memweir().args(arguments), 2)
    };
    world.file("text", "no program");
    std::fs::set_permissions(
        world.path().join("text"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .expect("our file");
    assert!(run("m.toml", "./text").contains("neither an ELF program nor a script"));
    assert!(run("iabv", "true").contains("did you mean `iabw`?"));
    world.file("wrong.toml", &MACHINE.replace("[caches.l2]", "[caches.l3]"));
    let error = run("wrong.toml", "true");
    assert!(error.contains("wrong.toml:") && error.contains("l3"), "{error}");
    let cores = ["emulate", "--machine", "m.toml", "--cores", "3", "--", "true"];
    assert!(refusal(world.memweir().args(cores), 2).contains("from 1 to 2"));
}

/// A policy that takes the run queue in its order.
const IN_ORDER: &str = "\
import json, sys
setup = json.loads(sys.stdin.readline())
assert setup['format'] == 'memweir-policy' and setup['version'] == 1
assert setup['config']['cores'] == 2 and setup['config']['policy'] == 'mine'
for line in sys.stdin:
    view = json.loads(line)
    jobs = [job['job'] for job in view['queue']]
    print(json.dumps({'jobs': jobs[:view['cores']], 'target': 1e9}), flush=True)
";

#[test]
fn a_program_decides_as_the_policy_that_it_copies() {
    let Some(world) = world() else { return };
    world.file("mine.py", IN_ORDER);
    let jobs = ["--quantum", "10ms", "--each", "5", "--", "sh", "-c", STREAM];
    let program = ["--policy-program", "mine=python3 mine.py", "--compare", "round-robin,mine"];
    let compared = emulate(&world, &[&program[..], &jobs].concat());
    let [own, other] = [0, 1].map(|run| compared["runs"][run]["report"].clone());
    assert_eq!((&other["policy"], &other["target"]), (&"mine".into(), &1e9.into()));
    let figures = |mut report: Value| {
        (report["policy"], report["target"]) = (Value::Null, Value::Null);
        of_the_machine(report)
    };
    assert_eq!(figures(own), figures(other));
    let program = ["--policy-program", "python3 mine.py"];
    let said = refused_policy(&world, &[&program[..], &jobs].concat());
    assert!(said.contains("policy `program` failed in quantum 0: it ended before it"), "{said}");
}

/// The message of an emulation whose policy fails, and that leaves a report.
fn refused_policy(world: &World, arguments: &[&str]) -> String {
    let fixed = ["emulate", "--machine", "m.toml", "--json", "-"];
    let mut command = world.memweir();
    let (report, said) = both_of(command.args(fixed).args(arguments), 6);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["outcome"], "policy-failed");
    wait_until("nothing is left", || world.processes().is_empty());
    said
}

#[test]
fn a_policy_that_fails_in_the_middle_ends_the_jobs() {
    let Some(world) = world() else { return };
    let jobs = ["--cores", "1", "--quantum", "10ms", "--each", "3", "--", "sh", "-c", STREAM];
    let answers = "read setup; for n in 1 2 3; do read view; echo '{\"jobs\": []}'; done;";
    for (then, said) in [
        ("exit 3", "it ended before it answered (exit status: 3)"),
        ("sleep 600", "it did not answer within 2 s"),
        ("read view; echo well; sleep 600", "it answered `well`; write a line such as"),
        ("read view; echo '{\"jobs\": [7]}'", "it chose job 7, which is not waiting"),
    ] {
        let command = format!("{answers} {then}");
        let program = ["--policy-program", &command, "--policy-timeout", "2s"];
        let message = refused_policy(&world, &[&program[..], &jobs].concat());
        assert!(message.contains("policy `program` failed in quantum "), "{message}");
        assert!(message.contains(said), "{message}");
    }
}

/// A jobs file with one shell job, whose processes carry the mark of this world.
fn marked_job(world: &World, script: &str) {
    // Emulated programs keep the variables of the jobs file, and little else of the environment.
    let mark = format!("{MARK} = \"{}\"", world.path().display());
    let job = format!(
        "[[jobs]]\ncommand = [\"sh\", \"-c\", \"{script}\"]\ninstances = 3\nenv = {{ {mark} }}\n"
    );
    world.file("jobs.toml", &job);
}

/// Emulators among the processes of this world.
fn emulators(world: &World) -> usize {
    let is_emulator = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|name| name.starts_with("qemu"))
    };
    world.processes().iter().filter(|pid| is_emulator(pid)).count()
}

#[test]
fn an_interrupt_ends_everything() {
    let Some(world) = world() else { return };
    marked_job(&world, "while :; do :; done");
    let mut memweir =
        world.start(&["emulate", "--machine", "m.toml", "--policy", "os", "jobs.toml"]);
    wait_until("the jobs run", || emulators(&world) == 3);
    send(&memweir, Signal::SIGINT);
    assert_eq!(memweir.wait().expect("a process of ours").code(), Some(130));
    wait_until("nothing is left", || world.processes().is_empty());
}

#[test]
fn without_memweir_the_jobs_run_on_to_their_end() {
    let Some(world) = world() else { return };
    let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 0.01; echo done >> end";
    marked_job(&world, work);
    let mut memweir =
        world.start(&["emulate", "--machine", "m.toml", "--policy", "os", "jobs.toml"]);
    wait_until("the jobs run", || emulators(&world) == 3);
    memweir.kill().expect("a process of ours");
    memweir.wait().expect("a process of ours");
    wait_until("the jobs end", || emulators(&world) == 0);
    assert_eq!(world.read("end"), "done\n".repeat(3));
}
