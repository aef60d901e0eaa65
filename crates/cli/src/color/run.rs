//! `memweir color run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

use clap::ValueEnum;
use memweir_color::{CacheColors, Colored, Totals, Wish};
use memweir_core::Bytes;
use memweir_core::address_map::ColorSet;
use memweir_core::cache::CacheGeometry;
use memweir_core::input::InputError;
use memweir_core::preload::{Counter, Shortage};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output;

/// Options of `memweir color run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The map of this machine
    #[arg(long, value_name = "FILE")]
    map: PathBuf,
    /// The bank colors that the program may use, as `0-3,8`
    #[arg(long, value_name = "COLORS", value_parser = super::colors)]
    colors: ColorSet,
    /// The cache colors that it may use; needs --cache
    #[arg(long, value_name = "COLORS", value_parser = super::colors, requires = "cache")]
    cache_colors: Option<ColorSet>,
    /// The last-level cache, as its size and ways
    #[arg(long, value_name = "SIZE:WAYS", value_parser = crate::value::cache)]
    cache: Option<CacheGeometry>,
    /// What to do when no page of these colors can be found
    #[arg(long, value_name = "HOW", default_value = "spill")]
    on_shortage: OnShortage,
    /// Memory of these colors to gather before the program starts
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = crate::value::size)]
    pool: Bytes,
    /// The most memory of its own that a process may have in these colors; more is a shortage
    #[arg(long, value_name = "SIZE", value_parser = crate::value::size)]
    limit: Option<Bytes>,
    /// Write what was counted as JSON
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// `--on-shortage`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnShortage {
    /// End the program with SIGBUS
    Refuse,
    /// Give pages of other colors
    Spill,
    /// Let it wait until pages are found
    Wait,
}

impl From<OnShortage> for Shortage {
    fn from(how: OnShortage) -> Self {
        match how {
            OnShortage::Refuse => Self::Refuse,
            OnShortage::Spill => Self::Spill,
            OnShortage::Wait => Self::Wait,
        }
    }
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct Report {
    command: Vec<String>,
    colors: String,
    seconds: f64,
    exit_code: Option<i32>,
    signal: Option<i32>,
    drift_prevented: bool,
    gathered_per_second: Option<f64>,
    populated_per_second: Option<f64>,
    counters: Totals,
}

/// Runs the program.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::writable(args.json.as_deref())?;
    let map = crate::map::read(&args.map)?;
    let refuse =
        |refusal: memweir_core::input::Refusal| Failure::Input(refusal.written_in("command line"));
    memweir_color::check_program(&args.command[0]).map_err(refuse)?;
    let cache = match (&args.cache, &args.cache_colors) {
        (Some(cache), Some(colors)) => Some(CacheColors { cache: *cache, colors: colors.clone() }),
        (Some(_), None) => {
            let reason = "--cache is given without --cache-colors";
            return Err(InputError::new("command line", reason).into());
        }
        (None, _) => None,
    };
    let wish = Wish {
        map,
        colors: args.colors.clone(),
        cache,
        shortage: args.on_shortage.into(),
        pool_pages: args.pool.0.div_ceil(4096),
        limit_pages: args.limit.map_or(0, |limit| limit.0.div_ceil(4096)),
    };
    let colored = Colored::prepare(&wish).map_err(super::failure)?;
    let begun = Instant::now();
    let status = run(args, &colored)?;
    let totals = colored.totals();
    tell(args, status, &totals);
    if let Some(path) = &args.json {
        output::json(path, &report(args, status, begun, &colored, totals))?;
    }
    Ok(if status.success() { Outcome::Success } else { Outcome::JobFailed })
}

/// Runs the program to its end. A signal for this command goes on to the program, so that counters
/// and settings are always taken care of.
fn run(args: &Args, colored: &Colored) -> Result<ExitStatus, Failure> {
    let signals: SigSet =
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT].into_iter().collect();
    let machine =
        |what: &str, error: &dyn std::fmt::Display| Failure::Machine(format!("{what}: {error}"));
    signals.thread_block().map_err(|e| machine("signals", &e))?;
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    command.envs(colored.environment().iter().map(|(name, value)| (name, value)));
    let name = args.command[0].to_string_lossy();
    let mut child: Child = command.spawn().map_err(|e| machine(&name, &e))?;
    let process = Pid::from_raw(child.id() as i32);
    std::thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            // The terminal tells the program by itself.
            if !matches!(signal, Signal::SIGINT | Signal::SIGQUIT) {
                let _ = kill(process, signal);
            }
        }
    });
    child.wait().map_err(|e| machine(&name, &e))
}

/// Tells what did not go as asked; all else is in the JSON.
fn tell(args: &Args, status: ExitStatus, totals: &Totals) {
    use std::os::unix::process::ExitStatusExt;
    let told = [
        (
            Counter::Refused,
            "page faults found no page of these colors, which ended the program (--on-shortage refuse)",
        ),
        (Counter::Spilled, "pages have other colors because the pool was short"),
        (Counter::Waited, "page faults waited for pages of these colors"),
        (Counter::Uncolored, "processes could not be placed and ran as ever"),
        (Counter::Failed, "pages could not be placed"),
    ];
    for (counter, what) in told {
        let count = totals.get(counter);
        if count > 0 {
            eprintln!("memweir: {count} {what}");
        }
    }
    if totals.get(Counter::Processes) == 0 {
        eprintln!("memweir: the program did not load the preload library; it ran uncolored");
    }
    let name = args.command[0].to_string_lossy();
    match (status.code(), status.signal()) {
        (Some(0), _) => {}
        (Some(code), _) => eprintln!("memweir: {name} ended with status {code}"),
        (None, signal) => eprintln!("memweir: {name} was ended by signal {}", signal.unwrap_or(0)),
    }
}

fn report(
    args: &Args,
    status: ExitStatus,
    begun: Instant,
    colored: &Colored,
    totals: Totals,
) -> Report {
    use std::os::unix::process::ExitStatusExt;
    let rate = |counter: Counter| {
        let micros = totals.get(Counter::GatherMicros);
        (micros > 0).then(|| totals.get(counter) as f64 * 1e6 / micros as f64)
    };
    Report {
        command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        colors: args.colors.to_string(),
        seconds: begun.elapsed().as_secs_f64(),
        exit_code: status.code(),
        signal: status.signal(),
        drift_prevented: colored.drift_prevented(),
        gathered_per_second: rate(Counter::Gathered),
        populated_per_second: rate(Counter::Populated),
        counters: totals,
    }
}
