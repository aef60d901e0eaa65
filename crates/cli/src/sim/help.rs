//! The part of `memweir sim --help` that teaches.

use crate::failure::EXIT_CODES;

const TEXT: &str = "\
A scenario names a machine, a workload and the policies to compare; every repetition has a seed of
its own, the same for all policies, so that differences can be paired. Equal scenarios give equal
results, whatever the number of threads.

Examples:
  memweir sim --example > mix.toml
      a commented scenario to start from; `memweir sim --list` has the names that it can use
  memweir sim mix.toml
      every policy of the scenario: turnaround, gain, weighted speedup, bandwidth
  memweir sim mix.toml --set repetitions=20 --set machine=hmmsched
      the same on another machine, with intervals that tell a difference from chance
  memweir sim mix.toml --sweep cores=1..4 --sweep quantum_ms=10,50,100,200 --out grid.parquet
      twelve combinations and more on all cores; rows are on disk as they come
  memweir sim mix.toml --sweep seed=1..10000 --out points --shard 3/8 --resume
      the third of eight processes that fill one directory; `memweir sweep merge points` joins them
  memweir sim mix.toml --sweep machine.memories[0].capacity=2e9..10e9:1e9 --svg capacity.svg
      any key can be swept, those of a shipped machine too; a line per policy
  memweir sim banks.toml --sweep partitions=none,uniform --json banks.json
      a scenario with `fidelity = \"bank\"`: every request through caches, controllers and banks
  memweir sim mix.toml --svg run.svg --timeline run.csv
      who ran when, and the bandwidth of every quantum
";

/// Everything that stands below the options.
pub(crate) fn after() -> String {
    format!("{TEXT}\n{EXIT_CODES}")
}
