//! Whole batches of real programs: every policy, every kind of result, failing jobs.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{
    MEMWEIR, SPIN, SmallGroup, World, both_of, json, refusal, send, stderr_of, stdout_of,
    wait_until,
};

/// Two jobs that work, two that print, all with declared figures, as every policy can use them.
fn declared_jobs() -> String {
    let job = |name: &str, script: &str| {
        format!(
            "[[jobs]]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\n\
             expected_time_s = 0.2\nread_bandwidth = 2e9\ninstances = 2\n"
        )
    };
    format!("quantum_ms = 20\n{}{}", job("spin", SPIN), job("echo", "echo out; echo err >&2"))
}

#[test]
fn every_policy_runs_a_batch_to_its_end() {
    for policy in
        ["os", "round-robin", "random", "long-job-first", "peak-bandwidth", "ideal-average"]
    {
        let world = World::new();
        let file = world.file("jobs.toml", &declared_jobs());
        let report =
            json(world.memweir().args(["run", "--policy", policy, "--json", "-"]).arg(file), 0);
        assert_eq!(report["policy"], policy);
        assert_eq!(report["outcome"], "finished");
        let jobs = report["jobs"].as_array().expect("jobs");
        assert_eq!(jobs.len(), 4, "{policy}");
        assert!(jobs.iter().all(|job| job["exit_code"] == 0), "{policy}: {jobs:?}");
        let spinner = &jobs[0];
        assert!(spinner["running_s"].as_f64() > Some(0.0), "{policy}: {spinner}");
        assert!(spinner["quanta"].as_u64() > Some(0), "{policy}: {spinner}");
        let log = |key: &str| {
            let path = jobs[2][key].as_str().expect("a path").to_owned();
            std::fs::read_to_string(world.path().join(path)).expect("a log")
        };
        assert_eq!(
            (log("stdout").as_str(), log("stderr").as_str()),
            ("out\n", "err\n"),
            "{policy}"
        );
    }
}

/// A policy in the tools of the shell that runs no job beside the head.
const HEAD_ALONE: &str = "while read line; do echo '{\"jobs\": []}'; done";

#[test]
fn a_program_is_the_policy_of_a_batch() {
    let world = World::new();
    let file = world.file("jobs.toml", &declared_jobs());
    let program = format!("mine=read setup; {HEAD_ALONE}");
    let mut command = world.memweir();
    command.args(["run", "--policy-program", &program, "--json", "-"]).arg(&file);
    let report = json(&mut command, 0);
    assert_eq!((&report["policy"], &report["outcome"]), (&"mine".into(), &"finished".into()));
    let mut command = world.memweir();
    command.args(["run", "--policy-program", &program, "--compare", "os,mine", "--repeat", "1"]);
    let compared = json(command.args(["--json", "-"]).arg(&file), 0);
    assert_eq!(compared["variants"][1]["variant"], "mine");
}

#[test]
fn a_program_that_stops_deciding_leaves_no_job_blocked() {
    let world = World::new();
    let jobs = ["--quantum", "20ms", "--cores", "1", "--", "sleep", "600", ":::", "sleep", "600"];
    for program in ["exit 0", "read setup; read view; echo '{\"jobs\": []}'; sleep 600"] {
        let options = ["run", "--policy-program", program, "--policy-timeout", "1s"];
        let mut command = world.memweir();
        command.args(options).args(["--json", "r.json"]).args(jobs);
        let (table, said) = both_of(&mut command, 6);
        assert!(said.contains("memweir: policy `program` failed in quantum "), "{said}");
        assert!(table.contains("143 (signal 15)"), "{table}");
        let report = world.json("r.json");
        assert_eq!(report["outcome"], "policy-failed");
        assert_eq!(report["policy_failure"]["policy"], "program");
        assert_eq!(report["jobs"][0]["exit_code"], 143);
        wait_until("nothing is left", || world.processes().is_empty());
    }
}

