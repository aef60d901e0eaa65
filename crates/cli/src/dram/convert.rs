//! `memweir dram convert`: a trace in another format.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use memweir_core::input::InputError;
use memweir_dram::trace::{Format, Header, Totals, Trace, Writer};
use memweir_run::files::Replacement;

use super::replay::warn_of_truncation;
use super::source::Progress;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::text::count;
use crate::value::refused;

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
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    from: Option<Format>,
    /// The format of OUT: memweir, bin, ramulator2, ramulator1, dramsim3, simple-o3
    /// [default: by the ending, `.bin` is bin, all others memweir]
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    to: Option<Format>,
}

pub(super) fn format(text: &str) -> Result<Format, String> {
    text.parse().map_err(refused)
}

pub(super) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let format = args.to.or_else(|| Format::of_ending(&args.output)).unwrap_or(Format::Memweir);
    let mut trace = Trace::open(&args.input, args.from)?;
    let same = args.input.canonicalize().ok().zip(args.output.canonicalize().ok());
    if same.is_some_and(|(input, output)| input == output) {
        let error = InputError::new("command line", "a trace cannot be written over itself");
        return Err(error.key("OUT").into());
    }
    if output::is_stdout(Some(&args.output)) {
        copy(args, &mut trace, format, std::io::stdout().lock())?;
        return Ok(warn_of_truncation(&trace));
    }
    // A conversion that fails must not leave a file that looks like a trace.
    let fail = |error| Failure::write(&args.output, error);
    let replacement = Replacement::of(&args.output).map_err(fail)?;
    let totals = copy(args, &mut trace, format, replacement.file())?;
    replacement.commit().map_err(fail)?;
    output::print(&format!(
        "{} accesses, {} of them writes, as {}\n",
        count(totals.accesses()),
        count(totals.writes),
        format.name()
    ))?;
    Ok(warn_of_truncation(&trace))
}

fn copy(
    args: &Args,
    trace: &mut Trace,
    format: Format,
    out: impl Write,
) -> Result<Totals, Failure> {
    let fail = |error| Failure::write(&args.output, error);
    let mut header = trace.header().clone();
    if header.name.is_empty() {
        header = Header { name: trace.name().to_owned(), ..header };
    }
    let mut progress = Progress::new(trace.progress().size);
    let mut writer = Writer::start(BufWriter::new(out), format, &header).map_err(fail)?;
    let mut taken = 0u64;
    while let Some(access) = trace.next_access()? {
        writer.push(&access).map_err(fail)?;
        taken += 1;
        if taken.is_multiple_of(1 << 14) {
            progress.show(trace.progress().taken);
        }
    }
    progress.finish();
    let (_, totals) = writer.finish().map_err(fail)?;
    Ok(totals)
}
