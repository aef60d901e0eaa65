//! Scenarios at bank level: their output, files, sweeps and refusals.

use serde_json::Value;

use crate::support::{Rows, World, json, refusal, stdout_of};

const MIX: &str = r#"
fidelity = "bank"
machine = "simple-o3"
instructions = 50_000
partitions = ["none", "uniform"]
programs = [{ trace = "core.txt" }, { synthetic = { mpki = 30, rbl = 0.8, blp = 1.5 } }]
"#;

/// A mix, and the trace that one of its programs is.
fn mix(world: &World) -> std::path::PathBuf {
    let lines = (0..2_000u64).map(|load| format!("9 {}\n", load * 8_192 % (1 << 27)));
    world.file("core.txt", &lines.collect::<String>());
    world.file("mix.toml", MIX)
}

#[test]
fn the_report_has_programs_conflicts_and_partitions() {
    let world = World::new();
    let file = mix(&world);
    let report: Value = json(world.memweir().args(["sim", "--json", "-"]).arg(&file), 0);
    assert_eq!(report["fidelity"], "bank");
    let point = &report["points"][0];
    assert_eq!(point["alone"].as_array().map(Vec::len), Some(2));
    assert!(point["alone"][1]["fit"]["reached"].is_boolean());
    let [plain, uniform] = &point["partitions"].as_array().expect("partitions")[..] else {
        panic!("two partitions: {point}")
    };
    assert_eq!((&plain["colors"][0], &uniform["colors"][0]), (&Value::Null, &"0-7".into()));
    for field in ["weighted_speedup", "maximum_slowdown", "harmonic_speedup", "row_miss_rate"] {
        assert!(uniform[field].is_number(), "{field} is missing in {uniform}");
    }
    assert!(uniform["improvement"]["weighted_speedup"].is_number());
    assert_eq!(uniform["conflicts"][0][1], 0);
    for field in
        ["ipc", "ipc_alone", "slowdown", "mpki", "row_hit_rate", "bank_parallelism", "bandwidth"]
    {
        assert!(plain["programs"][0][field].is_number(), "{field} is missing in {plain}");
    }
    assert_eq!(plain["programs"][0]["instructions"], 50_000);
}

#[test]
fn a_person_reads_tables_and_a_sweep_has_a_row_per_point() {
    let world = World::new();
    let file = mix(&world);
    let text =
        |arguments: &[&str]| stdout_of(world.memweir().arg("sim").args(arguments).arg(&file), 0);
    let one = text(&[]);
    for needle in ["partition uniform", "row conflicts, by who", "weighted speedup", "Sum(BW)"] {
        assert!(one.contains(needle), "{needle} is missing in\n{one}");
    }
    let swept = text(&["--sweep", "machine.mshrs=1,16", "--set", "machine.name=own"]);
    assert!(swept.contains("machine.mshrs"), "{swept}");
    assert_eq!(swept.lines().filter(|line| line.contains("uniform")).count(), 2, "{swept}");
}

const BATCH: &str = r#"
fidelity = "bank"
machine = { cores = 2, memory = { device = "ddr4-2400" } }
policies = ["os", "max-weight"]
compression = 10_000
programs = [{ instances = 3, time_us = 30, synthetic = { mpki = 5, rbl = 0.8, blp = 1.5 } }]
"#;

#[test]
fn a_batch_has_a_row_per_policy_and_one_per_job() {
    let world = World::new();
    let file = world.file("batch.toml", BATCH);
    let text = stdout_of(world.memweir().arg("sim").arg(&file), 0);
    for needle in ["policy max-weight", "on cores", "turnaround", "memory carries", "3 programs"] {
        assert!(text.contains(needle), "{needle} is missing in\n{text}");
    }
    let arguments = ["sim", "--sweep", "knowledge=alone,nothing", "--json", "-"];
    let report: Value = json(world.memweir().args(arguments).arg(&file), 0);
    for point in report["points"].as_array().expect("points") {
        assert!(point["peak"].as_f64().is_some_and(|peak| (5e9..19.2e9).contains(&peak)));
        let [os, ours] = &point["policies"].as_array().expect("policies")[..] else {
            panic!("two policies: {point}")
        };
        assert_eq!((&os["gain"], &ours["policy"]), (&Value::Null, &"max-weight".into()));
        assert_eq!(ours["jobs"].as_array().map(Vec::len), Some(3));
        for field in ["alone_s", "finish_s", "running_s"] {
            assert!(ours["jobs"][2][field].is_number(), "{field} is missing in {ours}");
        }
    }
    let arguments = ["sim", "--sweep", "seed=1,2", "--shard", "1/1", "--out", "points"];
    world.memweir().args(arguments).arg(&file).assert().success();
    world.memweir().args(["sweep", "merge", "points", "--out", "rows.csv"]).assert().success();
    let rows = world.read("rows.csv");
    assert!(rows.starts_with("at.seed,policy,program,"), "{rows}");
    assert_eq!(rows.lines().count(), 1 + 2 * 2 * 3, "{rows}");
    let arguments = ["sim", "--sweep", "seed=1,2", "--out", "one.csv"];
    world.memweir().args(arguments).arg(&file).assert().success();
    assert_eq!(world.read("one.csv"), rows);
}