#[test]
fn a_comparison_that_a_program_ends_keeps_the_rounds_before() {
    let world = World::new();
    let file = world.file("jobs.toml", &declared_jobs());
    // The program is started for each run, and fails in the second.
    let program = format!("mine=read setup; if [ -e ran ]; then exit 1; fi; > ran; {HEAD_ALONE}");
    let mut command = world.memweir();
    command.args(["run", "--policy-program", &program, "--compare", "os,mine", "--repeat", "2"]);
    let compared = json(command.args(["--json", "-"]).arg(&file), 6);
    assert_eq!((&compared["rounds"], &compared["baseline"]), (&1.into(), &"os".into()));
    let last = &compared["runs"][2];
    assert_eq!((&last["round"], &last["variant"]), (&1.into(), &"mine".into()));
    assert_eq!(last["report"]["outcome"], "policy-failed");
}

#[test]
fn a_record_without_its_end_is_replayed_with_a_warning() {
    let world = World::new();
    let file = world.file("jobs.toml", &declared_jobs());
    let run = ["run", "--policy", "round-robin", "--record", "d.jsonl"];
    world.memweir().args(run).arg(&file).assert().success();
    let replay = |code| {
        let command = ["replay", "d.jsonl", "--json", "-"];
        let (shown, said) = both_of(world.memweir().args(command), code);
        (serde_json::from_str::<Value>(&shown).unwrap_or_default(), said)
    };
    let (whole, said) = replay(0);
    assert_eq!((&whole["truncated"], &*said), (&Value::Null, ""));
    let text = world.read("d.jsonl");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    world.file("d.jsonl", &lines[..lines.len() - 3].concat());
    let (cut, said) = replay(1);
    assert_eq!(cut["differences"], Value::Array(Vec::new()));
    let truncated = cut["truncated"].as_str().expect("a message");
    assert!(truncated.contains("the record has no end line"), "{truncated}");
    assert_eq!(said, format!("memweir: {truncated}\n"));
    // The header alone.
    world.file("d.jsonl", lines[0]);
    let said = replay(2).1;
    assert!(said.contains("d.jsonl: has no decision"), "{said}");
}

#[test]
fn the_decisions_of_a_program_are_replayed_by_it() {
    let world = World::new();
    let file = world.file("jobs.toml", &declared_jobs());
    let head_alone = format!("mine=read setup; {HEAD_ALONE}");
    let run = ["run", "--record", "d.jsonl", "--policy-program", &head_alone];
    world.memweir().args(run).arg(&file).assert().success();
    let replay = |program: &str, code| {
        let mut command = world.memweir();
        command.args(["replay", "d.jsonl", "--json", "-", "--policy-program", program]);
        json(command.args(["--policy-timeout", "20s"]), code)
    };
    assert_eq!(replay(&head_alone, 0)["differences"], Value::Array(Vec::new()));
    // The queue in its order, for as many as have cores.
    let all = r#"read setup; while read -r view; do
        cores=$(echo "$view" | sed 's/.*"cores":\([0-9]*\),"committed".*/\1/')
        jobs=$(echo "$view" | sed 's/.*"queue":\[//; s/\],"bus".*//' | grep -o '"job":[0-9]*' |
            cut -d: -f2 | head -n "$cores" | paste -sd, -)
        echo "{\"jobs\": [$jobs]}"
    done"#;
    let differences = replay(&format!("mine={all}"), 1)["differences"].clone();
    assert!(!differences[0]["replayed"]["chosen"].is_null(), "{differences}");
    assert_eq!(replay(&format!("other={all}"), 0)["policy"], "other");
    let refused = |options: &[&str], code| {
        refusal(world.memweir().args(["replay", "d.jsonl"]).args(options), code)
    };
    let said = refused(&["--policy-program", "exit 3"], 6);
    assert!(said.contains("policy `program` failed in quantum 0: it ended before it"), "{said}");
    let said = refused(&["--policy-program", "os=true"], 2);
    assert!(said.contains("`os` is the name of a policy of memweir"), "{said}");
    let said = refused(&[], 2);
    assert!(said.contains("unknown policy `mine`"), "{said}");
}

#[test]
fn wrong_policy_programs_are_refused() {
    let world = World::new();
    for (options, said) in [
        (&["--policy-program", "os=true"][..], "`os` is the name of a policy of memweir"),
        (&["--policy-program", "mine="], "names no program"),
        (&["--policy-program", "true", "--policy", "os"], "`program` is not among the policies"),
        (&["--policy-program", "true", "--compare", "os,progam"], "did you mean `program`?"),
        (&["--policy-program", "true", "--policy", "program:x"], "unknown policy `program:x`"),
        (&["--policy-timeout", "1s"], "--policy-program"),
        (&["--policy", "max-wait"], "did you mean `max-weight`?"),
        (&["--compare", "os,max-wait"], "did you mean `max-weight`?"),
    ] {
        let message = refusal(world.memweir().arg("run").args(options).args(["--", "true"]), 2);
        assert!(message.contains(said), "{message}");
        assert!(!world.has("memweir-logs"), "nothing was started");
    }
}

