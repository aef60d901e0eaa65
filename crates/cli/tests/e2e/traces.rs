//! Traces of other tools and job logs of clusters, from outside.

use serde_json::Value;

use crate::support::{World, json, refusal, stdout_of};

/// A log of Valgrind's lackey: `lackey.s` beside it is the program.
const LACKEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/data/lackey.txt");

fn stdout(world: &World, arguments: &[&str]) -> String {
    stdout_of(world.memweir().args(arguments), 0)
}

#[test]
fn loads_and_stores_go_through_caches_unless_told_otherwise() {
    let world = World::new();
    let convert = |out: &str, more: &[&str]| {
        stdout(&world, &[&["dram", "convert", LACKEY, out], more].concat())
    };
    // Nine lines of the array and one of the stack; no cache is full, so nothing is written back.
    let said = convert("behind.mwt", &[]);
    assert_eq!(
        said,
        "10 accesses, 0 of them writes, as memweir, behind caches: 32 KiB and 1 MiB per thread, \
         32 MiB shared\n"
    );
    assert_eq!(
        convert("raw.mwt", &["--caches", "none"]),
        "64 accesses, 24 of them writes, as memweir\n"
    );
    // ChampSim has caches of its own, and a record for each instruction.
    assert_eq!(convert("t.champsim", &[]), "64 accesses, 24 of them writes, as champsim\n");
    let size = std::fs::metadata(world.path().join("t.champsim")).expect("written").len();
    assert_eq!(size, 71 * 64);
    let replayed = |trace: &str, more: &[&str]| {
        let replay = ["dram", "replay", trace, "--memory", "ddr4-2400", "--wrap", "--json", "-"];
        json(world.memweir().args(replay).args(more), 0)
    };
    for trace in [LACKEY, "raw.mwt", "t.champsim"] {
        let result = replayed(trace, &[]);
        assert_eq!(result["requests"], 10, "{trace}");
        assert_eq!(result["trace"]["caches"]["llc_bytes"], 32 << 20, "{trace}");
    }
    assert_eq!(replayed("behind.mwt", &[])["trace"]["caches"], Value::Null);
    assert_eq!(replayed("raw.mwt", &["--caches", "none"])["requests"], 64);
    let message =
        refusal(world.memweir().args(["dram", "convert", LACKEY, "x", "--to", "lackey"]), 2);
    assert!(message.contains("`lackey` is read and not written"), "{message}");
}