#[test]
fn a_timeline_has_the_requests_of_each_program_and_partition() {
    let world = World::new();
    let file = mix(&world);
    let arguments = ["sim", "--timeline", "t.csv", "--interval", "2us", "--svg", "t.svg"];
    let report: Value = json(world.memweir().args(arguments).args(["--json", "-"]).arg(&file), 0);
    for run in report["points"][0]["partitions"].as_array().expect("partitions") {
        let name = run["partition"].as_str().expect("a name");
        let rows = Rows::of(&world.read(&format!("t.{name}.csv")));
        let programs = run["programs"].as_array().expect("programs");
        for field in ["reads", "writes", "row_hits", "row_misses", "row_conflicts"] {
            let reported: f64 = programs.iter().filter_map(|program| program[field].as_f64()).sum();
            assert_eq!(rows.sum(field), reported, "{field} under {name}");
        }
        let times: f64 = programs.iter().filter_map(|program| program["time_s"].as_f64()).sum();
        assert!((rows.sum("length_s") - times).abs() < 1e-9, "{times}");
    }
    let svg = world.read("t.svg");
    assert!(svg.contains("uniform: row hits") && svg.contains("none: read latency"), "{svg}");
    let svg = ["sim", "--sweep", "seed=1,2", "--svg", "s.svg"];
    world.memweir().args(svg).arg(&file).assert().success();
    assert!(world.read("s.svg").contains("weighted speedup"));
}

#[test]
fn a_timeline_of_a_batch_has_its_quanta_in_the_time_of_the_machine() {
    let world = World::new();
    let file = world.file("batch.toml", BATCH);
    let arguments = ["sim", "--timeline", "t.csv", "--svg", "t.svg", "--json", "-"];
    let report: Value = json(world.memweir().args(arguments).arg(&file), 0);
    for run in report["points"][0]["policies"].as_array().expect("policies") {
        let name = run["policy"].as_str().expect("a name");
        let rows = Rows::of(&world.read(&format!("t.{name}.csv")));
        let turnaround = run["turnaround_s"].as_f64().expect("a time");
        let starts = rows.numbers("t_start_s").zip(rows.numbers("span_s"));
        let end = starts.map(|(start, span)| start + span).fold(0.0, f64::max);
        assert!((end / turnaround - 1.0).abs() < 1e-4, "{end} of {turnaround}");
        let bytes = 64.0 * (rows.sum("reads") + rows.sum("writes"));
        let reported = turnaround * run["bandwidth"].as_f64().expect("a bandwidth");
        assert!((bytes / reported - 1.0).abs() < 1e-6, "{bytes} of {reported}");
        let jobs = run["jobs"].as_array().expect("jobs");
        let running: f64 = jobs.iter().filter_map(|job| job["running_s"].as_f64()).sum();
        assert!((rows.sum("cpu_s") / running - 1.0).abs() < 1e-3, "{running}");
    }
    assert!(world.read("t.svg").contains("max-weight"));
    let refused = refusal(world.memweir().args(["sim", "--interval", "1us"]).arg(&file), 2);
    assert!(refused.contains("job and quantum"), "{refused}");
}

#[test]
fn what_cannot_be_simulated_is_refused_before_it_starts() {
    let world = World::new();
    let file = mix(&world);
    let refused =
        |arguments: &[&str]| refusal(world.memweir().arg("sim").args(arguments).arg(&file), 2);
    assert!(refused(&["--timeline", "rows.txt"]).contains("parquet"));
    assert!(refused(&["--interval", "1us"]).contains("there are none"));
    assert!(refused(&["--store", "x"]).contains("takes nothing from a profile store"));
    let sharded = ["--sweep", "seed=1,2", "--shard", "1/2", "--out", "points"];
    let message = refused(&[&sharded[..], &["--interval", "1us"]].concat());
    assert!(message.contains("--interval") && message.contains("in shards"), "{message}");
    let mut unwritable = world.memweir();
    let message = refusal(unwritable.args(["sim", "--timeline", "no/t.csv"]).arg(&file), 4);
    assert!(message.contains("no/t.none.csv"), "{message}");
    assert!(refused(&["--set", "fidelity=banks"]).contains("did you mean `bank`"));
    let message = refused(&["--set", "programs[0].trace=missing.txt"]);
    assert!(message.contains("missing.txt: cannot be read"), "{message}");
}
