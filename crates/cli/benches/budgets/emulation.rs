//! Cost of emulation beyond the software meter, in CPU time.

use std::path::Path;
use std::process::{Command, Stdio};

use memweir_test_support::rows::record;

use crate::meter::{CHASE, text};
use crate::{MEMWEIR, children_cpu, median, row};

/// Rounds of each pair; the median is reported.
const ROUNDS: usize = 3;

/// A tenth of a second of CPU work in a shell.
const COUNT: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

/// Four programs, two that compress, one that computes, one that walks through memory: the CPU
/// time of their emulation, memweir's included, over that under the software meter alone.
pub(crate) fn measure(place: &Path) {
    let this = std::env::current_exe().expect("a path");
    let this = this.to_str().expect("a path in UTF-8");
    std::fs::write(place.join("text"), text()).expect("a file");
    let gzip = "gzip -6 -c text";
    let jobs = format!("{gzip}\n{gzip}\n{this} {CHASE}\n{COUNT}\n");
    std::fs::write(place.join("jobs"), jobs).expect("a file");
    let metered = ["run", "--meter", "software"];
    let emulated = ["emulate", "--machine", "hmmsched"];
    let ratio = || cpu_time(place, &emulated) / cpu_time(place, &metered);
    let ratios: Vec<f64> = (0..ROUNDS).map(|_| ratio()).collect();
    record("emulation of 4 programs", "x", ratios.iter().copied());
    row("emulation of 4 programs, software meter", &format!("{:.2} x", median(ratios)));
}

fn cpu_time(place: &Path, arguments: &[&str]) -> f64 {
    let before = children_cpu();
    let status = Command::new(MEMWEIR)
        .args(arguments)
        .args(["--policy", "os", "--from-file", "jobs"])
        .current_dir(place)
        .env("XDG_DATA_HOME", place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .expect("memweir runs");
    assert!(status.success(), "{arguments:?}: {status}");
    children_cpu() - before
}
