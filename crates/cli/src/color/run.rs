//! `memweir color run`.

mod kernel;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Instant;

use clap::ValueEnum;
use memweir_abi::preload::{Counter, Delivery, Shortage};
use memweir_color::{CacheColors, Colored, Request, Totals};
use memweir_core::Bytes;
use memweir_core::address_map::ColorSet;
use memweir_core::cache::CacheGeometry;
use memweir_core::input::InputError;
use memweir_linux::foreground::Foreground;
use memweir_linux::preload::{self, NotStarted, Unreached, UnreachedProgram, check_program};
use memweir_linux::tell;
use serde::Serialize;

use crate::failure::{Failure, Outcome, PROGRAM_EXIT_CODES, refusal_of};
use crate::render::text;
use crate::shared::coloring::{self, GivenPages, WALK_INTERVAL};
use crate::shared::map;
use crate::value::parsed;
use crate::{foreground, guardian, output};

/// Options of `memweir color run`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = PROGRAM_EXIT_CODES)]
pub(crate) struct Args {
    /// The map of this machine
    #[arg(long, value_name = "FILE")]
    map: PathBuf,
    /// The bank colors that the program may use, as `0-3,8`
    #[arg(long, value_name = "COLORS", value_parser = parsed::<ColorSet>)]
    colors: ColorSet,
    /// The cache colors that it may use; needs --cache
    #[arg(long, value_name = "COLORS", value_parser = parsed::<ColorSet>, requires = "cache")]
    cache_colors: Option<ColorSet>,
    /// The last-level cache, as its size and ways
    #[arg(long, value_name = "SIZE:WAYS", value_parser = crate::value::cache)]
    cache: Option<CacheGeometry>,
    /// Action when no page of these colors can be found
    #[arg(long, value_name = "HOW", default_value = "spill")]
    on_shortage: OnShortage,
    /// Let the kernel place its pages, if it can (the patches in kernel/bank-color): static
    /// programs, too, and at the price of a page fault alone
    #[arg(long, conflicts_with_all = ["pool", "limit"])]
    kernel: bool,
    /// Delivery of pages to the program: `move` needs Linux 6.8, `recycle` Linux 6.1
    #[arg(long, value_name = "HOW", default_value = "auto", conflicts_with = "kernel")]
    delivery: DeliveryChoice,
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
    /// End the program (with SIGBUS; by the kernel's killer with --kernel)
    Refuse,
    /// Give pages of other colors
    Spill,
    /// Let it wait until pages are found (not with --kernel)
    Wait,
    /// Reclaim its own memory of these colors first (with --kernel alone)
    Reclaim,
}

impl OnShortage {
    /// Returns the reaction of the preload library.
    fn preload(self) -> Result<Shortage, InputError> {
        match self {
            Self::Refuse => Ok(Shortage::Refuse),
            Self::Spill => Ok(Shortage::Spill),
            Self::Wait => Ok(Shortage::Wait),
            Self::Reclaim => {
                Err(refusal_of("--on-shortage", "only the kernel can reclaim memory by color")
                    .help("add --kernel, or choose `refuse`, `spill` or `wait`"))
            }
        }
    }
}

/// `--delivery`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum DeliveryChoice {
    /// Move where the kernel can, else recycle
    Auto,
    /// Let the kernel move them
    Move,
    /// Free their frames so that the kernel takes just these for new pages
    Recycle,
}

impl DeliveryChoice {
    fn request(self) -> Option<Delivery> {
        match self {
            Self::Auto => None,
            Self::Move => Some(Delivery::Move),
            Self::Recycle => Some(Delivery::Recycle),
        }
    }
}

/// Part of the JSON that both ways of placing pages share.
#[derive(Debug, Serialize)]
struct Ran {
    command: Vec<String>,
    colors: String,
    seconds: f64,
    exit_code: Option<i32>,
    signal: Option<i32>,
    pages: GivenPages,
    warnings: Vec<String>,
}

impl Ran {
    fn new(
        args: &Args,
        status: ExitStatus,
        begun: Instant,
        pages: GivenPages,
        warning: Option<String>,
    ) -> Self {
        use std::os::unix::process::ExitStatusExt;
        Self {
            command: foreground::words(&args.command),
            colors: args.colors.to_string(),
            seconds: begun.elapsed().as_secs_f64(),
            exit_code: status.code(),
            signal: status.signal(),
            pages,
            warnings: warning.into_iter().collect(),
        }
    }

    /// Shows the summary on standard error, apart from the program's own output.
    fn summarize(&self) {
        for line in self.pages.lines(&self.colors, self.seconds) {
            tell!("{line}");
        }
    }
}

