//! Cost of emulation beyond the software meter, in CPU time.

use std::path::Path;
use std::process::Command;

use crate::meter::{CHASE, text};
use crate::{MEMWEIR, cpu_of, usual};

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
    usual("emulation of 4 programs", "x", ROUNDS, ratio);
}

fn cpu_time(place: &Path, arguments: &[&str]) -> f64 {
    let mut command = Command::new(MEMWEIR);
    command.args(arguments).args(["--policy", "os", "--from-file", "jobs"]);
    cpu_of(place, command.env("XDG_DATA_HOME", place))
}
