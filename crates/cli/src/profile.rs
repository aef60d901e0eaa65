//! `memweir profile`: the memory traffic of a program along its own execution (X3).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use memweir_abi::softpmu::Sampling;
use memweir_core::Nanos;
use memweir_core::placement::PlacementSpec;
use memweir_linux::MeterKind;
use memweir_run::options;
use memweir_run::profile::{Check, Isolation, ProfileError, ProfileOptions, input_of, profile};
use memweir_run::store::Invocation;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::profile as render;
use crate::shared::batch::lost_output;
use crate::shared::profiling::{QemuArgs, keep, key, open, show, signals, spinner};
use crate::value::{duration, named, parquet, parsed, trace};

/// Options of `memweir profile`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
    /// Length of an interval of the program's CPU time, 1ms or more
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1ms")]
    interval: Nanos,
    /// perf, resctrl or software [default: the first native one that works, else software]
    #[arg(long, value_name = "NAME")]
    meter: Option<MeterKind>,
    /// Share of the program that the software meter simulates: all, or a share such as 10%. Where
    /// its error is too large, the program runs again with a larger one
    #[arg(long, value_name = "SHARE", default_value = "all")]
    sample: Sampling,
    /// Hold a sampled profile (--sample) against a full one, which takes one more run
    #[arg(long)]
    check: bool,
    /// Media beside DRAM, by name or file, with commas: pram, stt-ram, cxl, FILE.toml
    #[arg(long, value_name = "NAME|FILE")]
    media: Option<String>,
    /// Which pages lie where for the software meter: pram, pram=70%, hot=64MiB, ...
    #[arg(long, value_name = "WHERE", requires = "media")]
    #[arg(value_parser = parsed::<PlacementSpec>)]
    placement: Option<PlacementSpec>,
    /// Caches that the software meter models, instead of this machine's
    #[arg(long, value_name = "FILE")]
    caches: Option<PathBuf>,
    /// Isolation of the runs' files: overlay (a private view of the working directory and of those
    /// that arguments name), copy (of the working directory) or none (the program writes in place)
    /// [default: the first that works]
    #[arg(long, value_name = "NAME", value_parser = named::<Isolation>())]
    #[arg(hide_possible_values = true)]
    isolation: Option<Isolation>,
    #[command(flatten)]
    qemu: QemuArgs,
    /// Perf events, instead of the built-in table
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Write the lines that the program moves between memory and its last-level cache, with threads
    /// and instruction gaps, for `memweir dram replay`; needs the software meter
    #[arg(long, value_name = "FILE.mwt", conflicts_with = "sample")]
    #[arg(value_parser = trace)]
    addresses: Option<PathBuf>,
    /// Draw the rate at 1 ms and at 100 ms
    #[arg(long, value_name = "FILE.svg", value_parser = crate::value::svg)]
    svg: Option<PathBuf>,
    /// Write one row per interval
    #[arg(long, value_name = "FILE.parquet", value_parser = parquet)]
    recording: Option<PathBuf>,
    /// Write the report as JSON (`-`: to standard output instead of the text)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// The profile store, instead of the one in the XDG data directory
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Keep the profile out of the store
    #[arg(long, conflicts_with = "store")]
    no_store: bool,
}

impl From<ProfileError> for Failure {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::Invalid(input) => Self::Input(input),
            ProfileError::Output { path, source } => Self::write(&path, source),
            ProfileError::Interrupted(_) => Self::Interrupted(error.to_string()),
            other => Self::Machine(other.to_string()),
        }
    }
}

/// Profiles the program and shows the result.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::check([&args.svg, &args.recording, &args.json, &args.addresses], [])?;
    let directory = std::env::current_dir()
        .map_err(|error| Failure::Machine(format!("the working directory: {error}")))?;
    let program = options::program(&args.command[0], &directory)
        .map_err(|refusal| refusal.written_in("command line"))?;
    // Before the program runs, which would be in vain if its profile could not be stored.
    let store = (!args.no_store).then(|| open(args.store.as_deref())).transpose()?;
    let input = input_of(io::stdin())?;
    let (argv, env) = (args.command.clone(), BTreeMap::new());
    let invocation = Invocation { program, argv, directory, env, stdin: input.path };
    let key = store.is_some().then(|| key(&invocation)).transpose()?;
    let caches = args.caches.as_deref().map(options::caches).transpose()?;
    let media = args.media.as_deref().map(|list| options::media(list, Path::new(".")));
    let media = media.transpose()?.unwrap_or_default();
    let placement =
        args.placement.as_ref().map(|spec| options::placed(spec, &media)).transpose()?;
    let options = ProfileOptions {
        meter: args.meter,
        interval: args.interval,
        sampling: args.sample,
        check: if args.check { Check::FullRun } else { Check::Estimate },
        caches,
        isolation: args.isolation,
        qemu: args.qemu.paths(),
        perf_events: args.events.clone(),
        media,
        placement,
        addresses: args.addresses.clone(),
    };
    let bar = spinner("");
    let profiled = profile(&invocation, &options, &signals()?, &mut |p| show(&bar, p));
    bar.finish_and_clear();
    let mut profiled = profiled?;
    let notice = input.notice.map_or(String::new(), |notice| format!("{notice}\n"));
    let usable = profiled.report.unusable.is_none();
    if let (true, Some(caches), Some(_)) = (usable, &args.caches, &store) {
        profiled.report.notices.push(foreign_caches(caches));
    }
    let shown = output::report(args.json.as_deref(), &profiled.report, || {
        notice + &render::report(&profiled)
    });
    let svg = args.svg.as_ref();
    let figure = svg.map(|path| output::figure(path, &render::figure(&profiled.recording)));
    // The file of a recording has no place for a warning to later readers.
    let recording = args.recording.as_ref().filter(|_| usable).map(|path| {
        let saved = profiled.recording.save(path);
        saved.map_err(|error| Failure::recording(path, error))
    });
    let stored = store.as_ref().zip(key.as_ref());
    let stored = stored.map(|(store, key)| keep(store, key, &profiled));
    let lost = profiled.lost.as_ref().map(lost_output);
    output::each([Some(shown), figure, recording, lost, stored].into_iter().flatten())?;
    let useful = profiled.report.exit_code == 0 && usable;
    Ok(if useful { Outcome::Success } else { Outcome::JobFailed })
}

/// Returns the notice that a stored profile is of the caches in a file: its key does not tell.
fn foreign_caches(file: &Path) -> String {
    format!(
        "`run` takes this profile for one of this machine, though it was made with the caches of \
         {}; `--no-store` keeps it out of the store",
        file.display()
    )
}
