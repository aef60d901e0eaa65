//! `memweir map import`.

use std::path::PathBuf;

use memweir_linux::tell;
use memweir_map::import::{Format, import};
use memweir_run::files;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::value::{named, toml};

/// Options of `memweir map import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The other tool's output
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The format, instead of the one that it looks like: `bits` (DRAMA, DRAMA++, PALLOC's xormap),
    /// `dramdig`, `trrespass`, `palloc`, `dramsys`
    #[arg(long, value_name = "NAME", value_parser = named::<Format>(), hide_possible_values = true)]
    format: Option<Format>,
    /// The name that the map is given, instead of the file's
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Where the map goes, instead of standard output
    #[arg(long, short, value_name = "FILE.toml", value_parser = toml)]
    output: Option<PathBuf>,
    /// Write the functions and what was left out as JSON (`-`: to standard output)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// Summary of an import, in JSON.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    name: &'a str,
    functions: Vec<Vec<u8>>,
    complete: bool,
    notes: &'a [String],
}

/// Imports the map.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::check([&args.json, &args.output], [&*args.file])?;
    let text = files::text(&args.file)?;
    let mut imported = import(&args.file.display().to_string(), &text, args.format)?;
    if let Some(name) = &args.name {
        imported.map.name.clone_from(name);
    }
    for note in &imported.notes {
        tell!("{note}");
    }
    let summary = args.json.as_ref().map_or(Ok(()), |path| {
        let functions =
            imported.map.functions.iter().map(|f| f.function.bits().collect()).collect();
        let (name, complete) = (imported.map.name.as_str(), imported.map.is_complete());
        output::json(path, &Summary { name, functions, complete, notes: &imported.notes })
    });
    let map = imported.map.to_toml();
    let written = match &args.output {
        Some(path) => output::file(path, &map),
        None if output::is_stdout(args.json.as_deref()) => Ok(()),
        None => output::print(&map),
    };
    output::both(summary, written)?;
    Ok(Outcome::Success)
}
