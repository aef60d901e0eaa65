//! `--list-points`, `--shard` and `--resume` of the commands that simulate the points of a sweep.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use memweir_study::sweep::Grid;
use memweir_sweep::Shard;
use memweir_sweep::partition::Partition;
use memweir_sweep::plan::{Origin, Plan};
use memweir_sweep::run::{Ran, Work, missing};
use memweir_sweep::simulation::Simulation;
use serde::Serialize;

use crate::failure::{Failure, Outcome, refusal_of};
use crate::interrupt;
use crate::output;
use crate::render::progress::Counter;
use crate::render::text::counted;
use crate::value::{available_cores, parsed};

/// Options of sweeps in shards.
#[derive(Debug, clap::Args)]
pub(crate) struct Shards {
    /// List the points with their keys and values instead of running them; with `--out DIR` also
    /// which of them are there
    #[arg(long, help_heading = "Sweeping", conflicts_with = "resume")]
    list_points: bool,
    /// Run the I-th of N shards, from 1: every N-th point, into files of the directory of `--out`
    #[arg(long, value_name = "I/N", help_heading = "Sweeping", value_parser = parsed::<Shard>)]
    shard: Option<Shard>,
    /// Take the points that the directory of `--out` has already, and run the others
    #[arg(long, help_heading = "Sweeping")]
    resume: bool,
}

/// Returns the refusal of an option.
fn refuse<T>(key: &str, reason: &str, help: &str) -> Result<T, Failure> {
    Err(refusal_of(key, reason).help(help).into())
}

/// Options of the command beside those of shards.
pub(crate) struct Output<'a> {
    /// The file or directory of `--out`.
    pub(crate) out: Option<&'a Path>,
    /// The file of `--json`.
    pub(crate) json: Option<&'a Path>,
    /// Options that need the results of all points, each true if it is given.
    pub(crate) whole: Vec<(&'static str, bool)>,
    /// Threads to run on.
    pub(crate) threads: Option<NonZeroUsize>,
}

/// A point in the list.
#[derive(Serialize)]
struct Listed<'a> {
    point: usize,
    key: &'a str,
    at: BTreeMap<String, String>,
    /// True if the directory has it; absent without a directory.
    done: Option<bool>,
}

impl Shards {
    /// Returns true if the command runs in shards, or lists points.
    pub(crate) fn is_wanted(&self) -> bool {
        self.list_points || self.is_sharded()
    }

    fn is_sharded(&self) -> bool {
        self.shard.is_some() || self.resume
    }

    /// Refuses options that do not go together, before anything is read.
    pub(crate) fn check(&self, output: &Output<'_>) -> Result<(), Failure> {
        if !self.is_wanted() {
            return match output.out {
                Some(path) if path.is_dir() => {
                    refuse("--out", "is a directory", "`--resume` sweeps into a directory")
                }
                _ => Ok(()),
            };
        }
        self.check_directory(output)
    }

    /// Refuses options that do not go together with results in a directory.
    pub(crate) fn check_directory(&self, output: &Output<'_>) -> Result<(), Failure> {
        if let Some((option, _)) = output.whole.iter().find(|(_, given)| *given) {
            return match (self.list_points, self.is_sharded()) {
                (true, _) => refuse(option, "is for results", "leave out `--list-points`"),
                (_, true) => {
                    let help = "leave out `--shard` and `--resume`";
                    refuse(option, "needs all points at once", help)
                }
                _ => refuse(option, "is for a single point", "leave out `--sweep`"),
            };
        }
        if !self.list_points && output.json.is_some() {
            let help = "the rows of all shards: `memweir sweep merge DIR --out FILE`";
            return refuse("--json", "needs all points at once", help);
        }
        let table = |path: &Path| path.extension().is_some_and(|e| e == "csv" || e == "parquet");
        match output.out {
            None if !self.list_points => {
                let help = "add `--out DIR`, the same for all shards";
                refuse("--out", "a sweep in shards has no directory for its results", help)
            }
            Some(path) if table(path) || path.is_file() => {
                refuse("--out", "is a file", "name the directory of the sweep")
            }
            _ => Ok(()),
        }
    }

