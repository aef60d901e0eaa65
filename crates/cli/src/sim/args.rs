//! Options of `memweir sim`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use memweir_core::Nanos;
use memweir_core::input::Replacement;
use memweir_study::sweep::Sweep;

use crate::failure::EXIT_CODES;
use crate::shared::over_time::interval;
use crate::shared::scenario::replacement;
use crate::shared::shards::{Output, Shards};
use crate::value::parsed;

const USAGE: &str = "memweir sim [OPTIONS] SCENARIO.toml
       memweir sim --example > scenario.toml
       memweir sim --list";

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

/// Options of `memweir sim`.
#[derive(Debug, clap::Args)]
#[command(override_usage = USAGE, after_long_help = format!("{TEXT}\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// The scenario: a machine, a workload, and the policies to compare
    #[arg(value_name = "SCENARIO.toml", required_unless_present_any = ["example", "list"])]
    #[arg(help_heading = "Scenario")]
    pub(super) scenario: Option<PathBuf>,
    /// Print a commented scenario to start from
    #[arg(long, help_heading = "Scenario", conflicts_with_all = ["scenario", "list"])]
    pub(super) example: bool,
    /// List the machines, media, programs, policies and predictors that a scenario can name
    #[arg(long, help_heading = "Scenario", conflicts_with = "scenario")]
    pub(super) list: bool,
    /// Put a value in the place of the scenario's own, for example `cores=8`
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Scenario", value_parser = replacement)]
    pub(super) set: Vec<Replacement>,
    /// The profile store for `log.bandwidth = "store"`, instead of that in the XDG data directory
    #[arg(long, value_name = "FILE", help_heading = "Scenario")]
    #[arg(conflicts_with_all = ["example", "list"])]
    pub(super) store: Option<PathBuf>,

    /// Run at each of these values: `KEY=A,B,C` or `KEY=FROM..TO:STEP`; several make a grid
    #[arg(long, value_name = "KEY=VALUES", help_heading = "Sweeping")]
    #[arg(value_parser = parsed::<Sweep>)]
    pub(super) sweep: Vec<Sweep>,
    /// Threads to run on [default: one per core]
    #[arg(long, value_name = "N", help_heading = "Sweeping")]
    pub(super) threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(super) shards: Shards,

    /// Write everything as JSON (`-`: to standard output instead of the table)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(super) json: Option<PathBuf>,
    /// Write one row per run, at bank level per program or job of a run, as Parquet or CSV by the
    /// ending; with `--shard` or `--resume` the directory of the sweep
    #[arg(long, value_name = "FILE|DIR", help_heading = "Output")]
    pub(super) out: Option<PathBuf>,
    /// Write one row per task and quantum of the first repetition, as Parquet or CSV by the ending;
    /// with several policies one file for each, `FILE.POLICY.csv`. At bank level, of programs that
    /// run together, a row per program and interval, and a file per partition
    #[arg(long, value_name = "FILE", help_heading = "Output", conflicts_with = "sweep")]
    pub(super) timeline: Option<PathBuf>,
    /// Length of these intervals in simulated time, 100ns to 24h [default: 10us]
    #[arg(long, value_name = "TIME", help_heading = "Output", value_parser = interval)]
    pub(super) interval: Option<Nanos>,
    /// Draw bandwidth and who ran when, or the requests of each program over time; of a sweep, a
    /// line per policy or partition
    #[arg(long, value_name = "FILE.svg", value_parser = crate::value::svg, help_heading = "Output")]
    pub(super) svg: Option<PathBuf>,
}

impl Args {
    /// The options that a sweep in shards shares.
    pub(super) fn output(&self) -> Output<'_> {
        Output {
            out: self.out.as_deref(),
            json: self.json.as_deref(),
            whole: vec![("--timeline", self.timeline.is_some()), ("--svg", self.svg.is_some())],
            threads: self.threads,
        }
    }
}
