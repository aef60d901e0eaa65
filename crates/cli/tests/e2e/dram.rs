//! `memweir dram` from outside: traces in, results out.

use serde_json::Value;

use crate::support::{MEMWEIR, Rows, World, json, refusal, stderr_of, stdout_of};

/// `lines` lines in order, every `writes`th a write, in Ramulator 2's format.
fn stream(lines: u64, writes: u64) -> String {
    let line = |i: u64| {
        let operation = if i % writes == writes - 1 { "ST" } else { "LD" };
        format!("{operation} {:#x}\n", i * 64)
    };
    (0..lines).map(line).collect()
}

const REPLAY: [&str; 5] = ["dram", "replay", "t.txt", "--memory", "ddr4-2400"];

fn replayed(world: &World, arguments: &[&str]) -> Value {
    let replay = ["dram", "replay", "--memory", "ddr4-2400", "--json", "-"];
    json(world.memweir().args(replay).args(arguments), 0)
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}

#[test]
fn a_replay_reports_every_field_and_its_sums_agree() {
    let world = World::new();
    world.file("t.txt", &stream(20_000, 3));
    let result = replayed(&world, &["t.txt", "--mode", "sat", "--check"]);
    assert_eq!(number(&result, "requests"), 20_000);
    assert_eq!(number(&result, "reads") + number(&result, "writes"), 20_000);
    let rows = ["row_hits", "row_misses", "row_conflicts"].map(|key| number(&result, key));
    assert_eq!(rows.iter().sum::<u64>(), 20_000);
    let latency = &result["read_latency_cycles"];
    let in_histogram = latency["histogram"].as_array().expect("an array").iter();
    let in_histogram: u64 = in_histogram.map(|bucket| number(bucket, "count")).sum();
    assert_eq!(in_histogram, number(&result, "reads"));
    let seconds = number(&result, "cycles") as f64 * 0.833e-9;
    let close = |found: &Value, wanted: f64| {
        let found = found.as_f64().unwrap_or_else(|| panic!("no number in {result}"));
        assert!((found / wanted - 1.0).abs() < 1e-9, "{found} {wanted}");
    };
    close(&result["bandwidth_bytes_per_s"], 20_000.0 * 64.0 / seconds);
    close(&result["bus_utilisation"], 20_000.0 * 4.0 / number(&result, "cycles") as f64);
    let energy = result["energy_pj"].as_object().expect("energies").values();
    let energy: f64 = energy.map(|pj| pj.as_f64().expect("a number")).sum();
    close(&result["average_power_mw"], energy * 1e-9 / seconds);
    for key in ["p50", "p90", "p99", "max"] {
        assert!(latency[key].is_u64(), "{key} in {latency}");
    }
    for key in ["activates", "refreshes"] {
        assert!(number(&result, key) > 0, "{key}");
    }
    assert!(result["cpu_s"].as_f64() > Some(0.0) && result["requests_per_cpu_s"].is_f64());
}

#[test]
fn unloaded_reads_take_what_the_data_sheet_says() {
    let world = World::new();
    for (trace, latency) in [("LD 0\n", 38), ("LD 0\nLD 256\n", 21), ("LD 0\nLD 0x20000\n", 55)] {
        world.file("t.txt", trace);
        let result = replayed(&world, &["t.txt", "--mode", "pace:1000"]);
        let histogram = result["read_latency_cycles"]["histogram"].as_array().expect("an array");
        let holds =
            |bucket: &Value| (number(bucket, "from")..=number(bucket, "to")).contains(&latency);
        assert!(histogram.iter().any(holds), "{latency}: {result}");
    }
}

