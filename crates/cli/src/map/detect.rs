//! `memweir map detect`.

mod oracle;
mod report;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memweir_core::names::choose;
use memweir_core::{Nanos, PhysAddr};
use memweir_linux::tell;
use memweir_map::detect::{Detection, Options, Progress, bpm, detect};
use memweir_map::oracle::{Latency, LatencyOracle, OracleError, Reach};
use memweir_map::synthetic::Noise;

use crate::failure::{Failure, Outcome};
use crate::render::progress;
use crate::shared::map;
use crate::value::{duration, offering, refused, toml};
use crate::{interrupt, output};
use oracle::Source;
use report::Report;

/// Options of `memweir map detect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Method of detection: `memweir` (hashed maps, offsets, odd channel counts), or `bpm`
    /// (Algorithm 1 of the paper as written: functions of one or two bits)
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Algorithm::Memweir)]
    algorithm: Algorithm,
    /// Memory to measure: `live`, this machine's; or `map:FILE`, a simulated machine with that map
    /// of FILE (a map file, or a JSON collection of which `FILE#ID` names an entry)
    #[arg(long, value_name = "live|map:FILE", default_value = "live")]
    oracle: Source,
    /// Noise in a simulated machine's latencies
    #[arg(long, value_name = "NAME", default_value = "server")]
    #[arg(value_parser = offering(noise, NOISES.map(|(name, _)| name)))]
    noise: Noise,
    /// Seed of what is chosen at random, and of a simulated machine
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = crate::value::seed)]
    seed: u64,
    /// Time that measuring may take; simulated time on a simulated machine [default: 60s, or 30m
    /// with bpm, which reads each pair a million times]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    budget: Option<Nanos>,
    /// Where a found map goes
    #[arg(long, short, value_name = "FILE.toml", value_parser = toml)]
    output: Option<PathBuf>,
    /// Write the result as JSON (without FILE or with `-`: to standard output)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Algorithm {
    Memweir,
    Bpm,
}

const NOISES: [(&str, Noise); 3] =
    [("quiet", Noise::QUIET), ("server", Noise::SERVER), ("vm", Noise::VM)];

fn noise(name: &str) -> Result<Noise, String> {
    choose("noise", name, NOISES).map_err(refused)
}

/// Detects, shows the result, and writes the map if there is one.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::check([&args.json, &args.output], args.oracle.file())?;
    let stop = interrupt::catch()?;
    let opened = args.oracle.open(args.noise, args.seed)?;
    let report = match opened {
        Ok(mut oracle) => {
            Report::new(&run(args, &mut Interruptible { oracle: oracle.as_mut(), stop }))
        }
        Err(reason) => Report::impossible(&reason),
    };
    let found = args.output.as_ref().zip(report.map());
    let written = found.map_or(Ok(()), |(path, map)| output::file(path, &map.to_toml()));
    let shown = output::report(args.json.as_deref(), &report.json(), || {
        report.text(args.output.as_deref().filter(|_| written.is_ok()))
    });
    output::both(written, shown)?;
    if stop.load(Ordering::Relaxed) && report.map().is_none() {
        return Ok(Outcome::Interrupted);
    }
    if report.outcome() == Outcome::Refused
        && args.oracle == Source::Live
        && let Some(why) = map::virtual_machine("no bits of theirs choose a bank")
    {
        tell!("{why}");
    }
    Ok(report.outcome())
}

impl Args {
    fn budget(&self) -> Duration {
        let default = match self.algorithm {
            Algorithm::Memweir => Duration::from_secs(60),
            Algorithm::Bpm => Duration::from_secs(30 * 60),
        };
        self.budget.map_or(default, Duration::from)
    }
}

fn run(args: &Args, oracle: &mut dyn LatencyOracle) -> Detection {
    let bar = progress::bar(Some(1000), "{wide_bar} {percent:>3} % of the time {msg:<24}");
    let mut show = |progress: Progress| {
        bar.set_position((progress.spent * 1000.0) as u64);
        bar.set_message(progress.step.to_string());
    };
    let options = Options { seed: args.seed, budget: args.budget() };
    let name = args.oracle.name();
    let detection = match args.algorithm {
        Algorithm::Memweir => detect(oracle, &name, &options, &mut show),
        Algorithm::Bpm => bpm::detect(oracle, &name, &options, &mut show),
    };
    bar.finish_and_clear();
    detection
}

/// The reason of an interrupted detection.
const INTERRUPTED: &str = "a signal ended the measurements";

/// An oracle that fails once a signal has come.
struct Interruptible<'a> {
    oracle: &'a mut dyn LatencyOracle,
    stop: &'a AtomicBool,
}

impl LatencyOracle for Interruptible<'_> {
    fn reach(&self) -> &Reach {
        self.oracle.reach()
    }

    fn measure(&mut self, a: PhysAddr, b: PhysAddr, rounds: u32) -> Result<Latency, OracleError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(OracleError(INTERRUPTED.to_owned()));
        }
        self.oracle.measure(a, b, rounds)
    }

    fn elapsed(&self) -> Duration {
        self.oracle.elapsed()
    }
}