#[test]
fn a_conversion_ends_with_its_reader() {
    let world = World::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut convert = world.without_input();
    convert.args(["dram", "convert", LACKEY, "-"]).stdout(writer);
    let output = convert.output().expect("memweir runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// Counted here are the lines of memory that each line of the log touches.
#[test]
fn a_log_of_the_installed_valgrind_is_read_to_its_end() {
    let Some(world) = World::with(&["valgrind"]) else { return };
    let lackey = ["--tool=lackey", "--trace-mem=yes", "--log-file=true.lackey", "true"];
    let mut valgrind = std::process::Command::new("valgrind");
    let status = valgrind.args(lackey).current_dir(world.path()).status();
    assert!(status.expect("it starts").success());
    let (mut accesses, mut writes) = (0, 0);
    for line in world.read("true.lackey").lines().filter(|line| line.starts_with(' ')) {
        let (kind, place) = line.trim_start().split_once(' ').expect("a kind");
        let (address, size) = place.split_once(',').expect("an address");
        let address = u64::from_str_radix(address, 16).expect("hexadecimal");
        let last = address + size.parse::<u64>().expect("a size") - 1;
        let touched = last / 64 - address / 64 + 1;
        accesses += touched * (1 + u64::from(kind == "M"));
        writes += touched * u64::from(kind != "L");
    }
    assert!(writes > 1_000, "{writes} writes: a program is loaded");
    let said = stdout(&world, &["dram", "convert", "true.lackey", "t.mwt", "--caches", "none"]);
    let said: String = said.chars().filter(|c| *c != ',').collect();
    let wanted = format!("{accesses} accesses {writes} of them writes as memweir\n");
    assert_eq!(said, wanted);
}

#[test]
fn pages_are_those_of_the_loads_and_stores_themselves() {
    let world = World::new();
    let said = stdout(&world, &["page", "refs", LACKEY, "pages.mwt"]);
    // A page of the array and one of the stack, both written, in one window.
    assert!(said.starts_with("2 pages (8 KiB), 2 of them written\n2 references, 2"), "{said}");
}

#[test]
fn commands_for_drampower_come_channel_by_channel() {
    let world = World::new();
    let replay = ["dram", "replay", LACKEY, "--memory", "ddr4-2400", "--wrap", "--channels", "2"];
    let commands = ["--caches", "none", "--commands", "c.csv", "--commands-format", "drampower"];
    stdout(&world, &[&replay[..], &commands[..]].concat());
    for file in ["c-0.csv", "c-1.csv"] {
        let text = world.read(file);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        for fields in &lines {
            // DRAMPower refuses reads and writes without a field for their data.
            let data = matches!(fields[1], "RD" | "RDA" | "WR" | "WRA").then_some("");
            assert_eq!(fields[7..], data.into_iter().collect::<Vec<_>>(), "{text}");
        }
        assert_eq!(lines.last().map(|fields| fields[1]), Some("END"), "{text}");
    }
}

const LOG: &str = r#"
policies = ["os", "ideal-average"]
machine = "iabw"
[log]
file = "jobs.txt"
bandwidth = { mean = 1e9, spread = 0.5 }
time_scale = 0.1
"#;

/// Jobs of `sacct`, one every two seconds.
fn sacct(jobs: u32) -> String {
    let job = |n: u32| {
        let (minute, second) = (n / 30 % 60, n % 30 * 2);
        let state = if n % 10 == 9 { "CANCELLED by 7" } else { "COMPLETED" };
        let elapsed = if n % 10 == 9 { 0 } else { 10 + n % 7 };
        let cores = 1 + n % 3;
        format!("{n}|job|2026-03-01T10:{minute:02}:{second:02}|{elapsed}|{cores}|{state}\n")
    };
    let head = "JobID|JobName|Submit|ElapsedRaw|AllocCPUS|State\n".to_owned();
    head + &(0..jobs).map(job).collect::<String>()
}

#[test]
fn a_job_log_is_simulated_and_told_in_terms_of_queueing() {
    let world = World::new();
    world.file("jobs.txt", &sacct(100));
    world.file("s.toml", LOG);
    let text = stdout(&world, &["sim", "s.toml", "--out", "rows.csv"]);
    for needle in [
        "log jobs.txt, 90 jobs; left out: 10 cancelled before they ran; 0.1 s simulated",
        "at most 8 tasks admitted; slowdown bounded at 1.00 s",
        "bounded slowdown",
        "utilization",
    ] {
        assert!(text.contains(needle), "{needle} is missing in\n{text}");
    }
    let rows = world.read("rows.csv");
    assert!(rows.lines().next().is_some_and(|head| head.ends_with(",utilization")), "{rows}");
    let result = json(world.memweir().args(["sim", "s.toml", "--json", "-"]), 0);
    let point = &result["points"][0];
    assert_eq!(point["log"]["left_out"]["cancelled"], 10);
    for policy in point["policies"].as_array().expect("policies") {
        let queueing = &policy["queueing"];
        let number = |value: &Value| value.as_f64().expect("a number");
        for figure in ["wait_s", "response_s", "bounded_slowdown"] {
            let of = |key: &str| number(&queueing[figure][key]);
            assert!(of("p50") <= of("p95") && of("p95") <= of("p99") && of("p99") <= of("max"));
        }
        assert!((0.0..=1.0).contains(&number(&queueing["utilization"])), "{queueing}");
    }
    let store = ["sim", "s.toml", "--set", "log.bandwidth=store", "--store", "empty.sqlite"];
    world.file("empty.sqlite", "");
    let message = refusal(world.memweir().args(store), 2);
    assert!(message.contains("the profile store has no program `job`"), "{message}");
    for swept in [&[][..], &["--sweep", "seed=1,2", "--list-points"]] {
        let unused = ["sim", "s.toml", "--store", "empty.sqlite"];
        let message = refusal(world.memweir().args(unused).args(swept), 2);
        assert!(message.contains("takes nothing from a profile store"), "{message}");
    }
}
