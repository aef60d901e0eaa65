//! Average power of configuration H beside DRAMsim3's (`docs/dram-energy.md`).

mod common;

use common::{Kind, run, trace};
use memweir_dram::drive::Mode;
use memweir_dram::energy::EnergyMeter;
use memweir_dram::{MemoryConfig, MemorySpec};

const REQUESTS: usize = 100_000;

/// Milliwatts with the queues kept full.
fn saturated(kind: Kind) -> f64 {
    let config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
    let mut meter = EnergyMeter::new(&config);
    let run = run(&config, trace(kind).take(REQUESTS), Mode::Saturate, &mut meter);
    // pJ / ps = W.
    let span = config.spec().span(run.driven.cycles);
    meter.report(run.driven.cycles).total() / span.as_f64() * 1e3
}

/// DRAMsim3 subtracts from the current of an activate the standby current of a rank with all banks
/// open (IDD3N), memweir that of one open bank (DRAMPower's I_1): an activate costs 38 % more here.
/// DRAMsim3's standby with an open bank is IDD3N whatever the number of banks. So rows opened for
/// each read cost more here, and standby costs less.
#[test]
fn average_power_of_h_is_near_that_of_dramsim3() {
    let dramsim3 = [
        (Kind::StreamR, 1195.7),
        (Kind::BgR, 1347.1),
        (Kind::RandR, 1617.0),
        (Kind::StreamW, 1158.4),
    ];
    for (kind, theirs) in dramsim3 {
        let ours = saturated(kind);
        eprintln!("{kind:?}: {ours:.1} mW, DRAMsim3 {theirs} mW");
        assert!((ours / theirs - 1.0).abs() < 0.13, "{kind:?}: {ours:.1} mW against {theirs}");
    }
}
