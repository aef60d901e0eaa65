//! `memweir store`: shows the profile store and removes profiles from it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Subcommand;
use memweir_run::store::{InputState, MediumLines, ProgramState, Store, StoreEntry};
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::text::{Table, rate, seconds};
use crate::render::{profile, text};

/// Options of `memweir store`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The profile store, instead of the one in the XDG data directory
    #[arg(long, value_name = "FILE", global = true)]
    store: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the recorded profiles, the latest first
    List {
        /// Also write the list as JSON (`-`: to standard output instead of the table)
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
        json: Option<PathBuf>,
    },
    /// Show one profile
    Show {
        /// The key in the list, or its beginning
        key: String,
        /// Write an SVG of its rate at 1 ms and 100 ms
        #[arg(long, value_name = "FILE.svg", value_parser = crate::value::svg)]
        svg: Option<PathBuf>,
        /// Write it as a Parquet recording
        #[arg(long, value_name = "FILE.parquet", value_parser = crate::value::parquet)]
        recording: Option<PathBuf>,
    },
    /// Remove profiles
    Forget {
        /// Keys in the list, or their beginnings
        #[arg(required_unless_present = "all")]
        keys: Vec<String>,
        /// Remove every profile
        #[arg(long, conflicts_with = "keys")]
        all: bool,
    },
}

/// Lists, shows or removes.
pub(crate) fn execute(args: Args) -> Result<Outcome, Failure> {
    if let Action::Show { svg, recording, .. } = &args.action {
        output::check([svg, recording], [])?;
    }
    let store = Store::read(args.store.as_deref())?;
    match args.action {
        Action::List { json } => list(&store, json)?,
        Action::Show { key, svg, recording } => {
            let stored = store.show(&key)?;
            let shown = output::print(&profile::recording(&stored));
            let figure = svg.map(|path| output::figure(&path, &profile::figure(&stored.recording)));
            let saved = recording.map(|path| {
                stored.recording.save(&path).map_err(|error| Failure::recording(&path, error))
            });
            output::each([Some(shown), figure, saved].into_iter().flatten())?;
        }
        Action::Forget { all: true, .. } => {
            let removed = store.forget_all()?;
            output::print(&format!("removed {}\n", text::counted(removed as u64, "profile")))?;
        }
        Action::Forget { keys, .. } => {
            for key in keys {
                output::print(&format!("removed {}\n", store.forget(&key)?))?;
            }
        }
    }
    Ok(Outcome::Success)
}

fn list(store: &Store, json: Option<PathBuf>) -> Result<(), Failure> {
    output::writable(json.as_deref())?;
    let entries = store.list()?;
    let profiles: Vec<_> = entries.iter().map(Listed::from).collect();
    let profiles = BTreeMap::from([("profiles", profiles)]);
    output::report(json.as_deref(), &profiles, || listed(&entries))
}

fn listed(entries: &[StoreEntry]) -> String {
    if entries.is_empty() {
        return "no profiles; `memweir profile -- CMD` records one\n".to_owned();
    }
    let table = Table::of(entries)
        .left("key", |entry| entry.key.chars().take(10).collect::<String>())
        .left("date", |entry| entry.date.strftime("%F"))
        .left("meter", |entry| &*entry.meter)
        .right("CPU time", |entry| seconds(entry.cpu_time.as_secs_f64()))
        .right("bandwidth", |entry| rate(entry.bandwidth.0))
        .right("exit", |entry| {
            entry.exit_code.map_or_else(|| "not recorded".to_owned(), |code| code.to_string())
        })
        .left("program", |entry| match entry.program {
            ProgramState::Changed => "changed since",
            ProgramState::Unchanged => "as recorded",
        })
        .left("inputs", |entry| match entry.inputs {
            InputState::Changed(_) => "changed since",
            InputState::Unchanged => "as recorded",
            InputState::Unrecorded => "not recorded",
        })
        .left("command", |entry| text::shortened(&entry.command.join(" "), 60));
    format!("{table}\n")
}

/// One entry in JSON.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    key: &'a str,
    command: &'a [String],
    meter: &'a str,
    date: jiff::Timestamp,
    cpu_time_s: f64,
    wall_s: f64,
    bandwidth: f64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    media: &'a [MediumLines],
    exit_code: Option<i32>,
    program_changed: bool,
    inputs_changed: Option<bool>,
}

impl<'a> From<&'a StoreEntry> for Listed<'a> {
    fn from(entry: &'a StoreEntry) -> Self {
        Self {
            key: &entry.key,
            command: &entry.command,
            meter: &entry.meter,
            date: entry.date,
            cpu_time_s: entry.cpu_time.as_secs_f64(),
            wall_s: entry.wall_time.as_secs_f64(),
            bandwidth: entry.bandwidth.0,
            media: &entry.media,
            exit_code: entry.exit_code,
            program_changed: entry.program == ProgramState::Changed,
            inputs_changed: match entry.inputs {
                InputState::Unchanged => Some(false),
                InputState::Changed(_) => Some(true),
                InputState::Unrecorded => None,
            },
        }
    }
}