    /// Lists the points of the shard, or runs them. `read` reads the simulation at the points of a
    /// grid, which are some of those of `grid`.
    pub(crate) fn execute<S: Simulation>(
        &self,
        grid: &Grid,
        read: impl Fn(Grid) -> Result<S, Failure>,
        origin: &Origin,
        output: &Output<'_>,
    ) -> Result<Outcome, Failure> {
        let shard = self.shard.unwrap_or(Shard::WHOLE);
        let points: Vec<usize> = shard.points(grid.len()).collect();
        if points.is_empty() {
            let reason = format!("shard {shard} has no point; the sweep has {}", grid.len());
            return refuse("--shard", &reason, "fewer shards");
        }
        let name = Plan::new(&read(grid.star())?, &[]).name_of_sweep();
        let simulation = read(grid.only(&points))?;
        let plan = Plan::new(&simulation, &[]);
        let sweep = Sharded { name: &name, plan: &plan, shard, points: &points };
        match (self.list_points, output.out) {
            (false, Some(out)) => {
                self.run(&sweep, origin, out, output.threads.unwrap_or_else(available_cores))
            }
            (_, out) => sweep.list(out, output.json),
        }
    }

    fn run(
        &self,
        sweep: &Sharded<'_>,
        origin: &Origin,
        out: &Path,
        threads: NonZeroUsize,
    ) -> Result<Outcome, Failure> {
        let Sharded { name, plan, shard, points } = *sweep;
        let missing = missing(plan, &Partition::of(out, name))?;
        let kept = points.len() - missing.len();
        if kept > 0 && !self.resume {
            let (name, all) = (out.display(), points.len());
            let reason = format!("{name} has {kept} of the {all} points already");
            let help = "`--resume` takes them and runs the others; or name another directory";
            return refuse("--out", &reason, help);
        }
        let partition = Partition::begin(out, name, plan, origin)?;
        let stop = interrupt::request()?;
        let counter = Counter::new("points", missing.len() as u64);
        let work = Work { plan, partition: &partition, threads };
        let ran = work.run(&shard, &missing, &stop, || counter.one_more());
        counter.finish();
        let ran = ran?;
        let summary = summary(&shard, &ran, kept, &partition);
        if stop.is_requested() {
            let left = counted((missing.len() - ran.simulated - ran.adopted) as u64, "point");
            return Err(Failure::Interrupted(format!(
                "interrupted with {left} to go; `--resume` runs the rest\n{summary}"
            )));
        }
        output::print(&format!("{summary}\n"))?;
        Ok(Outcome::Success)
    }
}

fn summary(shard: &Shard, ran: &Ran, kept: usize, partition: &Partition) -> String {
    let file: PathBuf = ran.file.clone().unwrap_or_else(|| partition.directory().to_owned());
    let mut parts = vec![format!("{} simulated", counted(ran.simulated as u64, "point"))];
    if kept > 0 {
        let verb = if kept == 1 { "was" } else { "were" };
        parts.push(format!("{kept} {verb} there"));
    }
    if ran.adopted > 0 {
        parts.push(format!("{} taken from another sweep of the directory", ran.adopted));
    }
    format!("shard {shard}: {}; {}", parts.join(", "), file.display())
}

/// The points of a shard.
struct Sharded<'a> {
    /// Name of the sweep.
    name: &'a str,
    plan: &'a Plan<'a>,
    shard: Shard,
    /// Each point's place in the whole sweep.
    points: &'a [usize],
}

impl Sharded<'_> {
    /// Lists the points, one a line: number, key, state if a directory is named, and values.
    fn list(&self, out: Option<&Path>, json: Option<&Path>) -> Result<Outcome, Failure> {
        let done = out.map(|out| Partition::of(out, self.name).done()).transpose()?;
        let grid: &Grid = self.plan.simulation().grid();
        let keys = self.plan.keys().iter();
        let points = self.points.iter().zip(keys).enumerate().map(|(at, (point, key))| Listed {
            point: point + 1,
            key,
            at: grid.at(at).into_iter().collect(),
            done: done.as_ref().map(|done| done.contains(&grid.number(at))),
        });
        let points: Vec<_> = points.collect();
        output::report(json, &BTreeMap::from([("points", &points)]), || {
            let lines = points.iter().enumerate().map(|(at, point)| line(point, &grid.at(at)));
            lines.collect()
        })?;
        Ok(Outcome::Success)
    }
}

fn line(point: &Listed<'_>, at: &[(String, String)]) -> String {
    let state = point.done.map(|done| if done { "done" } else { "missing" });
    let values = at.iter().map(|(key, value)| format!("{key}={value}"));
    let head =
        [Some(point.point.to_string()), Some(point.key.to_owned()), state.map(str::to_owned)];
    let cells: Vec<String> = head.into_iter().flatten().chain(values).collect();
    format!("{}\n", cells.join("\t"))
}
