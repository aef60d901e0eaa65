//! `memweir dram convert`: a trace in another format.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use memweir_bank::cached_trace::CachedTrace;
use memweir_core::input::InputError;
use memweir_run::files::Replacement;
use memweir_trace::{Format, Side, Totals, Trace, Writer, has_compressed_ending};

use super::caches::{CacheArgs, describe};
use super::replay::warn_of_truncation;
use super::source::{LOOK_EVERY, Progress};
use crate::failure::{Failure, Outcome, refusal_of};
use crate::interrupt;
use crate::output;
use crate::render::text::{count, counted};
use crate::value::parsed;

/// Options of `memweir dram convert`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The trace (`-`: standard input)
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The file to write (`-`: standard output)
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// The format of IN, instead of the one that is recognized
    #[arg(long, value_name = "FORMAT", value_parser = parsed::<Format>)]
    from: Option<Format>,
    /// The format of OUT: memweir, bin, ramulator2, ramulator1, dramsim3, simple-o3, champsim
    /// [default: by the ending, `.bin` is bin, `.champsim` and `.champsimtrace` are champsim, all
    /// others memweir]
    #[arg(long, value_name = "FORMAT", value_parser = written)]
    to: Option<Format>,
    #[command(flatten)]
    caches: CacheArgs,
}

/// Parses a format that memweir writes.
fn written(text: &str) -> Result<Format, String> {
    let format: Format = parsed(text)?;
    match format.is_writable() {
        true => Ok(format),
        false => Err(format!("`{text}` is read and not written")),
    }
}

impl Args {
    /// Returns the format of OUT.
    fn format(&self) -> Result<Format, InputError> {
        let refuse = |reason: String, help: &str| refusal_of("OUT", reason).help(help);
        let name = self.output.display();
        if has_compressed_ending(&self.output) {
            let help = "leave out the ending, and compress the file afterwards";
            return Err(refuse(format!("`{name}` would not be compressed"), help));
        }
        match (self.to, Format::of_ending(&self.output)) {
            (Some(to), Some(ending)) if to != ending => {
                let reason = format!("`{name}` names the format {ending}, not {to}");
                Err(refuse(reason, "leave out `--to`, or end the name otherwise"))
            }
            (to, ending) => Ok(to.or(ending).unwrap_or(Format::Memweir)),
        }
    }
}

pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let format = args.format()?;
    let trace = Trace::open(&args.input, args.from)?;
    // ChampSim has caches of its own.
    let mut trace = match format {
        Format::ChampSim if args.caches.is_default() => CachedTrace::new(trace, None),
        _ => args.caches.apply(trace)?,
    };
    let same = args.input.canonicalize().ok().zip(args.output.canonicalize().ok());
    if same.is_some_and(|(input, output)| input == output) {
        return Err(refusal_of("OUT", "a trace cannot be written over itself").into());
    }
    if output::is_stdout(Some(&args.output)) {
        match copy(args, &mut trace, format, std::io::stdout().lock()) {
            // The reader of standard output has gone away, which is no failure.
            Err(Failure::Write { source, .. }) if source.kind() == ErrorKind::BrokenPipe => {
                return Ok(Outcome::Success);
            }
            copied => copied?,
        };
        return Ok(warn_of_truncation(trace.trace().name(), trace.trace().truncation()));
    }
    // A conversion that fails must not leave a file that looks like a trace.
    let fail = |error| Failure::write(&args.output, error);
    let replacement = Replacement::of(&args.output).map_err(fail)?;
    interrupt::remove(replacement.temporary().map(Path::to_owned).into_iter().collect())?;
    let totals = copy(args, &mut trace, format, replacement.file())?;
    replacement.commit().map_err(fail)?;
    output::print(&format!(
        "{}, {} of them writes, as {}{}\n",
        counted(totals.accesses(), "access"),
        count(totals.writes),
        format.name(),
        trace
            .caches()
            .map_or(String::new(), |caches| format!(", behind caches: {}", describe(caches)))
    ))?;
    Ok(warn_of_truncation(trace.trace().name(), trace.trace().truncation()))
}

fn copy(
    args: &Args,
    trace: &mut CachedTrace,
    format: Format,
    out: impl Write,
) -> Result<Totals, Failure> {
    let fail = |error| Failure::write(&args.output, error);
    let mut header = trace.trace().header().clone();
    if header.name.is_empty() {
        header.name = trace.trace().name().to_owned();
    }
    if trace.caches().is_some() {
        header.side = Side::Memory;
    }
    let progress = Progress::new(trace.trace().progress().size);
    let mut writer = Writer::start(BufWriter::new(out), format, &header).map_err(fail)?;
    let mut taken = 0u64;
    while let Some(access) = trace.next_access()? {
        taken += 1;
        writer.push(&access).map_err(|error| match error.kind() {
            // The format cannot express the access.
            ErrorKind::InvalidData => InputError::new(trace.trace().name(), error.to_string())
                .key(format!("access {taken}"))
                .into(),
            _ => fail(error),
        })?;
        if taken.is_multiple_of(LOOK_EVERY) {
            progress.show(trace.trace().progress().taken);
        }
    }
    progress.finish();
    let (_, totals) = writer.finish().map_err(fail)?;
    Ok(totals)
}