#[test]
fn without_groups_the_cpu_time_of_a_job_within_a_quantum_counts() {
    let world = World::new();
    let mut run = world.memweir();
    run.args(["run", "--mechanism", "sigstop", "--policy", "os", "--quantum", "10s"]);
    let report = json(run.args(["--json", "-", "--", "sh", "-c", SPIN]), 0);
    let running = report["jobs"][0]["running_s"].as_f64().expect("a time");
    assert!(running > 0.01, "{report}");
}

#[test]
fn perf_events_of_a_file_drive_a_policy_that_decides_by_bandwidth() {
    let Some(world) = World::of_root("counting what the kernel does for a job") else { return };
    let events = concat!(env!("CARGO_MANIFEST_DIR"), "/../linux/tests/data/software-events.toml");
    let mut run = world.memweir();
    run.args(["run", "--policy", "ideal-average", "--meter", "perf", "--events", events]);
    run.args(["--quantum", "20ms", "--json", "-", "--each", "3", "--", "sh", "-c", SPIN]);
    let report = json(&mut run, 0);
    assert_eq!(report["meter"], "perf");
    assert!(report["predictor"].as_str().is_some_and(|name| name.starts_with("phase")));
    assert!(report["target"].as_f64() > Some(0.0), "{report}");
    for job in report["jobs"].as_array().expect("jobs") {
        // The file counts page faults as reads, and no shell starts without any.
        assert!(job["memory_reads"].as_u64() > Some(0), "{job}");
    }
}

#[test]
fn the_report_has_the_fields_that_others_rely_on() {
    let world = World::new();
    let run = ["run", "--policy", "round-robin", "--quantum", "50ms", "--json", "-"];
    let report = json(world.memweir().args(run).args(["--", "sh", "-c", SPIN]), 0);
    let fields = "policy predictor meter mechanism cores quantum_ms turnaround_s quanta jobs";
    for field in fields.split(' ') {
        assert!(!report[field].is_null(), "{field} is missing in {report}");
    }
    // Null on a machine without a meter.
    for field in ["bandwidth_mean", "bandwidth_std"] {
        assert!(report.get(field).is_some(), "{field} is missing in {report}");
    }
    assert_eq!(report["quantum_ms"], 50);
    let job = &report["jobs"][0];
    let fields = job.as_object().expect("an object");
    let names = "name command exit_code wall_s running_s quanta instructions memory_reads \
                 memory_writes";
    for field in names.split(' ') {
        assert!(fields.contains_key(field), "{field} is missing in {job}");
    }
    assert_eq!(job["command"], serde_json::json!(["sh", "-c", SPIN]));
}

