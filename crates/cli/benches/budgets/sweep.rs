//! Efficiency of a sweep on two threads, against the same on one.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use memweir_test_support::rows::record;

use crate::{MEMWEIR, median, row};

/// Rounds of each pair; the median is reported.
const ROUNDS: usize = 5;

/// Points of the sweep for each policy of the example: some seconds of work.
const REPETITIONS: u32 = 200;

/// The wall time on one thread over that of both threads together, in percent.
pub(crate) fn measure(place: &Path) {
    let example = Command::new(MEMWEIR).args(["sim", "--example"]).output().expect("memweir runs");
    std::fs::write(place.join("example.toml"), example.stdout).expect("a file");
    let efficiency = || 100.0 * seconds(place, "1") / (2.0 * seconds(place, "2"));
    let efficiencies: Vec<f64> = (0..ROUNDS).map(|_| efficiency()).collect();
    record("sweep on two threads", "%", efficiencies.iter().copied());
    row("a sweep on two threads, efficiency", &format!("{:.0} %", median(efficiencies)));
}

fn seconds(place: &Path, threads: &str) -> f64 {
    let begun = Instant::now();
    let status = Command::new(MEMWEIR)
        .args(["sim", "example.toml", "--threads", threads, "--set"])
        .arg(format!("repetitions={REPETITIONS}"))
        .current_dir(place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .expect("memweir runs");
    assert!(status.success(), "{status}");
    begun.elapsed().as_secs_f64()
}
