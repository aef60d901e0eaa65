//! Simulated batches: their output, files and figures, killed sweeps, and refusals.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{SPIN, World, both_of, json, refusal, result, send, wait_until};

/// Four tasks that together want more than the bus carries, and four that want next to nothing.
const MIX: &str = r#"
machine = "iabw"
policies = ["os", "round-robin", "ideal-average"]
seed = 7

[[tasks]]
name = "heavy"
spans = [{ length_s = 0.7, read_bandwidth = 2.5e9 }, { length_s = 0.3, read_bandwidth = 0.5e9 }]
work_s = 3
instances = 4
offset_s = "random"

[[tasks]]
name = "light"
spans = [{ length_s = 1, read_bandwidth = 1e7 }]
work_s = 3
instances = 4
"#;

fn stdout(command: &mut assert_cmd::Command) -> String {
    let (shown, told) = both_of(command, 0);
    assert!(told.is_empty(), "a pipe sees no progress: {told}");
    shown
}

#[test]
fn the_example_is_commented_and_runs() {
    let world = World::new();
    let example = stdout(world.memweir().args(["sim", "--example"]));
    assert!(example.lines().filter(|line| line.starts_with('#')).count() > 10, "{example}");
    let file = world.file("example.toml", &example);
    let text = stdout(world.memweir().arg("sim").arg(file));
    for needle in ["turnaround", "gain", "speedup", "bandwidth", "ideal-average", "os"] {
        assert!(text.contains(needle), "{needle} is missing in\n{text}");
    }
}

#[test]
fn a_seed_below_zero_is_refused_as_a_value() {
    for command in [&["run"][..], &["emulate", "--machine", "iabw"]] {
        let world = World::new();
        let text = refusal(world.memweir().args(command).args(["--seed", "-1", "--", "true"]), 2);
        assert!(text.contains("-1") && !text.contains("-- -1"), "{text}");
    }
}

#[test]
fn the_list_has_everything_that_can_be_named() {
    let text = stdout(World::new().memweir().args(["sim", "--list"]));
    for needle in ["iabw", "hmmsched", "stt-ram", "ideal-average", "no-classes", "window:K"] {
        assert!(text.contains(needle), "{needle} is missing in\n{text}");
    }
    let listed = json(World::new().memweir().args(["sim", "--list", "--json"]), 0);
    let names = |key: &str| -> Vec<&str> {
        let rows = listed[key].as_array().expect(key);
        rows.iter().map(|row| row["name"].as_str().expect("a name")).collect()
    };
    assert!(names("machines").contains(&"hmmsched") && names("policies").contains(&"max-weight"));
    let pages = json(World::new().memweir().args(["page", "sim", "--list", "--json"]), 0);
    assert!(pages["swaps"][0]["about"].as_str().is_some_and(|about| !about.is_empty()));
}

