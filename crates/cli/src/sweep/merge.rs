//! `memweir sweep merge`: one table of what several processes have simulated.

use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_run::table::Table;
use memweir_run::timeline::Format;
use memweir_sweep::manifest::{self, ManifestPoint};
use memweir_sweep::merge::{self, Merged};
use memweir_sweep::partition;

use crate::failure::{EXIT_CODES, Failure, Outcome};
use crate::output;
use crate::render::text::counted;

const TEXT: &str = "\
Reads the files of all shards. A point that two files have with equal rows counts once; with other
rows the merge is refused, and nothing changes. Missing points are listed, and the exit code is 1.

Examples:
  memweir sweep merge points
      a single file in each partition of the directory
  memweir sweep merge points --out all.parquet
      the table that `sim --sweep ... --out all.parquet` writes; the directory stays as it is
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
}

pub(super) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let directories = partitions(&args.directory)?;
    if let (Some(_), [first, second, ..]) = (&args.out, directories.as_slice()) {
        let reason = format!(
            "has {} sweeps, and one table holds one: {}, {}",
            directories.len(),
            first.display(),
            second.display()
        );
        let error = InputError::new(args.directory.display().to_string(), reason);
        return Err(error.help("name one of them in the place of the directory").into());
    }
    output::writable(args.out.as_deref())?;
    let mut outcome = Outcome::Success;
    for directory in directories {
        let merged = merge::read(&directory)?;
        let written = match &args.out {
            Some(path) => {
                table(path, &merged)?;
                path.display().to_string()
            }
            None => merged.replace_files(&directory)?.unwrap_or(directory).display().to_string(),
        };
        report(&merged, &written)?;
        if !merged.missing.is_empty() {
            outcome = Outcome::Incomplete;
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

fn table(path: &Path, merged: &Merged) -> Result<(), Failure> {
    let format = Format::of(path).map_err(|r| r.written_in("command line").key("--out"))?;
    let (columns, rows) = merged.table();
    Table::create(path, format, columns)
        .and_then(|table| table.finish(&rows))
        .map_err(|error| Failure::write(path, error))
}

fn report(merged: &Merged, written: &str) -> Result<(), Failure> {
    let (there, all) = (merged.points.len(), merged.manifest.points.len());
    let name = &merged.manifest.name;
    let files = counted(merged.files.len() as u64, "file");
    output::print(&format!("{name}: {there} of {all} points from {files}; {written}\n"))?;
    listed("in several files with equal rows, and counted once", &merged.repeated);
    listed("missing; `--resume` runs them", &merged.missing);
    Ok(())
}

/// Prints points that a reader must know of to standard error.
fn listed(state: &str, points: &[ManifestPoint]) {
    if points.is_empty() {
        return;
    }
    eprintln!("memweir: {} points are {state}:", points.len());
    for point in points.iter().take(MOST_LISTED) {
        eprintln!("  {} {}", point.key, point.place());
    }
    if points.len() > MOST_LISTED {
        eprintln!("  and {} more", points.len() - MOST_LISTED);
    }
}
