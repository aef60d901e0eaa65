//! `memweir dram replay`: a memory serves a trace.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::ArgGroup;
use memweir_bank::cached_trace::CachedTrace;
use memweir_core::input::InputError;
use memweir_core::{Cycles, Nanos, PhysAddr, Picos};
use memweir_dram::MemoryConfig;
use memweir_dram::check::Checker;
use memweir_dram::drive::{
    self, DriveError, DrivePlan, DrivenParts, Measured, Mode, PartReport, Report, Served, WarmUp,
};
use memweir_linux::clock::process_cpu_time;
use memweir_linux::tell;
use memweir_study::sweep::Sweep;
use memweir_trace::{Format, Loss, Trace, Truncation};
use serde::Serialize;

use super::caches::{CacheArgs, CacheFigures};
use super::memory::MemoryArgs;
use super::render;
use super::source::{Beyond, Requests, Space};
use super::sweep;
use super::timeline::Timeline;
use super::watch::{CommandsFormat, Watch, Watches, found};
use crate::failure::{Failure, Outcome, refusal_of};
use crate::interrupt;
use crate::output;
use crate::shared::over_time;
use crate::shared::shards::Shards;
use crate::value::{parsed, result_file};

/// Options of `memweir dram replay`.
#[derive(Debug, clap::Args)]
#[command(group = several("over_time", ["timeline", "svg"]))]
#[command(group = several("command_files", ["commands", "nvm_commands"]))]
pub(crate) struct Args {
    /// The trace (`-`: standard input)
    #[arg(value_name = "TRACE")]
    pub(super) trace: PathBuf,
    /// When requests are offered: `sat` always, `mlp:N` reads while fewer than N are outstanding,
    /// `pace:K` every K cycles
    #[arg(long, value_name = "sat|mlp:N|pace:K", default_value = "sat")]
    #[arg(value_parser = parsed::<Mode>)]
    pub(super) mode: Mode,
    /// Serve this many requests before the measurement begins, to fill rows, queues and caches
    #[arg(long, value_name = "REQUESTS", default_value_t = 0, hide_default_value = true)]
    pub(super) warm_up: u64,
    /// The format of the trace, instead of the one that is recognized: memweir, bin, ramulator2,
    /// ramulator1, dramsim3, simple-o3, champsim, lackey, drmemtrace
    #[arg(long, value_name = "FORMAT", value_parser = parsed::<Format>)]
    pub(super) format: Option<Format>,
    /// Take addresses beyond the memory modulo its size, instead of refusing them; each process of
    /// a trace with virtual addresses has a place of its own
    #[arg(long)]
    pub(super) wrap: bool,
    #[command(flatten)]
    pub(super) memory: MemoryArgs,
    #[command(flatten)]
    pub(super) caches: CacheArgs,
    /// Replay with each of these values of an option, `OPTION=A,B,C`; several make a grid, whose
    /// results go into the directory of `--out`
    #[arg(long, value_name = "OPTION=VALUES", help_heading = "Sweeping")]
    #[arg(value_parser = parsed::<Sweep>)]
    pub(super) sweep: Vec<Sweep>,
    /// Points to replay at a time [default: one per core]
    #[arg(long, value_name = "N", requires = "sweep", help_heading = "Sweeping")]
    pub(super) threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(super) shards: Shards,
    /// The directory of a sweep
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(super) out: Option<PathBuf>,
    /// Hold every command against the rules of the standard; a violation fails the replay
    #[arg(long, help_heading = "Output")]
    pub(super) check: bool,
    /// Write every command, one per line
    #[arg(long, value_name = "FILE", value_parser = result_file(), help_heading = "Output")]
    pub(super) commands: Option<PathBuf>,
    /// Write every command of the second memory, in cycles of its own clock
    #[arg(long, value_name = "FILE", requires = "nvm", help_heading = "Output")]
    #[arg(value_parser = result_file())]
    pub(super) nvm_commands: Option<PathBuf>,
    /// Format of the files of commands: `memweir`, or `drampower` with a file for each channel
    #[arg(long, value_name = "FORMAT", default_value = "memweir", help_heading = "Output")]
    #[arg(requires = "command_files")]
    pub(super) commands_format: CommandsFormat,
    /// Write one row per memory and interval, the warm-up included, as Parquet or CSV by the ending
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) timeline: Option<PathBuf>,
    /// Draw bandwidth, row hits and latency of each memory over time
    #[arg(long, value_name = "FILE.svg", value_parser = crate::value::svg, help_heading = "Output")]
    pub(super) svg: Option<PathBuf>,
    /// Length of an interval of `--timeline` and `--svg` in the time of the memory, 100ns to 24h
    #[arg(long, value_name = "TIME", default_value = "10us", help_heading = "Output")]
    #[arg(value_parser = over_time::interval, requires = "over_time")]
    pub(super) interval: Nanos,
    /// Write the result as JSON (`-`: to standard output instead of the report)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(super) json: Option<PathBuf>,
}

