//! Efficiency of a sweep on two threads, against the same on one.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::{MEMWEIR, run, usual};

/// Rounds of each pair; the median is reported.
const ROUNDS: usize = 5;

/// Points of the sweep for each policy of the example: some seconds of work.
const REPETITIONS: u32 = 200;

/// The wall time on one thread over that of both threads together, in percent.
pub(crate) fn measure(place: &Path) {
    let example = Command::new(MEMWEIR).args(["sim", "--example"]).output().expect("memweir runs");
    std::fs::write(place.join("example.toml"), example.stdout).expect("a file");
    let efficiency = || 100.0 * seconds(place, "1") / (2.0 * seconds(place, "2"));
    usual("sweep on two threads", "%", ROUNDS, efficiency);
}

fn seconds(place: &Path, threads: &str) -> f64 {
    let mut command = Command::new(MEMWEIR);
    command.args(["sim", "example.toml", "--threads", threads, "--set"]);
    let begun = Instant::now();
    run(place, command.arg(format!("repetitions={REPETITIONS}")));
    begun.elapsed().as_secs_f64()
}
