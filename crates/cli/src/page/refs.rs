//! `memweir page refs`: the references of a real program to its pages, small enough to be kept.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use memweir_core::{Bytes, PAGE};
use memweir_run::files::Replacement;
use memweir_swap::trace::{PageTrace, Sums, WINDOW};
use memweir_trace::Trace;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::text::{count, counted};
use crate::value::result_file;

/// Options of `memweir page refs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording of `memweir profile --addresses`; one under small caches says more
    #[arg(value_name = "RECORDING.mwt")]
    recording: PathBuf,
    /// Where the references go, for `trace` of an application of `memweir page sim`
    #[arg(value_name = "OUT.mwt", value_parser = result_file())]
    out: PathBuf,
    /// Instructions within which references to a page are one; the scenario's `window` must agree
    #[arg(long, value_name = "N", default_value_t = WINDOW)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    window: u64,
    /// Write what was found as JSON (`-`: to standard output instead of the text)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// Reads the recording and writes the references.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::check([&Some(args.out.clone()), &args.json], [&*args.recording])?;
    let mut recording = Trace::open(&args.recording, None)?;
    let name = recording.header().name.clone();
    let trace = PageTrace::read(&mut recording, args.window)?;
    let fail = |error| Failure::write(&args.out, error);
    let replacement = Replacement::of(&args.out).map_err(fail)?;
    let file = BufWriter::new(replacement.file());
    trace.write(&name, file, args.window).and_then(|mut file| file.flush()).map_err(fail)?;
    replacement.commit().map_err(fail)?;
    let sums = trace.sums();
    output::report(args.json.as_deref(), &sums, || render(&sums))?;
    Ok(Outcome::Success)
}

fn render(sums: &Sums) -> String {
    format!(
        "{} ({}), {} of them written\n{}, {} of them writes; {:.1} lines each\n",
        counted(u64::from(sums.pages), "page"),
        Bytes(u64::from(sums.pages) * PAGE.0),
        count(u64::from(sums.written_pages)),
        counted(sums.references, "reference"),
        count(sums.writes),
        sums.lines_per_reference,
    )
}