/// Options of which another one needs at least one.
fn several(name: &'static str, options: [&'static str; 2]) -> ArgGroup {
    ArgGroup::new(name).args(options).multiple(true)
}

impl Args {
    /// Returns the way in which the memories are driven.
    pub(super) fn plan(&self) -> DrivePlan {
        DrivePlan { mode: self.mode, warm_up: self.warm_up }
    }
}

pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    if args.shards.is_wanted() || !args.sweep.is_empty() {
        return sweep::execute(args);
    }
    if args.out.is_some() {
        let error = refusal_of("--out", "is the directory of a sweep");
        let help = "`--json FILE` writes the result of one replay; or add `--sweep OPTION=VALUES`";
        return Err(error.help(help).into());
    }
    let results = [&args.json, &args.timeline, &args.svg, &args.commands, &args.nvm_commands];
    output::check(results, [&*args.trace])?;
    args.timeline.as_deref().map(over_time::format).transpose()?;
    let systems = args.memory.systems()?;
    let trace = args.caches.apply(Trace::open(&args.trace, args.format)?)?;
    let mut watches = watches(args, &systems)?;
    interrupt::remove(watches.iter().flat_map(Watch::unfinished).map(Path::to_owned).collect())?;
    let for_people = !output::is_stdout(args.json.as_deref());
    if for_people {
        output::print(&render::head(&systems, &trace, args.mode)?)?;
    }
    let beyond = if args.wrap { Beyond::Wrap } else { Beyond::Refuse };
    let mut requests = Requests::new(trace, Space::of(&systems), beyond);
    let is_wanted = args.timeline.is_some() || args.svg.is_some();
    let mut timeline = is_wanted.then(|| Timeline::new(args.interval, &systems));
    let all = Watches { each: &mut watches, timeline: timeline.as_mut() };
    let start = process_cpu_time();
    let driven = drive_all(&systems, args.plan(), &mut requests, all)?;
    let cpu_s = process_cpu_time().saturating_sub(start).as_secs_f64();
    let (report, ends) = measured(&systems, &driven, &watches, cpu_s);
    let trace = requests.finish();
    let ended = watches.into_iter().zip(ends).map(|(watch, end)| watch.finish(end));
    let (commands, checks): (Vec<_>, Vec<_>) = ended.unzip();
    let replayed = Replayed::new(&systems, &trace, args.mode, &report);
    let shown = output::report(args.json.as_deref(), &replayed, || {
        render::report(&report, systems[0].1.spec().clock, &driven.all_stats())
    });
    let (name, end) = (trace.trace().name(), driven.end());
    let over_time = timeline.as_ref().into_iter().flat_map(|timeline| {
        let table = args.timeline.as_ref().map(|path| timeline.write(path, end));
        let drawn = |path| output::figure(path, &timeline.figure(name, end));
        table.into_iter().chain(args.svg.as_deref().map(drawn))
    });
    let written = output::each(commands.into_iter().chain([shown]).chain(over_time));
    let outcome = conclude(&systems, &checks);
    let outcome = warn_of_truncation(name, trace.trace().truncation()).or(outcome);
    written.map(|()| outcome)
}

/// Returns what observes the commands of each memory.
fn watches(args: &Args, systems: &[(PhysAddr, MemoryConfig)]) -> Result<Vec<Watch>, Failure> {
    let files = [args.commands.as_deref(), args.nvm_commands.as_deref()];
    let watches = systems.iter().zip(files).map(|((_, config), file)| {
        let watch = Watch::new(config);
        let watch = if args.check { watch.checked(config)? } else { watch };
        match file {
            Some(file) => watch.written(config, file, args.commands_format),
            None => Ok(watch),
        }
    });
    watches.collect()
}

/// The result of a replay with everything that it depends on.
#[derive(Serialize)]
pub(super) struct Replayed<'a> {
    memories: Vec<Memory>,
    mode: String,
    trace: Source<'a>,
    #[serde(flatten)]
    report: &'a Report,
}

/// One memory of a replay, and its controllers.
#[derive(Serialize)]
struct Memory {
    devices: Vec<String>,
    channels: u32,
    from: u64,
    bytes: u64,
    clock_ps: u64,
    map: String,
    scheduler: &'static str,
    page: String,
    refresh: &'static str,
    read_queue: u32,
    write_queue: u32,
    watermarks: [f64; 2],
    age_limit_cycles: Option<u64>,
    power_down_cycles: Option<u64>,
    self_refresh_cycles: Option<u64>,
}

/// The trace of a replay.
#[derive(Serialize)]
struct Source<'a> {
    file: &'a str,
    format: &'static str,
    addresses: &'static str,
    /// Name of the recording, if the trace gives one.
    recorded: Option<&'a str>,
    /// Caches that were modeled between the trace and memory.
    caches: Option<CacheFigures>,
    truncated: Option<Truncation>,
}

