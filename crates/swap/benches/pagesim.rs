//! Speed of simulated sessions of applications, in references to pages per second of wall-clock
//! time on one thread (criterion prints them as elements per second): the models of a group that
//! needs twice the DRAM, under each victim policy, including the generation of the references; and
//! memory that is large enough, so that only the first touches fault.
//!
//! `cargo bench -p memweir-swap --bench pagesim`

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use memweir_core::{Bytes, Nanos};
use memweir_policy::paging;
use memweir_swap::area::{SWAPS, SwapKind};
use memweir_swap::memory::Killer;
use memweir_swap::phone::{self, Phone};
use memweir_swap::session::SessionSpec;

fn session(dram_mib: u64, policy: &str) -> SessionSpec {
    let phone = Phone::shipped();
    let group = phone.group("browser").expect("a group");
    SessionSpec {
        apps: group.into_iter().map(|app| phone::app(app, &phone.assumed)).collect(),
        dram: Bytes(dram_mib << 20),
        swap: Bytes(512 << 20),
        rounds: 3,
        foreground: Nanos::from_secs_f64(60.0),
        victims: Arc::new(*paging::find(policy).expect("a policy")),
        killer: Killer::default(),
    }
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("pagesim");
    group.sample_size(10);
    let (name, text) = SWAPS.iter().find(|(name, _)| *name == "nvm").expect("shipped");
    let kind = SwapKind::parse(name, text).expect("shipped");
    for (name, session) in [
        ("half the memory, fifo", session(182, "fifo")),
        ("half the memory, clock", session(182, "clock")),
        ("half the memory, scan", session(182, "scan")),
        ("memory for all", session(512, "fifo")),
    ] {
        let run = |seed| session.run(&kind, seed).counts.references;
        group.throughput(Throughput::Elements(run(1)));
        group.bench_function(name, |b| b.iter(|| run(black_box(1))));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
