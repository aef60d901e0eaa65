//! `memweir dram` with two memories side by side.

use serde_json::Value;

use crate::support::{World, both_of, stderr_of};

/// End of DDR4-2400.
const SECOND: u64 = 8 << 30;

fn json(world: &World, arguments: &[&str]) -> Value {
    crate::support::json(world.memweir().arg("dram").args(arguments).args(["--json", "-"]), 0)
}

fn refused(world: &World, arguments: &[&str]) -> String {
    stderr_of(world.memweir().arg("dram").args(arguments), 2)
}

/// A line of a trace: reads, every third a write.
fn line(i: u64, address: u64) -> String {
    format!("{} {address:#x}\n", if i % 3 == 2 { "ST" } else { "LD" })
}

/// Three lines of a row, then another row of the same bank.
fn address(i: u64) -> u64 {
    ((i / 3) << 17) + i % 3 * 64
}

/// Counts of each memory, and of all of them.
const COUNTED: [&str; 7] =
    ["requests", "reads", "writes", "row_hits", "row_misses", "row_conflicts", "activates"];

#[test]
fn media_side_by_side_are_served_as_each_alone() {
    let world = World::new();
    let own: String = (0..3_000).map(|i| line(i, address(i))).collect();
    let both: String =
        (0..3_000).map(|i| line(i, address(i)) + &line(i, SECOND + address(i))).collect();
    world.file("own.txt", &own);
    world.file("both.txt", &both);
    let memory = ["--memory", "ddr4-2400"];
    let alone = |name| json(&world, &["replay", "own.txt", "--mode", "pace:400", "--memory", name]);
    let arguments = ["replay", "both.txt", "--mode", "pace:200", "--check", "--nvm", "nvm-2400"];
    let together = json(&world, &[arguments.as_slice(), &memory].concat());
    let parts = together["parts"].as_array().expect("parts");
    for (part, name) in parts.iter().zip(["ddr4-2400", "nvm-2400"]) {
        let alone = alone(name);
        for key in COUNTED.into_iter().chain(["read_latency_cycles"]) {
            assert_eq!(part[key], alone[key], "{name} {key}");
        }
        for kind in ["activate", "read", "write", "array_read", "buffer_read", "buffer_write"] {
            assert_eq!(part["energy_pj"][kind], alone["energy_pj"][kind], "{name} {kind}");
        }
        assert_eq!(part["cycles"], together["cycles"]);
    }
    let sum = |key: &str| parts.iter().filter_map(|part| part[key].as_u64()).sum::<u64>();
    for key in COUNTED.into_iter().chain(["refreshes"]) {
        assert_eq!(together[key], sum(key), "{key}");
    }
    for (kind, energy) in together["energy_pj"].as_object().expect("energies") {
        let parts: f64 = parts.iter().filter_map(|part| part["energy_pj"][kind].as_f64()).sum();
        assert!(
            (parts - energy.as_f64().expect("a number")).abs() < 1e-6 * parts.max(1.0),
            "{kind}"
        );
    }
    assert_eq!((&parts[0]["from"], &parts[1]["from"]), (&0.into(), &SECOND.into()));
    assert!(alone("ddr4-2400").get("parts").is_none());
}

#[test]
fn each_medium_keeps_its_own_clock_and_rules() {
    let world = World::new();
    let both: String = (0..2_000).map(|i| line(i, address(i) + SECOND * (i / 2 % 2))).collect();
    world.file("both.txt", &both);
    for second in ["pcm-lpddr2", "cxl-ddr5", "lpddr4-3200", "stt-ram"] {
        let memory = ["--memory", "ddr4-2400", "--nvm", second];
        let mut replay = world.memweir();
        replay.args(["dram", "replay", "both.txt", "--wrap", "--check", "--mode", "mlp:8"]);
        replay.args(["--commands", "first.txt", "--nvm-commands", "second.txt"]);
        let (shown, told) = both_of(replay.args(memory), 0);
        assert_eq!(told.matches("keep all rules").count(), 2, "{second}: {told}");
        assert!(shown.contains("second       ") && shown.contains(", from 0x200000000"), "{shown}");
        for (file, name) in [("first.txt", "ddr4-2400"), ("second.txt", second)] {
            world.memweir().args(["dram", "check", file, "--memory", name]).assert().success();
        }
    }
}

#[test]
fn places_that_no_memory_has_are_refused() {
    let world = World::new();
    world.file("t.txt", "LD 0x40\nLD 0x200000040\n");
    let replay = ["replay", "t.txt", "--memory", "ddr4-2400"];
    let with = |more: &[&'static str]| [replay.as_slice(), more].concat();
    for (more, needle) in [
        (vec!["--nvm", "pcm"], "pcm-lpddr2"),
        (
            vec!["--nvm", "nvm-2400", "--nvm-from", "4G"],
            "--nvm-from: 0x100000000 lies in the first",
        ),
        (vec!["--nvm", "nvm-2400", "--nvm-from", "0x200000020"], "lies within a line"),
        (vec!["--nvm", "nvm-2400", "--nvm-from", "0xffffffffffffffc0"], "do not fit behind"),
        (vec!["--nvm", "nvm-2400", "--nvm-from", "there"], "`8G`"),
        (vec!["--nvm", "nvm-2400", "--nvm-ranks", "3"], "1, 2, 4, 8 or 16"),
        (
            vec!["--nvm", "nvm-2400", "--nvm-from", "16G"],
            "t.txt:2: address: 0x200000040 lies outside",
        ),
        (vec!["--nvm-from", "16G"], "--nvm"),
    ] {
        let told = refused(&world, &with(&more));
        assert!(told.contains(needle), "{more:?}: {told}");
    }
    let wrapped = json(&world, &with(&["--nvm", "nvm-2400", "--nvm-from", "16G", "--wrap"]));
    assert_eq!(wrapped["parts"][1]["requests"], 1);
    let curve = ["curve", "--memory", "ddr4-2400", "--nvm", "nvm-2400", "--out", "c.toml"];
    assert!(refused(&world, &curve).contains("a service curve is that of one memory"));
}

#[test]
fn a_curve_tells_the_latencies_of_both() {
    let world = World::new();
    let curve = ["curve", "--memory", "ddr4-2400", "--nvm", "pcm-lpddr2", "--nvm-share", "10"];
    let few = ["--patterns", "random", "--read-shares", "100", "--requests", "2000"];
    let found = json(&world, &[curve.as_slice(), &few].concat());
    assert!(found.get("service").is_none(), "{found}");
    let point = &found["lines"][0]["points"][0];
    let latency = |part: usize| point["parts"][part]["latency_ns"].as_f64().expect("a latency");
    // A random read of DRAM waits for about a row, one of PCM for 120 ns of sensing and its burst.
    assert!((31.0..60.0).contains(&latency(0)), "{point}");
    assert!((160.0..230.0).contains(&latency(1)), "{point}");
    let bandwidth = |value: &Value| value["bandwidth"].as_f64().expect("a rate");
    let share = bandwidth(&point["parts"][1]) / bandwidth(point);
    assert!((0.08..0.12).contains(&share), "{share}");
}
