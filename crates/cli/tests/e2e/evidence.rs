//! Rows of `evidence/max-weight`, which this build has to give again to the last digit.
//!
//! A change of a model, a policy or a draw that alters recorded results fails here. If it is meant,
//! the files have to be written anew, and with them the figures of the manual.

use std::collections::HashSet;
use std::fs;

use crate::support::{World, stdout_of};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Scenarios of `experiments/max-weight`, and the options that leave the first of their recorded
/// runs.
const RUNS: [(&str, &[&str]); 12] = [
    ("spec", &["--set", "repetitions=1", "--sweep", "mix.paper=spec-01"]),
    ("npb", &["--set", "repetitions=1", "--sweep", "mix.paper=npb-01"]),
    ("all-two-minutes", &["--set", "repetitions=1"]),
    ("all-once", &["--set", "repetitions=1"]),
    ("floating-point-once", &["--set", "repetitions=1"]),
    ("integer-once", &["--set", "repetitions=1"]),
    ("npb-once", &["--set", "repetitions=1"]),
    ("training-two-node", &["--set", "repetitions=1"]),
    ("unknown-lengths", &["--set", "repetitions=1"]),
    ("slow-memory", &["--set", "repetitions=1", "--sweep", "seed=1500"]),
    ("first-runs", &["--set", "repetitions=1", "--sweep", "knowledge=alone,first-run,nothing"]),
    ("unknown-banks", &["--sweep", "programs.seed=13"]),
];

#[test]
fn recorded_runs_are_those_of_this_build() {
    for (name, options) in RUNS {
        let world = World::new();
        let scenario = format!("{ROOT}/experiments/max-weight/{name}.toml");
        stdout_of(world.memweir().args(["sim", &scenario, "--out", "rows.csv"]).args(options), 0);
        let recorded = fs::read_to_string(format!("{ROOT}/evidence/max-weight/{name}.csv"));
        let recorded = recorded.expect("rows that are recorded");
        let recorded: HashSet<&str> = recorded.lines().collect();
        let rows = world.read("rows.csv");
        assert!(rows.lines().count() > 4, "{name}: {rows}");
        for row in rows.lines() {
            assert!(recorded.contains(row), "{name}: no row is recorded as\n{row}");
        }
    }
}
