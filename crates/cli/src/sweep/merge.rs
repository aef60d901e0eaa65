//! `memweir sweep merge`: one table of what several processes have simulated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_linux::{stderr, tell};
use memweir_run::table::{Format, Table};
use memweir_study::sweep::Grid;
use memweir_sweep::manifest;
use memweir_sweep::merge::{self, Merged};
use memweir_sweep::partition;
use serde::Serialize;
use serde_json::Value;

use crate::failure::{EXIT_CODES, Failure, Outcome};
use crate::output;
use crate::render::text::counted;

const TEXT: &str = "\
Reads the files of all shards. A point that two files have with equal rows counts once; with other
rows the merge is refused, and nothing changes. Missing points, and points of a truncated trace, are
listed, and the exit code is 1.

Examples:
  memweir sweep merge points
      a single file in each partition of the directory
  memweir sweep merge points --out all.parquet
      the table that `sim --sweep ... --out all.parquet` writes; the directory stays as it is
  memweir sweep merge points --json all.json
      every point as `sim --json` has it
";

/// Lists of points are cut at this length.
const MOST_LISTED: usize = 10;

/// Options of `memweir sweep merge`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = format!("{TEXT}\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// The directory of `--out`, or a `scenario=...` in it
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Write one table, as Parquet or CSV by the ending, and leave the directory as it is
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the points as `--json` of the simulation has them, and leave the directory as it is;
    /// on standard output without FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// The points of a sweep.
#[derive(Serialize)]
struct Points<'a> {
    scenario: &'a str,
    command: &'a str,
    /// Version and sources of the memweir that simulated them.
    simulated_by: String,
    points: Vec<Value>,
    missing: Vec<BTreeMap<String, String>>,
}

pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let directories = partitions(&args.directory)?;
    let alone = args.out.is_some() || args.json.is_some();
    if let (true, [first, second, ..]) = (alone, directories.as_slice()) {
        let reason = format!(
            "has {} sweeps, and one file holds one: {}, {}",
            directories.len(),
            first.display(),
            second.display()
        );
        let error = InputError::new(args.directory.display().to_string(), reason);
        return Err(error.help("name one of them in the place of the directory").into());
    }
    output::check([&args.out, &args.json], [])?;
    let out = args.out.as_deref().map(|path| Ok((path, format(path)?)));
    let out = out.transpose().map_err(Failure::Input)?;
    let mut outcome = Outcome::Success;
    for directory in directories {
        let merged = merge::read(&directory)?;
        let (grid, truncated) = (&merged.grid, merged.truncated());
        listed("in several files with equal rows, and counted once", grid, &merged.repeated);
        listed("missing; `--resume` runs them", grid, &merged.missing);
        listed("of a truncated trace; accesses may be missing", grid, &truncated);
        let tabled = out.map(|(path, format)| table(path, format, &merged));
        let json = |path| output::json(path, &points(&merged, &directory)?);
        output::each(tabled.into_iter().chain(args.json.as_deref().map(json)))?;
        let written = match args.out.as_ref().or(args.json.as_ref()) {
            Some(path) => path.clone(),
            None => merged.replace_files(&directory)?.unwrap_or(directory),
        };
        if !output::is_stdout(args.json.as_deref()) {
            report(&merged, &written.display().to_string())?;
        }
        if !merged.missing.is_empty() {
            outcome = Outcome::Incomplete;
        } else if !truncated.is_empty() && outcome == Outcome::Success {
            outcome = Outcome::Truncated;
        }
    }
    Ok(outcome)
}

/// Returns the partitions that a directory is or has.
fn partitions(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    if directory.join(manifest::FILE).is_file() {
        return Ok(vec![directory.to_owned()]);
    }
    let found = partition::all(directory)?;
    if found.is_empty() {
        let error = InputError::new(directory.display().to_string(), "there is no sweep");
        let help = "the directory that `memweir sim --shard I/N --out DIR` names";
        return Err(error.help(help).into());
    }
    Ok(found.iter().map(|partition| partition.directory().to_owned()).collect())
}

fn format(path: &Path) -> Result<Format, InputError> {
    Format::of(path).map_err(|refusal| refusal.written_in("command line").key("--out"))
}

fn table(path: &Path, format: Format, merged: &Merged) -> Result<(), Failure> {
    let (columns, rows) = merged.table();
    Table::create(path, format, columns)
        .and_then(|table| table.finish(&rows))
        .map_err(|error| Failure::write(path, error))
}

fn report(merged: &Merged, written: &str) -> Result<(), Failure> {
    let (there, all) = (merged.points.len(), merged.grid.len());
    let name = &merged.manifest.name;
    let files = counted(merged.files.len() as u64, "file");
    output::print(&format!("{name}: {there} of {all} points from {files}; {written}\n"))
}

/// Returns the points as the simulation's own JSON has them.
fn points<'a>(merged: &'a Merged, directory: &Path) -> Result<Points<'a>, InputError> {
    let manifest = &merged.manifest;
    let damaged = |error: serde_json::Error| {
        InputError::new(directory.display().to_string(), format!("a point is damaged: {error}"))
    };
    let report = |report: &str| serde_json::from_str(report).map_err(damaged);
    let missing = merged.missing.iter().map(|point| merged.grid.at(*point).into_iter().collect());
    Ok(Points {
        scenario: &manifest.name,
        command: &manifest.command,
        simulated_by: format!("{} {}", manifest.version, manifest.sources),
        points: merged.reports().map(report).collect::<Result<_, _>>()?,
        missing: missing.collect(),
    })
}

/// Prints points that a reader must know of to standard error.
fn listed(state: &str, grid: &Grid, points: &[usize]) {
    if points.is_empty() {
        return;
    }
    let verb = if points.len() == 1 { "is" } else { "are" };
    tell!("{} {verb} {state}:", counted(points.len() as u64, "point"));
    for point in points.iter().take(MOST_LISTED) {
        stderr::print(format_args!("  {} {}\n", point + 1, grid.place(*point)));
    }
    if points.len() > MOST_LISTED {
        stderr::print(format_args!("  and {} more\n", points.len() - MOST_LISTED));
    }
}
