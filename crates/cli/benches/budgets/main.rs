//! Measures the costs of memweir, each figure beside its budget: the CPU time and turnaround of a
//! batch under policies against `os`, its turnaround beside other programs, the time for which jobs
//! stay blocked after memweir is killed, the slowdown of the software meter, and the cost of
//! emulation beyond that. Paired, in one run.
//!
//! Fails if a budget is exceeded; one with an interval, if even the low end exceeds it.
//!
//! Run with `cargo bench -p memweir --bench budgets`, on a machine that does nothing else, after
//! `cargo build --release -p memweir-qemu-pmu`. Words behind `--` choose among `policy`, `share`,
//! `kill`, `meter` and `emulation`. `MEMWEIR_PAIRS` is the number of pairs for `policy` and
//! `share`: four times as many halve the width of an interval.

mod death;
mod emulation;
mod meter;
mod pairs;
mod policy;
mod share;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use nix::sys::resource::{UsageWho, getrusage};

const MEMWEIR: &str = env!("CARGO_BIN_EXE_memweir");

/// Measures in a directory and prints rows.
type Part = fn(&Path);

/// Set once a figure exceeds its budget.
static OVER: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let child: Option<fn()> = match arguments.first().map(String::as_str) {
        Some(meter::CHASE) => Some(meter::chase),
        Some(meter::STREAM) => Some(meter::stream),
        Some(policy::WALK) => Some(policy::walk),
        _ => None,
    };
    if let Some(child) = child {
        child();
        return ExitCode::SUCCESS;
    }
    // `cargo test --benches` runs this too, and must not measure.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let parts: [(&str, Part); 5] = [
        ("policy", policy::measure),
        ("share", share::measure),
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
    if OVER.load(Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn row(what: &str, measured: &str, budget: &str) {
    println!("{what:<48} {measured:>26} {budget:>10}");
}

/// Prints a row with a budget: `figure` must not exceed `most`, in the same unit.
fn budgeted(what: &str, measured: &str, budget: &str, figure: f64, most: f64) {
    // NaN is over the budget, too.
    let within = figure <= most;
    row(what, measured, &format!("{budget}{}", if within { "" } else { " OVER" }));
    OVER.fetch_or(!within, Relaxed);
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
