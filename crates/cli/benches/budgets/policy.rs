//! The cost of scheduling whole batches of jobs that live from their caches: decisions, readings of
//! the meter, switches, and the cache contents that a switch throws out.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::pairs;

/// Pairs for each policy, where `MEMWEIR_PAIRS` does not say how many.
const PAIRS: u32 = 40;

/// The first argument with which this program is the job that is measured; the second is the number
/// of its sweeps.
pub(crate) const WALK: &str = "walk";

/// Bytes that a job works on: most of a second-level cache of a current core.
const WORKING_SET: usize = 1 << 20;
/// Time that a job takes alone: ten quanta, so that the cost of switches is in its end, and the
/// quantum in which the last jobs end is a small part of the batch.
const LENGTH: Duration = Duration::from_secs(1);
/// Sweeps by which the number of a job's sweeps is found.
const TRIED: u32 = 400;

pub(crate) fn measure(place: &Path) {
    let this = std::env::current_exe().expect("a path");
    let (sweeps, seconds) = (sweeps(), LENGTH.as_secs_f64());
    let job = |name: &str, bandwidth: &str| {
        format!(
            "[[jobs]]\nname = \"{name}\"\ncommand = [{this:?}, \"{WALK}\", \"{sweeps}\"]\n\
             instances = 4\nexpected_time_s = {seconds:.1}\nread_bandwidth = {bandwidth}\n"
        )
    };
    let jobs = format!("{}{}", job("light", "0.2e9"), job("heavy", "4e9"));
    std::fs::write(place.join("walks.toml"), jobs).expect("a file");
    for policy in ["round-robin", "ideal-average"] {
        let batch = ["--meter", "declared", "walks.toml"];
        let differences = pairs::measure(place, policy, &batch, PAIRS);
        let what = format!("8 jobs in their caches, {policy} against os");
        pairs::print(&format!("{what}: CPU"), differences.iter().map(|d| d.cpu));
        let turnarounds = differences.iter().map(|difference| difference.turnaround);
        pairs::print(&format!("{what}: turnaround"), turnarounds);
    }
}

/// Returns the sweeps of a job that takes as long as wanted here: processors differ several times.
fn sweeps() -> u32 {
    let start = Instant::now();
    sweep(TRIED);
    (f64::from(TRIED) * LENGTH.as_secs_f64() / start.elapsed().as_secs_f64()).ceil() as u32
}

/// The job.
pub(crate) fn walk() {
    let sweeps = std::env::args().nth(2).expect("the number of sweeps");
    sweep(sweeps.parse().expect("a number"));
}

/// Reads and writes each line of the working set, so many times.
fn sweep(sweeps: u32) {
    let mut words = vec![1_u64; WORKING_SET / size_of::<u64>()];
    for sweep in 0..u64::from(sweeps) {
        for word in &mut words {
            *word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(sweep);
        }
        black_box(&mut words);
    }
}
