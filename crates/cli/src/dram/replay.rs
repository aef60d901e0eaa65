//! `memweir dram replay`: a memory serves a trace.

use std::path::PathBuf;

use memweir_dram::drive::{self, DriveError, Mode, Report};
use memweir_dram::trace::{Format, Trace};
use memweir_dram::{MemoryConfig, MemorySystem};
use nix::time::{ClockId, clock_gettime};

use super::convert::format;
use super::memory::MemoryArgs;
use super::render;
use super::source::{Beyond, Requests};
use super::watch::{Verdict, Watch};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::value::refused;

/// Options of `memweir dram replay`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The trace (`-`: standard input)
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// When requests are offered: `sat` always, `mlp:N` reads while fewer than N are outstanding,
    /// `pace:K` every K cycles
    #[arg(long, value_name = "sat|mlp:N|pace:K", default_value = "sat")]
    #[arg(value_parser = |text: &str| text.parse::<Mode>().map_err(refused))]
    mode: Mode,
    /// The format of the trace, instead of the one that is recognized: memweir, bin, ramulator2,
    /// ramulator1, dramsim3, simple-o3
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    format: Option<Format>,
    /// Take addresses beyond the memory modulo its size, instead of refusing them
    #[arg(long)]
    wrap: bool,
    #[command(flatten)]
    memory: MemoryArgs,
    /// Hold every command against the rules of the standard; a violation fails the replay
    #[arg(long, help_heading = "Output")]
    check: bool,
    /// Write every command, one per line
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    commands: Option<PathBuf>,
    /// Write the result as JSON (`-`: to standard output instead of the report)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    json: Option<PathBuf>,
}

pub(super) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::writable(args.json.as_deref())?;
    let config = args.memory.config()?;
    let trace = Trace::open(&args.trace, args.format)?;
    let mut watch = Watch::new(&config, args.check, args.commands.as_deref())?;
    let for_people = !output::is_stdout(args.json.as_deref());
    if for_people {
        output::print(&render::head(&config, &trace, args.mode)?)?;
    }
    let beyond = if args.wrap { Beyond::Wrap } else { Beyond::Refuse };
    let mut requests = Requests::new(trace, config.capacity(), beyond);
    let (report, stats) = measure(&config, args.mode, &mut requests, &mut watch)?;
    let trace = requests.finish();
    let verdict = watch.finish(memweir_core::Cycles(report.cycles))?;
    if let Some(path) = &args.json {
        output::json(path, &report)?;
    }
    if for_people {
        output::print(&render::report(&config, &report, &stats))?;
    }
    if let Some(cut) = trace.cut() {
        eprintln!("memweir: {}: {cut}", trace.name());
    }
    Ok(conclude(verdict))
}

/// Replays, and holds the sums against each other.
fn measure(
    config: &MemoryConfig,
    mode: Mode,
    requests: &mut Requests,
    watch: &mut Watch,
) -> Result<(Report, memweir_dram::Stats), Failure> {
    let mut memory = MemorySystem::new(config).map_err(|r| r.written_in("command line"))?;
    let start = cpu_seconds()?;
    let driven = drive::drive(&mut memory, mode, || requests.next_offer(), watch);
    let driven = driven.map_err(|error| match error {
        DriveError::Source(input) => Failure::Input(input),
        fault @ DriveError::Hangs { .. } => Failure::Fault(fault.to_string()),
    })?;
    let cpu_s = cpu_seconds()? - start;
    let stats = memory.stats();
    driven.verify(requests.taken, &stats).map_err(Failure::Fault)?;
    let energy = watch.energy(driven.cycles);
    Ok((Report::new(config, &driven, &stats, energy.as_ref(), cpu_s), stats))
}

/// CPU time of this process.
fn cpu_seconds() -> Result<f64, Failure> {
    let now = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map_err(|error| Failure::Machine(format!("the CPU clock: {error}")))?;
    Ok(now.tv_sec() as f64 + now.tv_nsec() as f64 * 1e-9)
}

fn conclude(verdict: Option<Verdict>) -> Outcome {
    let Some(verdict) = verdict else { return Outcome::Success };
    eprintln!("memweir: {verdict}");
    if verdict.violations == 0 { Outcome::Success } else { Outcome::Violation }
}
