//! The CPU time that switching costs: jobs and memweir together, under `round-robin` and `os`.
//!
//! A virtual machine's CPU times wander by several percent from second to second, and now and then
//! one is far off. So there are many short pairs, whose members follow each other at once and
//! take turns at being first, and the usual difference of a pair is estimated from all of them.

use std::path::Path;
use std::process::{Command, Stdio};

use memweir_core::metrics::hodges_lehmann;

use crate::{MEMWEIR, children_cpu, row};

/// Pairs, where `MEMWEIR_PAIRS` does not say how many.
const PAIRS: u32 = 40;

/// A third of a second of CPU work in a shell, on a current core: long enough for each of the
/// eight jobs to be switched some ten times.
const WORK: &str = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done";

const LEVEL: f64 = 0.95;

pub(crate) fn measure(place: &Path) {
    let pairs = std::env::var("MEMWEIR_PAIRS")
        .map_or(PAIRS, |number| number.parse().expect("MEMWEIR_PAIRS is a number"));
    // Files and caches that the first run warms up.
    cpu_time(place, "os");
    let differences: Vec<f64> = (0..pairs).map(|number| difference(place, number)).collect();
    let (usual, interval) = hodges_lehmann(&differences, LEVEL).expect("at least one pair");
    let interval = interval.map_or(String::new(), |interval| {
        format!(" ({:+.2} to {:+.2})", interval.low * 100.0, interval.high * 100.0)
    });
    row(
        "8 CPU-bound jobs, round-robin against os",
        &format!("{:+.2} %{interval}", usual * 100.0),
        "+0.50 %",
    );
}

/// How much more CPU time one pair took under `round-robin`, as a share (for small differences,
/// that is their logarithm's).
fn difference(place: &Path, number: u32) -> f64 {
    let switched = |place: &Path| cpu_time(place, "round-robin");
    let free = |place: &Path| cpu_time(place, "os");
    let (switched, free) = match number % 2 {
        0 => (switched(place), free(place)),
        _ => {
            let free = free(place);
            (switched(place), free)
        }
    };
    (switched / free).ln()
}

/// CPU time of memweir and its jobs, user and system.
fn cpu_time(place: &Path, policy: &str) -> f64 {
    let before = children_cpu();
    let status = Command::new(MEMWEIR)
        .current_dir(place)
        .args(["run", "--policy", policy, "--each", "8", "--", "sh", "-c", WORK])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("memweir runs");
    assert!(status.success(), "{policy}: {status}");
    children_cpu() - before
}
