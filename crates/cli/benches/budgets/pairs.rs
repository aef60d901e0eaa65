//! Pairs of runs of one batch, under a policy and under `os`.
//!
//! A virtual machine's times wander by several percent from second to second, and now and then one
//! is far off. So there are many short pairs, whose members follow each other at once and take
//! turns at being first, and the usual difference of a pair is estimated from all of them.

use std::path::Path;
use std::process::{Command, Stdio};

use memweir_core::metrics::hodges_lehmann;
use memweir_test_support::rows::record;
use serde_json::Value;

use crate::{MEMWEIR, children_cpu, row};

const LEVEL: f64 = 0.95;

/// Times of a run of a batch, or of one run over those of another, as the logarithm of the ratio.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// CPU time of memweir and the jobs, user and system.
    pub(crate) cpu: f64,
    pub(crate) turnaround: f64,
}

/// Differences of pairs of `batch`, the arguments of `memweir run` but for the policy, between
/// `policy` and `os`. `MEMWEIR_PAIRS` overrules `pairs`.
pub(crate) fn measure(place: &Path, policy: &str, batch: &[&str], pairs: u32) -> Vec<Times> {
    let pairs = std::env::var("MEMWEIR_PAIRS")
        .map_or(pairs, |number| number.parse().expect("MEMWEIR_PAIRS is a number"));
    // Files and caches that the first run warms up.
    run(place, "os", batch);
    let difference = |number: u32| {
        let (under_policy, free) = if number.is_multiple_of(2) {
            let under_policy = run(place, policy, batch);
            (under_policy, run(place, "os", batch))
        } else {
            let free = run(place, "os", batch);
            (run(place, policy, batch), free)
        };
        Times {
            cpu: (under_policy.cpu / free.cpu).ln(),
            turnaround: (under_policy.turnaround / free.turnaround).ln(),
        }
    };
    (0..pairs).map(difference).collect()
}

/// Prints the usual difference with its interval. For small differences, the logarithm is the
/// share.
pub(crate) fn print(what: &str, differences: impl Iterator<Item = f64>) {
    let differences: Vec<f64> = differences.collect();
    record(what, "%", differences.iter().map(|difference| difference * 100.0));
    let (usual, interval) = hodges_lehmann(&differences, LEVEL).expect("at least one pair");
    let interval = interval.map_or(String::new(), |interval| {
        format!(" ({:+.2} to {:+.2})", interval.low * 100.0, interval.high * 100.0)
    });
    row(what, &format!("{:+.2} %{interval}", usual * 100.0));
}

fn run(place: &Path, policy: &str, batch: &[&str]) -> Times {
    let before = children_cpu();
    let output = Command::new(MEMWEIR)
        .current_dir(place)
        .args(["run", "--policy", policy, "--json", "-"])
        .args(batch)
        .env("XDG_DATA_HOME", place)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .expect("memweir runs");
    assert!(output.status.success(), "{policy}: {}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let turnaround = report["turnaround_s"].as_f64().expect("a time");
    Times { cpu: children_cpu() - before, turnaround }
}