/// Output of `--json` where the preload library places the pages.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    ran: Ran,
    delivery: &'static str,
    drift_prevented: bool,
    gathered_per_second: Option<f64>,
    populated_per_second: Option<f64>,
    moved_per_second: Option<f64>,
    uncolored: Vec<UnreachedProgram>,
    counters: Totals,
}

/// Runs the program.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::check([&args.json], [&*args.map])?;
    let map = map::read(&args.map)?;
    let cache = match (&args.cache, &args.cache_colors) {
        (Some(cache), Some(colors)) => Some(CacheColors { cache: *cache, colors: colors.clone() }),
        (Some(_), None) => {
            let reason = "--cache is given without --cache-colors";
            return Err(InputError::new("command line", reason).into());
        }
        (None, _) => None,
    };
    if args.kernel {
        return kernel::execute(args, map, cache);
    }
    check_program(&args.command[0]).map_err(NotStarted::Request)?;
    let request = Request {
        map,
        colors: args.colors.clone(),
        cache,
        shortage: args.on_shortage.preload()?,
        delivery: args.delivery.request(),
        pool_pages: args.pool.0.div_ceil(4096),
        limit_pages: args.limit.map_or(0, |limit| limit.0.div_ceil(4096)),
    };
    let colored = Colored::prepare(&request, Some(&guardian::command()))?;
    let library = preload::library().map_err(NotStarted::Machine)?;
    let mut unreached = Unreached::descendants(&library).map_err(NotStarted::Machine)?;
    let warning = warn();
    let begun = Instant::now();
    let program =
        Foreground { command: &args.command, environment: colored.environment(), group: None };
    // A walk that fails misses programs; the colored ones do not depend on it.
    let status = program.run(WALK_INTERVAL, || drop(unreached.look()))?;
    let (totals, uncolored) = (colored.totals(), unreached.programs());
    let ran = Ran::new(args, status, begun, GivenPages::counted(&totals, &args.colors), warning);
    ran.summarize();
    tell(&colored, &ran, &totals);
    if let Some(told) = coloring::uncolored(&uncolored, totals.get(Counter::Uncolored)) {
        tell!("{told}");
    }
    foreground::tell(&args.command, status);
    if let Some(path) = &args.json {
        output::json(path, &report(ran, &colored, uncolored, totals))?;
    }
    Ok(foreground::outcome(status))
}

/// Shows the warning about virtual machines, and returns it for the JSON.
fn warn() -> Option<String> {
    map::uncertain_colors().inspect(|warning| tell!("{warning}"))
}

/// Reports what did not go as requested; all else is in the JSON.
fn tell(colored: &Colored, ran: &Ran, totals: &Totals) {
    let told = [
        (
            Counter::Refused,
            "page fault",
            "found no page of these colors, which ended the program (--on-shortage refuse)",
        ),
        (Counter::Spilled, "page", "got other colors because the pool was short"),
        (Counter::Waited, "page fault", "waited for pages of these colors"),
        (Counter::Failed, "page", "could not be placed"),
    ];
    for (counter, noun, what) in told {
        let count = totals.get(counter);
        if count > 0 {
            tell!("{} {what}", text::counted(count, noun));
        }
    }
    let unmoved = totals.get(Counter::UnmovedMicros) as f64 / 1e6 / ran.seconds;
    if unmoved >= 0.5 {
        let why = match totals.get(Counter::Spilled) {
            0 => "pinned, or shared after a fork",
            _ => "for want of pages of these colors, or pinned, or shared after a fork",
        };
        let pages = text::counted(unmoved.round() as u64, "page");
        tell!("{pages} on average could not be moved from other colors ({why})");
    }
    if colored.delivery() == Delivery::Recycle {
        let (placed, missed) = (totals.get(Counter::Placed), totals.get(Counter::Missed));
        tell!(
            "{placed} pages were recycled into place, {missed} more only at another try \
             (--delivery)"
        );
    }
    if totals.get(Counter::Processes) == 0 {
        tell!("the program did not load the preload library; it ran uncolored");
    }
}

fn report(ran: Ran, colored: &Colored, uncolored: Vec<UnreachedProgram>, totals: Totals) -> Report {
    let rate = |counter: Counter, time: Counter| {
        let micros = totals.get(time);
        (micros > 0).then(|| totals.get(counter) as f64 * 1e6 / micros as f64)
    };
    Report {
        ran,
        delivery: colored.delivery().name(),
        drift_prevented: colored.drift_prevented(),
        gathered_per_second: rate(Counter::Gathered, Counter::GatherMicros),
        populated_per_second: rate(Counter::Populated, Counter::GatherMicros),
        moved_per_second: rate(Counter::Gathered, Counter::MoveMicros),
        uncolored,
        counters: totals,
    }
}
