use std::fs;

use memweir_core::medium::data::{MEDIA, MediumData};
use memweir_core::{BytesPerSec, Picos, TransPerMicro};
use proptest::prelude::*;

use super::*;
use crate::service::GrowthPoint;

const SMALL: &str = r#"
name = "small"
source = "a test"
core_peak = 10e9

[[nodes]]
cores = 2

[[memories]]
name = "dram"
medium = "dram"
capacity = 20e9

[[memories]]
name = "slow"
medium = "pram"
node = 0
capacity = 5e9
growth = [[0.5, 1.0], [0.9, 2.0]]
"#;

fn parse(text: &str) -> Result<Hardware, InputError> {
    Hardware::parse("m.toml", text, Path::new("."))
}

fn refusal(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn every_shipped_machine_and_medium_is_accepted_under_its_own_name() {
    for (name, _) in MACHINES {
        assert_eq!(Hardware::shipped(name).unwrap().machine.name, name);
    }
    for (name, _) in MEDIA {
        assert_eq!(MediumData::shipped(name).unwrap().name, name);
    }
}

#[test]
fn the_machine_of_iabw_carries_forty_of_its_transactions_per_microsecond() {
    let machine = Hardware::shipped("iabw").unwrap().machine;
    let capacity = TransPerMicro::from(machine.memories[0].service.capacity);
    // A transaction has 128 bytes there and 64 here.
    assert_eq!(capacity, TransPerMicro(2.0 * 40.0));
    assert_eq!(machine.nodes.iter().map(|node| node.cores).sum::<u32>(), 4);
    // 350 cycles of 1.6 GHz.
    assert_eq!(machine.memories[0].read_latency, Picos(218_750));
}

#[test]
fn the_ratio_sets_are_those_of_the_text() {
    let ratios = |name| {
        let medium = MediumData::shipped(name).unwrap();
        (
            medium.read_latency.ratio(medium.dram_latency),
            medium.write_latency.ratio(medium.dram_latency),
        )
    };
    assert_eq!(ratios("ratio-1-1-3"), (1.0, 3.0));
    assert_eq!(ratios("ratio-1-3-8"), (3.0, 8.0));
    assert_eq!(ratios("pram"), (2.7, 8.6));
    assert_eq!(ratios("stt-ram"), (1.18, 3.8));
}

#[test]
fn latencies_of_a_medium_follow_the_machines_dram() {
    let slow_dram = SMALL.replace("capacity = 20e9", "capacity = 20e9\nread_latency_ns = 100");
    let memory = parse(&slow_dram).unwrap().machine.memories.remove(1);
    // PRAM is 2.7 and 8.6 times as slow as DRAM.
    assert_eq!((memory.read_latency, memory.write_latency), (Picos(270_000), Picos(860_000)));
    assert_eq!((memory.service.read_cost, memory.service.write_cost), (2.7, 8.6));
    assert_eq!(
        memory.service.growth.lines[0].points[1],
        GrowthPoint { utilization: 0.9, stretch: 2.0 }
    );
}

#[test]
fn impossible_machines_are_refused_with_line_and_reason() {
    let cases = [
        ("cores = 2", "cores = 0", "m.toml:7: nodes[0].cores: 0 is out of range"),
        ("capacity = 5e9", "capacity = -5e9", "m.toml:18: memories[1].capacity: -5000000000 is no"),
        ("node = 0", "node = 1", "m.toml:17: memories[1].node: there is no node 1"),
        ("node = 0", "read_latency_ns = -3", "m.toml:17: memories[1].read_latency_ns: -3 is no"),
        ("node = 0", "write_cost = 0", "m.toml:17: memories[1].write_cost: 0 is no cost"),
        (
            "core_peak",
            "core_peek",
            "m.toml:4: core_peek: unknown key\n  help: did you mean `core_peak`",
        ),
        (
            "\"pram\"",
            "\"prom\"",
            "memories[1].medium: unknown medium `prom`\n  help: did you mean `pram`",
        ),
        ("[0.9, 2.0]", "[0.4, 2.0]", "memories[1].growth[1]: does not follow"),
        ("[0.9, 2.0]", "[0.9, 0.5]", "memories[1].growth[1][1]: 0.5 is no stretch"),
        ("[0.5, 1.0]", "[0, 1.5]", "memories[1].growth[0][1]: is 1 at utilization 0"),
        ("[0.9, 2.0]", "[0.9]", "memories[1].growth[1]: must be a pair"),
        ("name = \"slow\"", "name = \"dram\"", "two memories are called `dram`"),
        ("medium = \"dram\"", "medium = \"cxl\"", "the first memory must be DRAM"),
        ("source = \"a test\"", "", "`source` is missing"),
        ("[[nodes]]", "[[nodes]]\ncores = 1\n[[nodes]]", "nothing joins the 2 nodes"),
        ("core_peak = 10e9", "core_peak = nan", "NaN is no bandwidth"),
    ];
    for (from, to, expected) in cases {
        assert!(SMALL.contains(from), "{from}");
        let message = refusal(&SMALL.replacen(from, to, 1));
        assert!(message.contains(expected), "{from} -> {to}: {message}");
    }
    let joined = format!("{SMALL}\n[interconnect]\nlatency_ns = 10\ncapacity = 1e9\n");
    assert!(refusal(&joined).contains("nothing to join"));
    let bare = SMALL.replace("[[nodes]]", "[[nodes]]\ncores = 1\n[[nodes]]");
    let bare = format!("{bare}\n[interconnect]\nlatency_ns = 10\ncapacity = 1e9\n");
    assert!(refusal(&bare).contains("nodes[1]: a node with cores has DRAM"), "{}", refusal(&bare));
    let five = (0..3).fold(SMALL.to_owned(), |text, i| {
        text + &format!("[[memories]]\nname = \"m{i}\"\nmedium = \"pram\"\ncapacity = 1e9\n")
    });
    assert!(refusal(&five).contains("at most 4 memories"));
}

#[test]
fn files_are_found_beside_the_one_that_names_them() {
    let dir = tempfile::tempdir().unwrap();
    let medium = MEDIA[2].1.replace("name = \"pram\"", "name = \"mine\"");
    fs::write(dir.path().join("mine.toml"), medium).unwrap();
    fs::write(dir.path().join("m.toml"), SMALL.replace("\"pram\"", "\"mine.toml\"")).unwrap();
    let found = Hardware::find("m.toml", dir.path()).unwrap();
    assert_eq!(found.machine.memories[1].service.read_cost, 2.7);
    let missing = Hardware::find("no.toml", dir.path()).unwrap_err().to_string();
    assert!(missing.contains("cannot be read"), "{missing}");
    let unknown = Hardware::find("iabv", dir.path()).unwrap_err().to_string();
    assert!(unknown.contains("did you mean `iabw`"), "{unknown}");
}

const PLATFORM: &str = r#"
format = 1
date = "2026-11-02T10:00:00Z"
[machine]
cpu = "A Processor"
cores = 2
memory = 8
[peak]
bandwidth = 40e9
saturation = 35e9
[[streams]]
kernel = "read"
instances = 1
bandwidth = 25e9
[[streams]]
kernel = "read"
instances = 2
bandwidth = 40e9
[[hog_curve]]
idle = 9
demand = 20e9
achieved = 20e9
weighted_speedup = 1.6
[[hog_curve]]
idle = 16
demand = 10e9
achieved = 10e9
weighted_speedup = 2.0
[[hog_curve]]
idle = 0
demand = 50e9
achieved = 40e9
weighted_speedup = 1.6
"#;

#[test]
fn a_calibration_is_a_machine() {
    let machine = parse(PLATFORM).unwrap().machine;
    assert_eq!(machine.nodes[0].cores, 2);
    assert_eq!(machine.core_peak, BytesPerSec(25e9));
    let service = &machine.memories[0].service;
    assert_eq!(service.capacity, BytesPerSec(40e9));
    // At half the peak each hog demands 10 of 25 GB/s, so it waits 0.4 of its time, and takes 2 /
    // 1.6 = 1.25 times as long: 1 + 0.25 / 0.4. The saturated point is not part of the growth.
    let expected = [(0.25, 1.0), (0.5, 1.625)];
    let growth: Vec<_> =
        service.growth.lines[0].points.iter().map(|p| (p.utilization, p.stretch)).collect();
    assert_eq!(growth, expected);
}

#[test]
fn of_equal_measurements_the_highest_counts() {
    // A second kernel draws less; and both hogs of 10 GB/s, which wait 0.2 of their time, once took
    // 1.25 times as long: 1 + 0.25 / 0.2, below which no later point lies.
    let more = "\n[[streams]]\nkernel = \"copy\"\ninstances = 1\nbandwidth = 20e9\n[[hog_curve]]\n\
                idle = 16\ndemand = 10e9\nachieved = 10e9\nweighted_speedup = 1.6\n";
    let machine = parse(&format!("{PLATFORM}{more}")).unwrap().machine;
    assert_eq!(machine.core_peak, BytesPerSec(25e9));
    let lines = &machine.memories[0].service.growth.lines;
    let growth: Vec<_> = lines[0].points.iter().map(|p| (p.utilization, p.stretch)).collect();
    assert_eq!(growth, [(0.25, 2.25), (0.5, 2.25)]);
}

#[test]
fn a_calibration_without_a_peak_is_no_machine() {
    let text = PLATFORM.replace("[peak]\nbandwidth = 40e9\nsaturation = 35e9\n", "");
    assert!(refusal(&text).contains("measured no peak"));
    assert!(refusal(&PLATFORM.replace("format = 1", "format = 7")).contains("m.toml:2: format"));
}

proptest! {
    #[test]
    fn no_text_makes_the_readers_panic(
        cut in 0..SMALL.len(), insert in "[ -~\n]{0,12}", platform: bool,
    ) {
        let text = if platform { PLATFORM } else { SMALL };
        let cut = cut.min(text.len());
        let damaged = format!("{}{insert}{}", &text[..cut], &text[cut..]);
        if let Ok(hardware) = parse(&damaged) {
            prop_assert!(hardware.machine.nodes.iter().all(|node| node.cores > 0));
            for memory in &hardware.machine.memories {
                prop_assert!(memory.service.capacity > BytesPerSec::ZERO);
                prop_assert!(memory.read_latency > Picos::ZERO);
            }
        }
        let _ = parse(&text[..cut]);
        let _ = MediumData::parse("x", &damaged);
    }
}
