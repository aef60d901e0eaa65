//! Configurations other than that of the common experiment, compared with Ramulator 2.1 and
//! DRAMsim3 with the same driver loop: 200,000 requests each. `docs/dram-model.md` describes where
//! both simulators do better or worse than the devices allow; the tolerances here follow from it.

mod common;

use common::{Kind, machine_h, run, trace};
use memweir_dram::config::{MapLayout, PagePolicy};
use memweir_dram::drive::Mode::{self, Parallel, Saturate};
use memweir_dram::{MemoryConfig, MemorySpec};

const REQUESTS: usize = 200_000;

/// A trace and its mode, with the measured cycles and mean read latency.
type Row = (Kind, Mode, f64, f64);

fn agree(config: &MemoryConfig, rows: &[Row], cycles: f64, latency: f64) {
    for (kind, mode, expected_cycles, expected_latency) in rows {
        let run = run(config, trace(*kind).take(REQUESTS), *mode, &mut ());
        let differs = |found: f64, expected: f64| (found - expected).abs() / expected;
        let context = format!("{kind:?} {mode}: {} {:.2}", run.cycles(), run.mean_latency());
        assert!(differs(run.cycles(), *expected_cycles) < cycles, "{context}");
        assert!(differs(run.mean_latency(), *expected_latency) < latency, "{context}");
    }
}

fn device(text: &str) -> MemoryConfig {
    MemoryConfig::new(MemorySpec::parse("device", text).unwrap()).with_layout(MapLayout::Plain)
}

fn ranks(count: usize) -> MemoryConfig {
    let ranks = vec![machine_h().spec().clone().into(); count];
    MemoryConfig::of_ranks(ranks, 1).with_layout(MapLayout::Plain)
}

#[test]
fn mixed_streams_and_chance_as_in_ramulator() {
    let rows = [
        (Kind::Mix, Saturate, 1_253_379.0, 317.81),
        (Kind::Mix, Parallel(16), 1_341_638.0, 152.54),
        (Kind::RandW, Saturate, 1_418_148.0, 377.39),
        (Kind::RandW, Parallel(16), 1_458_578.0, 173.51),
    ];
    agree(&machine_h(), &rows, 0.005, 0.005);
}

#[test]
fn two_channels_as_in_ramulator() {
    let rows = [
        (Kind::Mix, Saturate, 585_270.0, 245.69),
        (Kind::Mix, Parallel(16), 776_534.0, 87.70),
        (Kind::RandW, Saturate, 728_307.0, 308.69),
        (Kind::RandW, Parallel(16), 920_239.0, 108.95),
    ];
    let two = MemoryConfig::with_channels(machine_h().spec().clone(), 2);
    agree(&two.with_layout(MapLayout::Plain), &rows, 0.005, 0.005);
}

#[test]
fn ranks_as_in_ramulator() {
    let reads = [
        (Kind::RandR, Saturate, 868_585.0, 216.17),
        (Kind::RandR, Parallel(16), 1_056_756.0, 83.54),
        (Kind::BgR, Saturate, 847_299.0, 156.48),
        (Kind::StreamR, Saturate, 1_261_921.0, 222.03),
        (Kind::StreamR, Parallel(16), 1_261_915.0, 99.95),
    ];
    agree(&ranks(2), &reads, 0.002, 0.002);
    // Reads before writes to other ranks: Ramulator's come sooner than the bus allows.
    let mixed = [
        (Kind::Mix, Saturate, 1_039_526.0, 273.15),
        (Kind::Mix, Parallel(16), 1_093_787.0, 124.18),
        (Kind::RandW, Saturate, 932_374.0, 287.91),
    ];
    agree(&ranks(2), &mixed, 0.02, 0.02);
}

#[test]
fn ddr3_as_in_ramulator() {
    let rows = [
        (Kind::StreamR, Saturate, 819_887.0, 143.26),
        (Kind::BgR, Parallel(16), 819_815.0, 64.58),
        (Kind::RandR, Saturate, 1_064_144.0, 191.22),
        (Kind::RandR, Parallel(16), 1_155_887.0, 91.47),
        (Kind::RandW, Saturate, 1_150_845.0, 297.38),
        (Kind::Mix, Saturate, 1_135_956.0, 278.31),
        (Kind::Mix, Parallel(16), 1_194_925.0, 135.75),
    ];
    agree(&device(include_str!("devices/ddr3-1333.toml")), &rows, 0.002, 0.002);
}

#[test]
fn ddr5_as_in_ramulator() {
    let rows = [
        (Kind::StreamR, Saturate, 1_843_603.0, 338.66),
        (Kind::BgR, Saturate, 1_747_638.0, 323.34),
        (Kind::RandR, Saturate, 2_626_034.0, 499.01),
        (Kind::RandR, Parallel(16), 2_633_490.0, 209.67),
        (Kind::RandW, Saturate, 2_686_781.0, 730.29),
        (Kind::Mix, Saturate, 2_532_483.0, 651.40),
        (Kind::Mix, Parallel(16), 2_678_672.0, 305.57),
    ];
    agree(&device(include_str!("devices/ddr5-4800.toml")), &rows, 0.005, 0.005);
}

#[test]
fn closed_pages_as_in_dramsim3() {
    let mut config = machine_h();
    config.page = PagePolicy::Closed { accesses: 1 };
    // One cycle more for each unloaded read there.
    let reads = [
        (Kind::StreamR, Parallel(16), 10_350_299.0, 826.99),
        (Kind::StreamR, Parallel(1), 11_753_343.0, 57.77),
        (Kind::RandR, Parallel(1), 8_608_977.0, 42.04),
        (Kind::RandR, Parallel(16), 1_392_084.0, 110.36),
    ];
    agree(&config, &reads, 0.025, 0.025);
}