impl<'a> Replayed<'a> {
    pub(super) fn new(
        systems: &[(PhysAddr, MemoryConfig)],
        behind: &'a CachedTrace,
        mode: Mode,
        report: &'a Report,
    ) -> Self {
        let trace = behind.trace();
        let recorded = Some(trace.header().name.as_str()).filter(|name| !name.is_empty());
        let source = Source {
            file: trace.name(),
            format: trace.format().name(),
            addresses: trace.header().addresses.name(),
            recorded,
            caches: behind.caches().map(CacheFigures::from),
            truncated: trace.truncation(),
        };
        let memories = systems.iter().map(|(from, config)| Memory::new(*from, config));
        Self { memories: memories.collect(), mode: mode.to_string(), trace: source, report }
    }
}

impl Memory {
    fn new(from: PhysAddr, config: &MemoryConfig) -> Self {
        Self {
            devices: config.ranks.iter().map(|spec| spec.name.clone()).collect(),
            channels: config.channels,
            from: from.0,
            bytes: config.capacity().0,
            clock_ps: config.spec().clock.0,
            map: config.map.name.clone(),
            scheduler: config.scheduler.name(),
            page: config.page.to_string(),
            refresh: config.effective_refresh().name(),
            read_queue: config.read_queue,
            write_queue: config.write_queue,
            watermarks: [config.low_watermark, config.high_watermark],
            age_limit_cycles: config.age_limit.map(|cycles| cycles.0),
            power_down_cycles: config.power.power_down_after.map(|cycles| cycles.0),
            self_refresh_cycles: config.power.self_refresh_after.map(|cycles| cycles.0),
        }
    }
}

/// Warns if the trace `name` is truncated. The outcome says whether accesses may be missing.
pub(super) fn warn_of_truncation(name: &str, truncation: Option<Truncation>) -> Outcome {
    let Some(truncation) = truncation else { return Outcome::Success };
    tell!("{name}: {truncation}");
    if truncation.loss == Loss::None { Outcome::Success } else { Outcome::Truncated }
}

/// Replays, and checks the sums against each other.
pub(super) fn drive_all(
    systems: &[(PhysAddr, MemoryConfig)],
    plan: DrivePlan,
    requests: &mut Requests,
    mut watches: Watches<'_>,
) -> Result<DrivenParts, Failure> {
    let source = || requests.next_offer();
    let driven = drive::drive_systems(systems, plan, source, &mut watches).map_err(failed)?;
    driven.verify(requests.taken).map_err(Failure::Fault)?;
    Ok(driven)
}

fn failed(error: DriveError<InputError>) -> Failure {
    match error {
        DriveError::Source(input) => Failure::Input(input),
        DriveError::Refused(refusal) => Failure::Input(refusal.written_in("command line")),
        DriveError::NothingMeasured { requests } => {
            let error = refusal_of("--warm-up", error.to_string());
            Failure::Input(error.help(format!("a number below {requests}")))
        }
        DriveError::Hangs { .. } => Failure::Fault(error.to_string()),
    }
}

/// The report, and the cycle of each memory's own clock in which the replay ended.
pub(super) fn measured(
    systems: &[(PhysAddr, MemoryConfig)],
    driven: &DrivenParts,
    watches: &[Watch],
    cpu_s: f64,
) -> (Report, Vec<Cycles>) {
    let clock = systems[0].1.spec().clock;
    let end = Picos(driven.end().0 * clock.0);
    let ends: Vec<Cycles> = watches.iter().map(|watch| watch.cycle(end)).collect();
    let energies = watches.iter().zip(&ends).map(|(watch, end)| watch.energy(*end));
    let energies: Vec<_> = energies.collect();
    let measured =
        systems.iter().zip(&driven.stats).zip(&energies).map(|(((_, config), stats), energy)| {
            Measured { config, stats, energy: energy.as_ref() }
        });
    let measured: Vec<_> = measured.collect();
    let of_part = |(part, (from, config)): (usize, &(PhysAddr, MemoryConfig))| PartReport {
        memory: render::devices(config),
        from: from.0,
        bytes: config.capacity().0,
        clock_ps: config.spec().clock.0,
        served: Served::new(&measured[part..=part], clock, &driven.parts[part]),
    };
    let several = systems.iter().enumerate().filter(|_| systems.len() > 1);
    let served = Served::new(&measured, clock, &driven.whole);
    let answered_before = driven.warm_up.as_ref().map_or(0, |before| before.whole.requests());
    let requests_per_cpu_s = (served.requests + answered_before) as f64 / cpu_s;
    let parts = several.map(of_part).collect();
    (Report { warm_up: WarmUp::of(driven), served, cpu_s, requests_per_cpu_s, parts }, ends)
}

fn conclude(systems: &[(PhysAddr, MemoryConfig)], checks: &[Option<Checker>]) -> Outcome {
    let mut outcome = Outcome::Success;
    for ((_, config), check) in systems.iter().zip(checks) {
        let Some(check) = check else { continue };
        match systems {
            [_] => tell!("{}", found(check)),
            _ => tell!("{}: {}", render::devices(config), found(check)),
        }
        if check.count() > 0 {
            outcome = Outcome::Violation;
        }
    }
    outcome
}
