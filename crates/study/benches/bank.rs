//! Speed of the bank-level simulation, in memory requests per second of wall-clock time (criterion
//! prints them as elements per second): four cores with a shared cache of 8 MiB and one channel of
//! DDR4-2400, two of them streaming and two with random lines, as in the measurements of
//! Ramulator's cores; and four synthetic programs on the machine `i7-860`.

use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use memweir_bank::experiment::{Conditions, Machine, ProgramSpec, Source};
use memweir_bank::instructions::InstructionTrace;
use memweir_bank::machine::Addressing;
use memweir_bank::stream::Level;
use memweir_bank::synthetic::Structure;
use memweir_study::ScenarioText;
use memweir_study::bank::BankScenario;

/// Loads of a trace, each after ten other instructions; every third line is written.
const LOADS: u64 = 200_000;
/// Instructions of each core.
const INSTRUCTIONS: u64 = 2_000_000;

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Creates the trace of one core, in its own 2 GiB.
fn trace(core: u64, streams: bool) -> InstructionTrace {
    let mut state = core + 1;
    let mut text = String::new();
    for load in 0..LOADS {
        let line = if streams { load } else { splitmix64(&mut state) >> 40 };
        let address = (core << 31) + line * 64 % (1 << 30);
        let _ = match load % 3 {
            0 => writeln!(text, "10 {address} {address}"),
            _ => writeln!(text, "10 {address}"),
        };
    }
    InstructionTrace::parse("bench", &text).expect("a trace")
}

fn machine(name: &str) -> Machine {
    let text = format!("machine = \"{name}\"\nprograms = [\"444.namd\"]\n");
    let text = ScenarioText::new("bench", &text, Path::new(""));
    BankScenario::read(&text, &[]).expect("a scenario").machine
}

fn requests(machine: &Machine, programs: &[ProgramSpec]) -> u64 {
    let execution = machine.execute(programs, Conditions::default()).expect("an execution");
    execution.memories.iter().map(|(_, stats)| stats.requests()).sum()
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("bank");
    group.sample_size(10);
    let traces = (0..4).map(|core| {
        let source = Source::Instructions(vec![Arc::new(trace(core, core < 2))]);
        let mut program = ProgramSpec::new("core", source, INSTRUCTIONS);
        (program.addressing, program.level) = (Addressing::Physical, Level::Shared);
        program
    });
    let synthetic = [(60.0, 6.0, 2.0), (50.0, 1.0, 128.0), (40.0, 3.0, 20.0), (20.0, 4.0, 2.0)];
    let synthetic = synthetic.map(|(intensity, streams, run)| {
        let burst_intensity = intensity;
        let structure =
            Structure { intensity, streams, run, burst_intensity, ..Structure::default() };
        ProgramSpec::new("synthetic", Source::Synthetic(Box::new(structure)), 1_000_000)
    });
    for (name, machine, programs) in [
        ("two streaming, two random cores", machine("simple-o3"), traces.collect::<Vec<_>>()),
        ("four synthetic programs", machine("i7-860"), synthetic.to_vec()),
    ] {
        group.throughput(Throughput::Elements(requests(&machine, &programs)));
        group.bench_function(name, |b| b.iter(|| requests(black_box(&machine), &programs)));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