#[test]
fn a_trace_says_the_same_in_every_format() {
    let world = World::new();
    world.file("t.txt", &stream(3_000, 4));
    let wanted = replayed(&world, &["t.txt", "--mode", "mlp:8"]);
    for (name, format) in [
        ("t.mwt", "memweir"),
        ("t.bin", "bin"),
        ("t.r1", "ramulator1"),
        ("t.d3", "dramsim3"),
        ("t.r2", "ramulator2"),
    ] {
        let converted = ["dram", "convert", "t.txt", name, "--to", format];
        world.memweir().args(converted).assert().success();
        let result = replayed(&world, &[name, "--mode", "mlp:8"]);
        for key in ["cycles", "row_hits", "reads", "writes", "read_latency_cycles"] {
            assert_eq!(result[key], wanted[key], "{name}: {key}");
        }
    }
}

#[test]
fn a_timeline_has_all_requests_interval_by_interval() {
    let world = World::new();
    world.file("t.txt", &stream(3_000, 4));
    let of_run = ["t.txt", "--mode", "mlp:8", "--nvm", "pcm-lpddr2", "--wrap"];
    let timeline = ["--timeline", "t.csv", "--svg", "t.svg", "--interval", "500ns"];
    let result = replayed(&world, &[&of_run[..], &timeline].concat());
    let rows = Rows::of(&world.read("t.csv"));
    for name in ["reads", "writes", "row_hits", "row_misses", "row_conflicts"] {
        assert_eq!(rows.sum(name), number(&result, name) as f64, "{name}");
    }
    // The intervals of each memory are all of its time: 0.833 ns for a cycle.
    let time = number(&result, "cycles") as f64 * 0.833e-9;
    let all = rows.sum("length_s");
    assert!((all - 2.0 * time).abs() < 1e-9, "{all} of {time}");
    assert!(rows.numbers("length_s").all(|length| length < 501e-9));
    assert!(world.read("t.svg").contains("read latency"));
    for (interval, needle) in [("50ns", "from 100ns"), ("5", "not a time")] {
        let message = refusal(world.memweir().args(REPLAY).args(["--interval", interval]), 2);
        assert!(message.contains(needle), "{message}");
    }
}

#[test]
fn wrong_traces_are_refused_with_line_and_field() {
    let world = World::new();
    for (content, needle) in [
        ("LD 0x40\nLD 0x4q\n", "t.txt:2: address: `0x4q`"),
        ("LD 0x40\nXX 0x40\n", "t.txt:2: operation: `XX`"),
        ("", "the trace is empty"),
        ("LD 0x40\nLD 0x200000000\n", "t.txt:2: address: 0x200000000 lies outside"),
        ("LD 99999999999999999999999\n", "does not fit into 64 bits"),
    ] {
        world.file("t.txt", content);
        let stderr = stderr_of(world.memweir().args(REPLAY), 2);
        assert!(stderr.contains(needle), "{content:?}: {stderr}");
    }
    world.file("t.txt", "LD 0x200000040\n");
    assert_eq!(number(&replayed(&world, &["t.txt", "--wrap"]), "requests"), 1);
}

