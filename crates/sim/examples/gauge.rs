use memweir_core::{Bytes, cache::CacheGeometry};
use memweir_dram::{MemoryConfig, MemorySpec};
use memweir_sim::bank::{
    clock::Clock, experiment::*, instructions::InstructionTrace, machine::*, os::*,
    outcome::ProgramRun, stream::Level,
};
use std::sync::Arc;
fn main() {
    let config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
    let clock = Clock::ratio(Clock::with_period(config.spec().clock.into()), 8, 3);
    let machine = Machine {
        clock,
        cores: 4,
        threads_per_core: 1,
        core: CoreConfig { width: 4, window: 128, mshrs: 16, l1: None, l2: None },
        llc: Some(CacheLevel { geometry: CacheGeometry::new(Bytes(8 << 20), 8), latency: 47 }),
        memories: vec![MemoryUnit { name: "dram".into(), config }],
        colored_by: ColoredBy::Banks,
        start: Start::Fresh,
        exhausted: Exhausted::Spill,
        faults: FaultCosts::FREE,
    };
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let programs: Vec<ProgramSpec> = paths
        .iter()
        .map(|p| {
            let trace = Arc::new(InstructionTrace::read(p.as_ref()).unwrap());
            let mut spec =
                ProgramSpec::new(p.clone(), Source::Instructions(vec![trace]), 2_000_000);
            spec.addressing = Addressing::Physical;
            spec.level = Level::Shared;
            spec
        })
        .collect();
    let start = std::time::Instant::now();
    let execution = machine.execute(&programs, Conditions::default()).unwrap();
    let took = start.elapsed().as_secs_f64();
    for run in ProgramRun::of(&execution, machine.clock) {
        println!("{run:?}");
    }
    for (cycles, stats) in &execution.memories {
        println!(
            "{cycles:?} {stats:?} {} k requests/s",
            (stats.reads + stats.writes) as f64 / took / 1e3
        );
    }
}
