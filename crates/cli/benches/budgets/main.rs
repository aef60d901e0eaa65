//! Measures the costs of memweir that have budgets: the CPU time and turnaround of a batch under
//! policies against `os`, its turnaround beside other programs, the time for which jobs stay
//! blocked after memweir is killed, the slowdown of the software meter, the cost of emulation
//! beyond that, and the efficiency of a sweep on two threads. Paired, in one run.
//!
//! The budgets are those of `evidence/performance/tables.toml`, and `scripts/performance.py bench`
//! holds the figures against them.
//!
//! Run with `cargo bench -p memweir --bench budgets`, on a machine that does nothing else, after
//! `cargo build --release -p memweir-qemu-pmu`. Words behind `--` choose among `policy`, `share`,
//! `kill`, `meter`, `emulation` and `sweep`. `MEMWEIR_PAIRS` is the number of pairs for `policy`
//! and `share`: four times as many halve the width of an interval.

mod death;
mod emulation;
mod meter;
mod pairs;
mod policy;
mod share;
mod sweep;

use std::path::Path;
use std::process::{Command, Stdio};

use memweir_test_support::rows::record;
use nix::sys::resource::{UsageWho, getrusage};

const MEMWEIR: &str = env!("CARGO_BIN_EXE_memweir");

/// Measures in a directory and prints rows.
type Part = fn(&Path);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let child: Option<fn()> = match arguments.first().map(String::as_str) {
        Some(meter::CHASE) => Some(meter::chase),
        Some(meter::STREAM) => Some(meter::stream),
        Some(policy::WALK) => Some(policy::walk),
        _ => None,
    };
    if let Some(child) = child {
        return child();
    }
    // `cargo test --benches` runs this too, and must not measure.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let parts: [(&str, Part); 6] = [
        ("policy", policy::measure),
        ("share", share::measure),
        ("kill", death::measure),
        ("meter", meter::measure),
        ("emulation", emulation::measure),
        ("sweep", sweep::measure),
    ];
    let chosen = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = !parts.iter().any(|(name, _)| chosen(name));
    for (_, measure) in parts.iter().filter(|(name, _)| all || chosen(name)) {
        measure(directory.path());
    }
}

/// Prints a figure.
fn row(what: &str, measured: &str) {
    println!("{what:<56} {measured:>26}");
}

/// Records a figure in several rounds, and prints its median.
fn usual(what: &str, unit: &str, rounds: usize, figure: impl Fn() -> f64) {
    let figures: Vec<f64> = (0..rounds).map(|_| figure()).collect();
    record(what, unit, figures.iter().copied());
    row(what, &format!("{:.2} {unit}", median(figures)));
}

/// Runs a program to its end, in a directory and without its output.
fn run(place: &Path, command: &mut Command) {
    command.current_dir(place).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().expect("the program runs");
    assert!(status.success(), "{command:?}: {status}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// CPU time of a program, that of its children included, see [`run`].
fn cpu_of(place: &Path, command: &mut Command) -> f64 {
    let before = children_cpu();
    run(place, command);
    children_cpu() - before
}

/// CPU time of all children that were waited for, theirs included.
fn children_cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("getrusage");
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}
