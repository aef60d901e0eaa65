//! The contract between the two fidelities: on short windows the flow model, with a service curve
//! that was measured at bank level, says what the bank level says. `docs/dram.md` states the error.
//!
//! At bank level `n` programs that each wait for one read after another are the driver's `mlp:n`;
//! for the flow model they are `n` tasks that do nothing but wait for memory.

use std::convert::Infallible;

use memweir_core::{BytesPerSec, Cycles, LINE_BYTES, PhysAddr, Picos};
use memweir_dram::curve::{Curve, Fit, Pattern, Plan};
use memweir_dram::drive::{Driven, Mode, Offer, drive};
use memweir_dram::request::{Direction, Source};
use memweir_dram::{MemoryConfig, MemorySpec, MemorySystem};
use memweir_sim::{Demand, Flow, Machine, Placement, ServiceCurve, Solver};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const REQUESTS: usize = 60_000;

fn config(name: &str) -> MemoryConfig {
    MemoryConfig::new(MemorySpec::shipped(name).unwrap())
}

/// The service curve of random accesses to the memory.
fn fit(config: &MemoryConfig) -> Fit {
    let plan = Plan { patterns: vec![Pattern::Random], requests: 30_000, ..Plan::default() };
    let lines = plan.tasks().into_iter().map(|task| plan.measure(config, task).unwrap());
    let curve = Curve { memory: "test".to_owned(), lines: lines.collect() };
    curve.fit(Pattern::Random).unwrap()
}

/// Random accesses of which `reads` read, seeded unlike the curve's.
fn banks(config: &MemoryConfig, mode: Mode, reads: f64) -> Driven {
    let mut random = ChaCha8Rng::seed_from_u64(77);
    let lines = config.capacity().0 / LINE_BYTES;
    let mut left = REQUESTS;
    let source = || {
        left = left.saturating_sub(1);
        let offer = Offer {
            address: PhysAddr(random.random_range(0..lines) * LINE_BYTES),
            direction: if random.random_bool(reads) { Direction::Read } else { Direction::Write },
            source: Source(0),
            due: Cycles::ZERO,
        };
        Ok::<_, Infallible>((left > 0).then_some(offer))
    };
    drive(&mut MemorySystem::new(config).unwrap(), mode, source, &mut ()).unwrap()
}

fn bandwidth(config: &MemoryConfig, driven: &Driven) -> f64 {
    let seconds = driven.cycles.as_f64() * config.spec().clock.as_f64() * 1e-12;
    (driven.requests() * LINE_BYTES) as f64 / seconds
}

/// Bandwidth of `n` tasks that do nothing but access memory, `rate` bytes per second each where
/// nothing contends.
fn flow(curve: &ServiceCurve, n: usize, rate: f64, reads: f64) -> f64 {
    let mut machine = Machine::uniform("test", n as u32, curve.capacity);
    machine.memories[0].service = curve.clone();
    machine.memories[0].read_latency = Picos::from_nanos(40);
    machine.memories[0].write_latency = Picos::from_nanos(40);
    let mut demand = Demand { stall: 1.0, ..Demand::default() };
    demand.flows[0] =
        Flow { reads: BytesPerSec(rate * reads), writes: BytesPerSec(rate * (1.0 - reads)) };
    let solver = Solver::new(&machine);
    let response = solver.response(&demand, &Placement::default(), 0);
    let stretch = solver.solve(&vec![response; n]);
    n as f64 * rate * response.speed(&stretch)
}

/// The relative difference of the flow model from the bank level.
fn differences(name: &str, reads: f64) -> Vec<(u32, f64)> {
    let config = config(name);
    let fit = fit(&config);
    // The driver offers the next read in the cycle after the answer.
    let unloaded = fit.unloaded_ns * 1e-9 + config.spec().clock.as_f64() * 1e-12;
    // Writes are posted, so that nobody waits for them.
    let alone = LINE_BYTES as f64 / unloaded / reads;
    let curve = ServiceCurve::measured("test", ("test".to_owned(), fit));
    let difference = |n: u32| {
        let real = bandwidth(&config, &banks(&config, Mode::Parallel(n), reads));
        (n, flow(&curve, n as usize, alone, reads) / real - 1.0)
    };
    [1, 2, 4, 8, 16, 32].map(difference).to_vec()
}

#[test]
fn programs_that_wait_for_reads_get_what_the_banks_give() {
    // Arrivals at random meet refreshes at random; a program that waits meets each but once, and
    // gets more than the curve says. DDR4 refreshes for longer than DDR3.
    for (name, reads, bound) in
        [("ddr4-2400", 1.0, 0.28), ("ddr4-2400", 0.75, 0.22), ("ddr3-1333", 0.75, 0.1)]
    {
        for (n, difference) in differences(name, reads) {
            eprintln!("{name}, {reads}, {n} programs: {:+.1} %", difference * 100.0);
            assert!(difference.abs() < bound, "{name}, {reads}, {n}: {difference}");
        }
    }
}

#[test]
fn saturated_mixes_carry_what_the_banks_carry() {
    let config = config("ddr4-2400");
    let curve = ServiceCurve::measured("test", ("test".to_owned(), fit(&config)));
    for reads in [0.3, 0.67, 0.9] {
        let real = bandwidth(&config, &banks(&config, Mode::Saturate, reads));
        let difference = flow(&curve, 8, 10e9, reads) / real - 1.0;
        eprintln!("{:.0} % reads, saturated: {:+.1} %", reads * 100.0, difference * 100.0);
        assert!(difference.abs() < 0.05, "{reads}: {difference}");
    }
}
