//! Speed of simulated sessions of applications, in references to pages per second of wall-clock
//! time on one thread (criterion prints them as elements per second): the models of a group that
//! needs twice the DRAM, under each victim policy, including the generation of the references; and
//! memory that is large enough, so that only the first touches fault.
//!
//! `cargo bench -p memweir-sim --bench pagesim`

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use memweir_sim::paging::scenario::{PageScenario, Traces};
use memweir_sim::scenario::ScenarioText;

fn scenario(dram: u32, policy: &str) -> PageScenario {
    let text = format!(
        "swaps = \"nvm\"\ngroup = \"browser\"\ndram_mib = {dram}\nswap_mib = 512\npolicy = \"{policy}\"\n"
    );
    let text = ScenarioText::new("bench", &text, Path::new(""));
    PageScenario::read(&text, &[], &Traces::default()).expect("a scenario")
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("pagesim");
    group.sample_size(10);
    for (name, scenario) in [
        ("half the memory, fifo", scenario(182, "fifo")),
        ("half the memory, clock", scenario(182, "clock")),
        ("half the memory, scan", scenario(182, "scan")),
        ("memory for all", scenario(512, "fifo")),
    ] {
        let run = |seed| scenario.session.run(&scenario.swaps[0], seed).counts.references;
        group.throughput(Throughput::Elements(run(1)));
        group.bench_function(name, |b| b.iter(|| run(black_box(1))));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
