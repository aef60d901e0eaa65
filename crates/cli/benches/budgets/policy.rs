//! The cost of scheduling whole batches of jobs that live from their caches: decisions, readings of
//! the meter, switches, and the cache contents that a switch throws out.

use std::hint::black_box;
use std::path::Path;

use crate::pairs;

/// Pairs for each policy, where `MEMWEIR_PAIRS` does not say how many.
const PAIRS: u32 = 40;

/// The first argument with which this program is the job that is measured.
pub(crate) const WALK: &str = "walk";

/// Bytes that a job works on: most of a second-level cache of a current core.
const WORKING_SET: usize = 1 << 20;
/// Sweeps over them: some tenths of a second, in which each of eight jobs is switched ten times.
const SWEEPS: usize = 1600;

pub(crate) fn measure(place: &Path) {
    let this = std::env::current_exe().expect("a path");
    let job = |name: &str, bandwidth: &str| {
        format!(
            "[[jobs]]\nname = \"{name}\"\ncommand = [{this:?}, \"{WALK}\"]\ninstances = 4\n\
             expected_time_s = 0.4\nread_bandwidth = {bandwidth}\n"
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

/// The job: sweeps that read and write each line of its working set.
pub(crate) fn walk() {
    let mut words = vec![1_u64; WORKING_SET / size_of::<u64>()];
    for sweep in 0..SWEEPS as u64 {
        for word in &mut words {
            *word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(sweep);
        }
        black_box(&mut words);
    }
}
