//! Measures what memweir costs, each figure beside its budget: the CPU time of a batch under
//! `round-robin` against `os`, how long jobs stay blocked when memweir is killed, the slowdown of
//! the software meter, and what emulation adds to that. Paired, in one run.
//!
//! Run with `cargo bench -p memweir --bench budgets`, on a machine that does nothing else, after
//! `cargo build --release -p memweir-qemu-pmu`. Words behind `--` choose among `policy`, `kill`,
//! `meter` and `emulation`. `MEMWEIR_PAIRS` is the number of pairs for `policy`: four times as many halve the
//! width of its interval.

mod death;
mod emulation;
mod meter;
mod policy;

use std::path::Path;

use nix::sys::resource::{UsageWho, getrusage};

const MEMWEIR: &str = env!("CARGO_BIN_EXE_memweir");

/// Measures in a directory and prints rows.
type Part = fn(&Path);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == meter::CHASE) {
        return meter::chase();
    }
    // `cargo test --benches` runs this too, and must not measure.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let parts: [(&str, Part); 4] = [
        ("policy", policy::measure),
        ("kill", death::measure),
        ("meter", meter::measure),
        ("emulation", emulation::measure),
    ];
    let chosen = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = !parts.iter().any(|(name, _)| chosen(name));
    row("what", "measured", "budget");
    for (_, measure) in parts.iter().filter(|(name, _)| all || chosen(name)) {
        measure(directory.path());
    }
}

fn row(what: &str, measured: &str, budget: &str) {
    println!("{what:<48} {measured:>26} {budget:>10}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// CPU time of all children that were waited for, theirs included.
fn children_cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("getrusage");
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}