#[test]
fn the_tables_show_jobs_and_batch_and_nothing_is_said_on_a_pipe() {
    let world = World::new();
    let run = ["run", "--policy", "round-robin", "--", "sh", "-c", SPIN, ":::", "true"];
    let (text, said) = both_of(world.memweir().args(run), 0);
    assert_eq!(said, "");
    for needle in ["policy round-robin", "turnaround", "sh ", "true ", "exit", "mechanism "] {
        assert!(text.contains(needle), "{needle} is missing in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "colors on a pipe:\n{text}");
}

#[test]
fn a_failing_job_does_not_end_the_batch() {
    let world = World::new();
    let run = ["run", "--policy", "round-robin", "--json", "-", "--", "sh", "-c", "exit 7"];
    let others = [":::", "sh", "-c", SPIN, ":::", "sh", "-c", "kill -9 $$"];
    let report = json(world.memweir().args(run).args(others), 1);
    let codes: Vec<&Value> =
        report["jobs"].as_array().expect("jobs").iter().map(|job| &job["exit_code"]).collect();
    assert_eq!(codes, [7, 0, 137]);
    assert_eq!(report["outcome"], "finished");
}

#[test]
fn fail_fast_ends_the_batch_at_the_first_failure() {
    let world = World::new();
    let run = ["run", "--policy", "os", "--fail-fast", "--json", "-"];
    let jobs = ["--", "sleep", "600", ":::", "false"];
    let report = json(world.memweir().args(run).args(jobs), 1);
    assert_eq!(report["outcome"], "failed-fast");
    assert_eq!(report["jobs"][1]["exit_code"], 1);
    assert_ne!(report["jobs"][0]["exit_code"], 0);
}

#[test]
fn a_comparison_pairs_the_rounds_and_says_what_may_be_concluded() {
    let world = World::new();
    let mut run = world.memweir();
    run.args(["run", "--compare", "os,round-robin", "--repeat", "2", "--quantum", "20ms"]);
    run.args(["--json", "comparison.json", "--results", "runs.jsonl", "--plot", "plot.svg"]);
    let text = stdout_of(run.args(["--", "sh", "-c", SPIN, ":::", "sh", "-c", SPIN]), 0);
    for needle in ["against os", "95 % interval", "round-robin", "2 rounds"] {
        assert!(text.contains(needle), "{needle} is missing in\n{text}");
    }
    let comparison = world.json("comparison.json");
    let order: Vec<_> = comparison["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|run| (run["round"].as_u64(), run["variant"].as_str().unwrap_or("").to_owned()))
        .collect();
    assert_eq!(order.len(), 4);
    assert!(order[..2].iter().all(|(round, _)| *round == Some(0)), "not interleaved: {order:?}");
    assert_eq!(world.read("runs.jsonl").lines().count(), 4);
    let plot = world.read("plot.svg");
    assert!(plot.contains("os: ") && plot.contains("round-robin: "));
}

#[test]
fn a_timeline_has_a_row_per_job_and_quantum() {
    let world = World::new();
    let run = |timeline: &str| {
        let mut run = world.memweir();
        run.args(["run", "--policy", "round-robin", "--quantum", "20ms", "--cores", "1"]);
        run.args(["--timeline", timeline, "--plot", "plot.svg", "--json", "-"]);
        let report = json(run.args(["--", "sh", "-c", SPIN, ":::", "sh", "-c", SPIN]), 0);
        report["quanta"].as_u64().expect("quanta")
    };
    run("t.csv");
    let text = world.read("t.csv");
    let head = text.lines().next().expect("a head");
    assert!(head.starts_with("quantum,t_start_s,span_s,job,name,chosen,cpu_s"), "{head}");
    let rows = text.lines().count() - 1;
    assert!(rows >= 4, "{text}");
    let plot = world.read("plot.svg");
    assert!(plot.contains("which jobs ran") && plot.contains("sh.2"));
    run("t.parquet");
    let bytes = std::fs::read(world.path().join("t.parquet")).expect("a Parquet file");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[test]
fn declared_jobs_are_scheduled_by_what_they_declare() {
    let world = World::new();
    let file = world.file(
        "jobs.toml",
        &format!(
            "policy = \"peak-bandwidth\"\nmeter = \"declared\"\nquantum_ms = 20\n\
             [[jobs]]\nname = \"a\"\ncommand = [\"sh\", \"-c\", \"{SPIN}\"]\nexpected_time_s = 0.2\n\
             read_bandwidth = 2e9\n\
             [[jobs]]\nname = \"b\"\ncommand = [\"sh\", \"-c\", \"{SPIN}\"]\nexpected_time_s = 0.2\n\
             read_bandwidth = 1e9\nwrite_bandwidth = 1e9\n",
        ),
    );
    let report = json(world.memweir().args(["run", "--json", "-"]).arg(file), 0);
    assert_eq!(report["meter"], "declared");
    assert!(report["bandwidth_mean"].as_f64() > Some(0.0), "{report}");
    // (2e9 * 0.2 + 2e9 * 0.2) bytes in 0.4 s of work, on as many cores as both jobs can use.
    let ideal = report["ideal_average_bandwidth"].as_f64().expect("an ideal average bandwidth");
    assert!((2e9..=4.01e9).contains(&ideal), "{ideal}");
}

#[test]
fn a_batch_takes_no_more_cores_than_a_quota_pays_for() {
    let Some(group) = SmallGroup::of_one_processor() else { return };
    let world = World::new();
    let enter = format!("echo $$ > {}; exec \"$@\"", group.entrance().display());
    let report = |options: &[&str]| {
        let mut shell = world.surrounded(std::process::Command::new("sh"));
        shell.args(["-c", &enter, "sh", MEMWEIR, "run", "--policy", "round-robin", "--json", "-"]);
        shell.args(options).args(["--", "true"]);
        json(&mut shell.into(), 0)
    };
    assert_eq!(report(&[])["cores"], 1);
    let all = std::thread::available_parallelism().expect("a number").get();
    let told = report(&["--cores", &all.to_string()]);
    assert_eq!(told["cores"], all, "who asks for more gets more");
}

#[test]
fn a_meter_that_is_not_there_is_refused_with_the_reason() {
    if std::path::Path::new("/sys/fs/resctrl/info").exists() {
        return memweir_test_support::skip!(Present, "this machine has resctrl");
    }
    let world = World::new();
    let message = refusal(world.memweir().args(["run", "--meter", "resctrl", "--", "true"]), 3);
    assert!(message.contains("resctrl"), "{message}");
}

#[test]
fn without_a_meter_a_policy_that_needs_one_says_what_would_help() {
    let world = World::new();
    let run = ["run", "--meter", "declared", "--policy", "ideal-average", "--", "true"];
    let message = refusal(world.memweir().args(run), 3);
    assert!(message.contains("nothing is known of true"), "{message}");
}

#[test]
fn a_full_disk_under_the_report_is_told() {
    let world = World::new();
    let run = ["run", "--policy", "os", "--json", "/dev/full", "--", "true"];
    let message = stderr_of(world.memweir().args(run), 4);
    assert!(message.contains("/dev/full"), "{message}");
}

#[test]
fn a_comparison_that_cannot_go_on_tells_what_it_has_found() {
    let world = World::new();
    let compare = ["run", "--compare", "os,round-robin", "--repeat", "2", "--"];
    let in_the_way = ["sh", "-c", "touch memweir-logs/round-2"];
    let (shown, said) = both_of(world.memweir().args(compare).args(in_the_way), 4);
    assert!(shown.contains("1 round, interleaved"), "{shown}");
    assert!(said.contains("cannot write") && said.contains("round-2"), "{said}");
}

#[test]
fn a_file_of_commands_is_a_batch() {
    let world = World::new();
    let list = world.file("list", "# two jobs\n\necho one > one\necho two > two\n");
    let run = ["run", "--policy", "os", "--from-file"];
    world.memweir().args(run).arg(list).assert().success();
    assert_eq!((world.read("one").as_str(), world.read("two").as_str()), ("one\n", "two\n"));
    world.memweir().args(run).arg("-").write_stdin("echo three > three\n").assert().success();
    assert_eq!(world.read("three"), "three\n");
    // A service manager may give a socket, which cannot be opened by a path.
    let (mut ours, theirs) = UnixStream::pair().expect("sockets");
    ours.write_all(b"echo four > four\n").expect("a socket");
    drop(ours);
    let mut command = world.plain();
    command.args(run).arg("-").stdin(OwnedFd::from(theirs));
    assert!(command.status().expect("it starts").success());
    assert_eq!(world.read("four"), "four\n");
}

#[test]
fn a_job_waits_for_the_writer_of_its_fifo_and_memweir_does_not() {
    let world = World::new();
    let fifo = world.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    // The reader starts first, and both have one core.
    let reader = "[[jobs]]\nname = \"reader\"\ncommand = [\"cat\"]\nstdin = \"fifo\"\n";
    let writer = "[[jobs]]\nname = \"writer\"\ncommand = \"echo through > fifo\"\n";
    world.file("jobs.toml", &format!("{reader}{writer}"));
    let run = ["run", "--policy", "round-robin", "--cores", "1", "jobs.toml"];
    world.memweir().args(run).assert().code(0);
    assert_eq!(world.read("memweir-logs/reader.out"), "through\n");
    // Nobody writes.
    world.file("alone.toml", reader);
    let mut alone = world.start(&["run", "--policy", "os", "alone.toml"]);
    wait_until("the reader waits", || world.processes().len() > 2);
    send(&alone, Signal::SIGTERM);
    assert_eq!(alone.wait().expect("it ends").code(), Some(130));
    let twice = ["run", "--profile-first", "--policy", "os", "alone.toml"];
    let refused = refusal(world.memweir().args(twice), 2);
    assert!(refused.contains("alone.toml:4: jobs[0].stdin: a pipe can be read once"), "{refused}");
}