#[test]
fn the_report_has_the_fields_that_others_rely_on() {
    let world = World::new();
    let file = world.file("mix.toml", MIX);
    let report =
        json(world.memweir().args(["sim", "--json", "-", "--set", "repetitions=3"]).arg(&file), 0);
    let point = &report["points"][0];
    assert_eq!(
        (&point["machine"], &point["cores"], &point["tasks"]),
        (&"iabw".into(), &4.into(), &8.into())
    );
    assert_eq!((&point["baseline"], &point["at"]), (&"os".into(), &serde_json::json!({})));
    let policies = point["policies"].as_array().expect("policies");
    assert_eq!(policies.len(), 3);
    assert_eq!(policies[0]["verdict"], "baseline");
    for policy in policies {
        for field in
            ["mean_s", "rsd_percent", "gain", "weighted_speedup", "bandwidth_mean", "bandwidth_std"]
        {
            assert!(policy[field].is_number(), "{field} is missing in {policy}");
        }
        assert_eq!(policy["turnaround_s"].as_array().map(Vec::len), Some(3));
    }
    assert!(
        policies[1]["difference"]["low_s"].as_f64() < policies[1]["difference"]["high_s"].as_f64()
    );
    let runs = point["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 9);
    let seeds: Vec<u64> = runs.iter().filter_map(|run| run["seed"].as_u64()).collect();
    assert_eq!(seeds, [7, 7, 7, 8, 8, 8, 9, 9, 9]);
    let task = &runs[0]["tasks"][0];
    assert_eq!(task["name"], "heavy");
    assert!(task["slowdown"].as_f64() >= Some(1.0), "{task}");
    // Three seconds of work alone take three seconds.
    assert!((task["alone_s"].as_f64().expect("a time") - 3.0).abs() < 1e-6, "{task}");
}

#[test]
fn equal_scenarios_give_equal_results_whatever_the_threads() {
    let world = World::new();
    let file = world.file("mix.toml", MIX);
    let run = |threads: &str| {
        let mut sim = world.memweir();
        sim.args(["sim", "--json", "-", "--threads", threads, "--sweep", "cores=1..4"]);
        result(sim.args(["--set", "repetitions=2"]).arg(&file), 0)
    };
    assert_eq!(run("1"), run("5"));
}

#[test]
fn a_sweep_writes_a_row_per_run_in_order() {
    let world = World::new();
    let file = world.file("mix.toml", MIX);
    let mut sim = world.memweir();
    sim.args(["sim", "--sweep", "cores=2,4", "--sweep", "policies=[os],[os,random]"]);
    sim.args(["--sweep", "machine.memories[0].capacity=4e9..6e9:2e9", "--out", "runs.csv"]);
    let text = stdout(sim.args(["--svg", "sweep.svg"]).arg(&file));
    assert_eq!(text.lines().filter(|line| line.contains(" os ")).count(), 8, "{text}");
    let rows = world.read("runs.csv");
    let lines: Vec<&str> = rows.lines().collect();
    assert!(
        lines[0].starts_with("cores,policies,machine.memories[0].capacity,policy,repetition,seed,")
    );
    assert_eq!(lines.len(), 1 + 2 * 2 * (1 + 2), "{rows}");
    let heads: Vec<String> = lines[1..]
        .iter()
        .map(|line| line.split(',').take(2).collect::<Vec<_>>().join(","))
        .collect();
    assert!(heads[..6].iter().all(|head| head.starts_with("2,")), "{heads:?}");
    assert!(!world.has("runs.csv.partial.csv"));
    let svg = world.read("sweep.svg");
    assert!(svg.contains("random") && svg.contains("turnaround (s)"), "{svg}");
}

#[test]
fn results_can_be_parquet() {
    let world = World::new();
    let file = world.file("mix.toml", MIX);
    let files = ["--out", "runs.parquet", "--timeline", "t.parquet"];
    stdout(world.memweir().args(["sim", "--set", "policies=os"]).args(files).arg(&file));
    for name in ["runs.parquet", "t.parquet"] {
        let bytes = std::fs::read(world.path().join(name)).expect(name);
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{name}");
    }
}

#[test]
fn timeline_and_plot_show_who_ran_when() {
    let world = World::new();
    let file = world.file("mix.toml", MIX);
    stdout(world.memweir().args(["sim", "--timeline", "t.csv", "--svg", "t.svg"]).arg(&file));
    let rows = world.read("t.ideal-average.csv");
    let mut lines = rows.lines();
    let head: Vec<&str> = lines.next().expect("a head").split(',').collect();
    let column = |name: &str| head.iter().position(|head| *head == name).expect(name);
    let (quantum, cpu, bandwidth) =
        (column("quantum"), column("cpu_s"), column("system_bandwidth"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let first: f64 = rows
        .iter()
        .filter(|row| row[quantum] == "0")
        .map(|row| row[cpu].parse::<f64>().expect("a time"))
        .sum();
    assert!(first > 0.39 && first <= 0.4 + 1e-9, "four cores for 0.1 s: {first}");
    // No quantum moves more than the bus carries.
    let most =
        rows.iter().map(|row| row[bandwidth].parse::<f64>().expect("a rate")).fold(0.0, f64::max);
    assert!(most <= 5.12e9 * 1.000_001 && most > 1e9, "{most}");
    let svg = world.read("t.svg");
    for needle in ["os: ", "ideal-average: ", "heavy#2", "which jobs ran", "peak"] {
        assert!(svg.contains(needle), "{needle} is missing");
    }
}

#[test]
fn a_sweep_that_is_killed_keeps_the_rows_it_has() {
    let world = World::new();
    let file = world.file("mix.toml", MIX);
    let file = file.to_str().expect("a path");
    let sweep = ["sim", "--set", "repetitions=100000", "--sweep", "cores=1..4"];
    let mut child = world.start(&[&sweep[..], &["--out", "runs.csv", file]].concat());
    let journal = || {
        let path = world.path().join("runs.csv.partial.csv");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    wait_until("rows of the first runs", || journal().lines().count() > 5);
    send(&child, Signal::SIGKILL);
    child.wait().expect("it is over");
    let kept = journal();
    let whole: Vec<&str> = kept.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
    assert!(whole.len() > 5, "{kept}");
    let columns = |line: &str| line.split(',').count();
    assert!(whole.iter().all(|line| columns(line) == columns(whole[0])), "{kept}");
}

/// A recording that was cut off, and one that lies: refused like any other key.
#[test]
fn truncated_recordings_are_refused() {
    let world = World::new();
    world.file("cut.parquet", "PAR1 and nothing else");
    let text = "machine = \"iabw\"\npolicies = \"os\"\n[[tasks]]\nrecording = \"cut.parquet\"\n";
    let file = world.file("s.toml", text);
    let message = refusal(world.memweir().arg("sim").arg(file), 2);
    assert!(message.contains("s.toml:4: tasks[0].recording: "), "{message}");
    assert!(message.contains("cut.parquet is not a memweir recording"), "{message}");
}

#[test]
fn a_recording_of_a_real_program_can_be_simulated() {
    let world = World::new();
    let recorded = world
        .plain()
        .args(["profile", "--recording", "spin.parquet", "--no-store", "--", "sh", "-c", SPIN])
        // Profiles are refused for programs that read a pipe.
        .stdin(std::process::Stdio::null())
        .output()
        .expect("memweir runs");
    if !recorded.status.success() {
        let said = String::from_utf8_lossy(&recorded.stderr);
        return memweir_test_support::skip!(Program, "no program can be profiled: {said}");
    }
    let text = "machine = \"iabw\"\npolicies = [\"os\", \"random\"]\noptimum = \"bound\"\n\
                [[tasks]]\nrecording = \"spin.parquet\"\ninstances = 8\n";
    let file = world.file("s.toml", text);
    let report = json(world.memweir().args(["sim", "--json", "-"]).arg(file), 0);
    let run = &report["points"][0]["runs"][0];
    let alone = run["tasks"][0]["alone_s"].as_f64().expect("a time");
    let turnaround = run["turnaround_s"].as_f64().expect("a time");
    assert!(alone > 0.0 && turnaround >= 2.0 * alone * 0.999, "{alone} {turnaround}");
}

#[test]
fn wrong_scenarios_are_refused_with_file_line_and_nearest_choice() {
    let cases: [(&str, &str, &str, &str); 8] = [
        ("\"iabw\"", "\"iabv\"", "mix.toml:2: machine: unknown machine", "did you mean `iabw`"),
        ("\"iabw\"", "\"absent.toml\"", "absent.toml: cannot be read", ""),
        ("\"os\"", "\"oss\"", "mix.toml:3: policies[0]: unknown policy `oss`", "did you mean `os`"),
        ("seed", "sede", "mix.toml:4: sede: unknown key", "did you mean `seed`"),
        ("seed = 7", "cores = 0", "mix.toml:4: cores: ", "from 1 to 4"),
        ("spans", "spns", "mix.toml:8: tasks[0].spns: unknown key", "did you mean `spans`"),
        ("instances = 4", "instances = -4", "mix.toml:10: tasks[0].instances", "from 1 to"),
        ("work_s = 3", "work_s = -3", "mix.toml:9: tasks[0].work_s", "seconds"),
    ];
    for (from, to, place, help) in cases {
        let world = World::new();
        let file = world.file("mix.toml", &MIX.replacen(from, to, 1));
        let message = refusal(world.memweir().args(["sim", "--out", "runs.csv"]).arg(file), 2);
        assert!(message.contains(place), "{place} is missing in {message}");
        assert!(message.contains(help), "{help} is missing in {message}");
        assert!(!world.has("runs.csv.partial.csv"), "work started in spite of: {message}");
    }
}

#[test]
fn wrong_options_are_refused_before_the_work() {
    let cases: [(&[&str], i32, &str); 12] = [
        (&["--sweep", "cores"], 2, "gives no values"),
        (&["--sweep", "cores=4..1"], 2, "is no range"),
        (&["--sweep", "cores=1,9"], 2, "--sweep cores=9: cores: `iabw` has 4 cores"),
        (&["--sweep", "polices=os"], 2, "did you mean `policies`"),
        (&["--sweep", "cores=1,2", "--sweep", "cores=3"], 2, "is swept twice"),
        (&["--set", "machine.nodes[0].cores=0"], 2, "nodes[0].cores: 0 is out of range"),
        (&["--set", "tasks[7].work_s=1"], 2, "none is [7]"),
        (&["--set", "cores"], 2, "KEY=VALUE"),
        (&["--threads", "0"], 2, "--threads"),
        (&["--out", "runs.xls"], 2, "csv"),
        (&["--timeline", "t.csv", "--sweep", "cores=1,2"], 2, "cannot be used with"),
        (&["--json", "absent/x.json"], 4, "absent/x.json"),
    ];
    for (options, code, help) in cases {
        let world = World::new();
        let file = world.file("mix.toml", MIX);
        let message = refusal(world.memweir().arg("sim").args(options).arg(file), code);
        assert!(message.contains(help), "{help} is missing in {message}");
    }
    let message = refusal(World::new().memweir().arg("sim"), 2);
    assert!(message.contains("SCENARIO.toml"), "{message}");
    let world = World::new();
    let file = world.file("mix.toml", MIX);
    let options = ["--timeline", "t.csv", "--out", "runs.xls"];
    refusal(world.memweir().arg("sim").args(options).arg(file), 2);
    let left = std::fs::read_dir(world.path()).expect("a directory").flatten();
    let mut names = left.map(|entry| entry.file_name().to_string_lossy().into_owned());
    assert!(!names.any(|name| name.starts_with("t.")), "a timeline was begun");
}

#[test]
fn help_completions_and_manual_know_the_command() {
    let world = World::new();
    let help = stdout(world.memweir().args(["sim", "--help"]));
    for needle in ["--sweep", "--example", "--list", "machine.memories[0].capacity", "Exit codes:"]
    {
        assert!(help.contains(needle), "{needle} is missing in\n{help}");
    }
    let script = stdout(world.memweir().args(["completions", "fish"]));
    assert!(script.contains("sweep") && script.contains("example"));
    world.memweir().args(["man", "pages"]).assert().success();
    let page = world.read("pages/memweir-sim.1");
    assert!(page.contains("sweep"), "{page}");
}

/// The gain that is printed is the one that is reported, and comes from the runs.
#[test]
fn gains_follow_from_the_runs() {
    let world = World::new();
    let file = world.file("mix.toml", MIX);
    let report: Value = json(world.memweir().args(["sim", "--json", "-"]).arg(&file), 0);
    let point = &report["points"][0];
    let turnaround =
        |policy: usize| point["runs"][policy]["turnaround_s"].as_f64().expect("a time");
    let gain = point["policies"][2]["gain"].as_f64().expect("a gain");
    assert!((gain - (turnaround(0) / turnaround(2) - 1.0)).abs() < 1e-9);
    let text = stdout(world.memweir().arg("sim").arg(&file));
    assert!(text.contains(&format!("{:+.1} %", gain * 100.0)), "{gain}\n{text}");
}