#[test]
fn wrong_options_name_the_valid_ones() {
    let world = World::new();
    world.file("t.txt", "LD 0\n");
    for (arguments, needle) in [
        (["--memory", "ddr4-2401"], "did you mean `ddr4-2400`"),
        (["--mode", "mlp"], "`mlp` lacks a number"),
        (["--scheduler", "frfcfs"], "fr-fcfs"),
        (["--page", "opne"], "open"),
        (["--ranks", "3"], "1, 2, 4, 8 or 16"),
    ] {
        let mut command = world.memweir();
        command.args(["dram", "replay", "t.txt"]).args(arguments);
        if arguments[0] != "--memory" {
            command.args(["--memory", "ddr4-2400"]);
        }
        let stderr = stderr_of(&mut command, 2);
        assert!(stderr.contains(needle), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_report_shows_the_map_the_results_and_the_latencies() {
    let world = World::new();
    world.file("t.txt", &stream(1_000, 5));
    let text = stdout_of(world.memweir().args(REPLAY).args(["--commands", "c.txt"]), 0);
    for needle in ["bank-group    bits 6-7", "row hits", "read latency in cycles: mean", "█"] {
        assert!(text.contains(needle), "{needle} is missing in\n{text}");
    }
    let commands = world.read("c.txt");
    assert!(commands.lines().count() > 1_000 && commands.contains("activate"), "{commands}");
}

#[test]
fn every_shipped_memory_is_listed_and_shown() {
    let world = World::new();
    let list = stdout_of(world.memweir().args(["dram", "list"]), 0);
    let names: Vec<&str> =
        list.lines().skip(2).filter_map(|l| l.split_whitespace().next()).collect();
    assert!(names.contains(&"ddr4-2400") && names.len() > 1, "{list}");
    let text = stdout_of(world.memweir().args(["dram", "show", "ddr4-2400"]), 0);
    for needle in ["tRCD", "row hit 21 cycles", "idd4r", "source: "] {
        assert!(text.contains(needle), "{needle} is missing in\n{text}");
    }
    let list = json(world.memweir().args(["dram", "list", "--json"]), 0);
    assert_eq!(list["memories"].as_array().map(Vec::len), Some(names.len()));
    let shown = json(world.memweir().args(["dram", "show", "ddr4-2400", "--json", "-"]), 0);
    assert_eq!(shown["memweir"]["arguments"][1], "show");
    assert_eq!((&shown["clock_ps"], &shown["organization"]["banks"]), (&833.into(), &4.into()));
    let listed = list["memories"].as_array().expect("a list");
    let listed = listed.iter().find(|memory| memory["name"] == "ddr4-2400").expect("listed");
    assert_eq!(shown["peak_bandwidth"], listed["peak_bandwidth"]);
    assert!(shown["currents"]["rails"][0]["idd4r"].is_number(), "{shown}");
}

#[test]
fn one_of_a_thing_is_singular() {
    let world = World::new();
    world.file("t.txt", "LD 64\n");
    let checked = ["--check", "--commands", "c.txt"];
    let text = stdout_of(world.memweir().args(REPLAY).args(checked), 0);
    assert!(text.contains("1: 1 read, 0 writes"), "{text}");
    let first: String = world.read("c.txt").split_inclusive('\n').take(2).collect();
    world.file("c.txt", &first);
    let check = ["dram", "check", "c.txt", "--memory", "ddr4-2400"];
    let text = stdout_of(world.memweir().args(check), 0);
    assert!(text.starts_with("1 command up to") && text.contains("keeps all rules"), "{text}");
    let text = stdout_of(world.memweir().args(["dram", "show", "ddr3-1066"]), 0);
    assert!(text.contains("1 sub-channel, 1 rank\n"), "{text}");
    assert!(text.contains("1 bank group of 8 banks,"), "{text}");
}

#[test]
fn a_curve_becomes_the_memory_of_a_simulated_machine() {
    let world = World::new();
    let curve = ["dram", "curve", "--memory", "ddr4-2400", "--requests", "5000"];
    let lines = ["--read-shares", "50,100", "--patterns", "random"];
    let results = ["--out", "curve.toml", "--svg", "curve.svg", "--json", "-"];
    let result = json(world.memweir().args(curve).args(lines).args(results), 0);
    assert_eq!(result["lines"].as_array().map(Vec::len), Some(2));
    assert!(world.read("curve.svg").contains("latency"));
    assert_eq!(result["service"]["growth"][0]["read_share"], 0.5);
    assert_eq!(result["lines"][1]["waiting"][0]["programs"], 1);
    let alone = result["service"]["unloaded_read_ns"].as_f64().expect("a latency");
    assert_eq!(result["lines"][1]["waiting"][0]["wait_ns"].as_f64(), Some(alone));
    let machine = "name = \"m\"\nsource = \"test\"\ncore_peak = 5e9\nnodes = [{ cores = 2 }]\n\
                   memories = [{ medium = \"dram\", curve = \"curve.toml\" }]\n";
    world.file("m.toml", machine);
    world.file("s.toml", &stdout_of(world.memweir().args(["sim", "--example"]), 0));
    let simulated =
        ["sim", "s.toml", "--set", "machine=\"m.toml\"", "--set", "cores=2", "--json", "-"];
    let report = json(world.memweir().args(simulated), 0);
    let peak = report["points"][0]["peak_bandwidth"].as_f64().expect("a peak");
    let capacity = result["service"]["capacity"].as_f64().expect("a capacity");
    assert!((peak / capacity - 1.0).abs() < 1e-3, "{peak} {capacity}");
}

#[test]
fn a_real_program_is_recorded_and_replayed() {
    let world = World::new();
    // Larger than any first and second level: it comes from memory at least once.
    let numbers: String = (0..400_000u64).map(|i| format!("{}\n", i * 7919 % 1_000_003)).collect();
    world.file("numbers", &numbers);
    let profile = std::process::Command::new(MEMWEIR)
        .current_dir(world.path())
        .args(["profile", "--no-store", "--addresses", "sort.mwt", "--json", "-", "--"])
        .args(["sort", "-n", "numbers"])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("memweir runs");
    let stderr = String::from_utf8_lossy(&profile.stderr).into_owned();
    if profile.status.code() == Some(3) {
        return memweir_test_support::skip!(Program, "{stderr}");
    }
    assert!(profile.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&profile.stdout).expect("JSON");
    let result = replayed(&world, &["sort.mwt", "--wrap", "--check"]);
    assert!(number(&result, "requests") > numbers.len() as u64 / 64);
    // The profile spreads the counts over its intervals, exact to the line.
    let counted = number(&report, "memory_reads");
    assert_eq!(number(&result, "reads"), counted, "{report}");
    assert_eq!(number(&result, "writes"), number(&report, "memory_writes"));
    let refused = ["dram", "replay", "sort.mwt", "--memory", "ddr4-2400"];
    let stderr = stderr_of(world.memweir().args(refused), 2);
    assert!(stderr.contains("virtual addresses; `--wrap`"), "{stderr}");
}

#[test]
fn a_replay_describes_itself() {
    let world = World::new();
    world.file("t.txt", &stream(100, 3));
    let result = replayed(&world, &["t.txt", "--mode", "mlp:4", "--channels", "2"]);
    assert_eq!(result["memweir"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(result["memweir"]["arguments"][0], "dram");
    let memory = &result["memories"][0];
    assert_eq!(memory["devices"], serde_json::json!(["DDR4-2400 8 Gb x8"]));
    assert_eq!((number(memory, "channels"), &memory["map"]), (2, &Value::from("interleaved")));
    assert_eq!(
        (&result["mode"], &result["trace"]["format"]),
        (&"mlp:4".into(), &"ramulator2".into())
    );
    assert_eq!(result["trace"]["truncated"], Value::Null);
    let plain = replayed(&world, &["t.txt", "--map", "plain"]);
    assert_eq!(plain["memories"][0]["map"], "plain");
}

#[test]
fn a_warm_up_is_left_out_of_all_figures() {
    let world = World::new();
    // A closed row for each of the first requests, then a stream.
    let rows: String = (0..1_000).map(|row| format!("LD {:#x}\n", row << 17)).collect();
    world.file("t.txt", &format!("{rows}{}", stream(10_000, 3)));
    let of_run = ["t.txt", "--mode", "pace:60", "--nvm", "nvm-2400"];
    let plain = replayed(&world, &of_run);
    assert_eq!(plain["warm_up"], Value::Null);
    let timeline = ["--warm-up", "1000", "--timeline", "t.csv", "--check"];
    let warm = replayed(&world, &[&of_run[..], &timeline].concat());
    assert_eq!(warm["warm_up"], serde_json::json!({ "requests": 1000, "cycles": 60_000 }));
    assert_eq!(number(&warm, "cycles") + 60_000, number(&plain, "cycles"));
    let requests = number(&warm, "requests");
    assert!((10_000..10_010).contains(&requests), "{requests}");
    assert!(number(&warm, "activates") + 900 < number(&plain, "activates"));
    let energy = |result: &Value, kind: &str| {
        let energies = result["energy_pj"].as_object().expect("energies");
        energies.get(kind).and_then(Value::as_f64).unwrap_or_default()
    };
    assert!(energy(&warm, "activate") < energy(&plain, "activate") / 2.0, "{warm}");
    // The timeline shows the warm-up, too.
    let rows = Rows::of(&world.read("t.csv"));
    assert_eq!(rows.sum("reads") + rows.sum("writes"), 11_000.0);
    let all = ["--json", "-", "--warm-up", "11000"];
    let message = refusal(world.memweir().args(REPLAY).args(all), 2);
    assert!(message.contains("--warm-up") && message.contains("below 11000"), "{message}");
}

#[test]
fn a_truncated_trace_ends_with_its_own_exit_code() {
    let world = World::new();
    world.file("t.txt", &stream(40_000, 3));
    world.memweir().args(["dram", "convert", "t.txt", "t.mwt"]).assert().success();
    let whole = std::fs::read(world.path().join("t.mwt")).expect("a trace");
    let replay = ["dram", "replay", "t.mwt", "--memory", "ddr4-2400", "--json", "-"];
    for (kept, code, loss) in [(whole.len() / 2, 1, "certain"), (whole.len() - 13, 0, "none")] {
        std::fs::write(world.path().join("t.mwt"), &whole[..kept]).expect("a file");
        let result = json(world.memweir().args(replay), code);
        let truncated = &result["trace"]["truncated"];
        assert_eq!(truncated["loss"], loss, "{truncated}");
        assert_eq!(truncated["accesses"], result["requests"]);
    }
    std::fs::write(world.path().join("t.mwt"), &whole[..whole.len() / 2]).expect("a file");
    let refs = ["page", "refs", "t.mwt", "pages.mwt"];
    let message = refusal(world.memweir().args(refs), 2);
    assert!(message.contains("are lost") && !world.has("pages.mwt"), "{message}");
}

#[test]
fn a_failed_conversion_leaves_no_file() {
    let world = World::new();
    std::fs::write(world.path().join("t.bin"), [0; 20]).expect("a file");
    world.file("kept.txt", "LD 64\n");
    for out in ["new.txt", "kept.txt"] {
        let convert = ["dram", "convert", "t.bin", out, "--to", "ramulator2"];
        let message = refusal(world.memweir().args(convert), 2);
        assert!(message.contains("ends within an access"), "{message}");
    }
    // A write first, for which the format has no place.
    world.file("w.txt", "ST 64\nLD 128\n");
    let convert = ["dram", "convert", "w.txt", "new.txt", "--to", "simple-o3"];
    let message = refusal(world.memweir().args(convert), 2);
    assert!(message.contains("w.txt: access 1: a write without a read before it"), "{message}");
    assert!(!world.has("new.txt"));
    assert_eq!(world.read("kept.txt"), "LD 64\n");
    let left = std::fs::read_dir(world.path()).expect("a directory").flatten();
    assert_eq!(left.filter(|entry| entry.path().is_file()).count(), 3);
}

#[test]
fn a_failed_replay_leaves_the_files_of_commands_as_they_were() {
    let world = World::new();
    world.file("bad.txt", "LD 64\nLD 128\nLD x\n");
    world.file("kept.txt", "# cycle\n");
    for (commands, format) in
        [("new.txt", "memweir"), ("kept.txt", "memweir"), ("new.csv", "drampower")]
    {
        let replay = ["dram", "replay", "bad.txt", "--memory", "ddr4-2400", "--channels", "2"];
        let files = ["--commands", commands, "--commands-format", format];
        let message = stderr_of(world.memweir().args(replay).args(files), 2);
        assert!(message.contains("bad.txt:3"), "{message}");
    }
    assert_eq!(world.read("kept.txt"), "# cycle\n");
    let left = std::fs::read_dir(world.path()).expect("a directory").flatten();
    assert_eq!(left.filter(|entry| entry.path().is_file()).count(), 2);
}
