//! `memweir dram replay --sweep`: a trace served at every point of a grid of options.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::OnceLock;

use clap::{CommandFactory, Parser};
use memweir_core::input::{InputError, Refusal};
use memweir_core::names::suggestion;
use memweir_core::{PhysAddr, Stop};
use memweir_dram::MemoryConfig;
use memweir_dram::drive::{Report, Served};
use memweir_run::table::{Cell, Column, Field, Kind, cells, columns};
use memweir_study::key::key;
use memweir_study::sweep::Grid;
use memweir_sweep::plan::{Origin, TRUNCATED, digest};
use memweir_sweep::simulation::{Simulated, Simulation};
use memweir_trace::{Format, Loss, Trace, Truncation};

use super::replay::{Args, Replayed, drive_all, measured, warn_of_truncation};
use super::source::{Beyond, Requests, Space};
use super::watch::{Watch, Watches};
use crate::failure::{Failure, Outcome, refusal_of};
use crate::shared::shards::Output;

/// Options that say how a replay runs or where its results go, which no result depends on.
const OF_THE_RUN: [&str; 12] = [
    "commands",
    "nvm-commands",
    "commands-format",
    "format",
    "interval",
    "json",
    "out",
    "shard",
    "svg",
    "sweep",
    "threads",
    "timeline",
];

/// One row: the requests that a memory has served.
struct Row<'a> {
    memory: &'a str,
    clock_ps: u64,
    served: &'a Served,
    /// True if accesses of the trace may be missing.
    truncated: bool,
}

/// Returns the fields of a row, behind the swept options.
fn fields<'a>() -> [Field<Row<'a>>; 20] {
    [
        ("memory", Kind::String, |row| row.memory.into()),
        ("requests", Kind::Integer, |row| row.served.requests.into()),
        ("reads", Kind::Integer, |row| row.served.reads.into()),
        ("writes", Kind::Integer, |row| row.served.writes.into()),
        ("cycles", Kind::Integer, |row| row.served.cycles.into()),
        ("time_s", Kind::Float, |row| {
            (row.served.cycles as f64 * row.clock_ps as f64 * 1e-12).into()
        }),
        ("row_hits", Kind::Integer, |row| row.served.row_hits.into()),
        ("row_misses", Kind::Integer, |row| row.served.row_misses.into()),
        ("row_conflicts", Kind::Integer, |row| row.served.row_conflicts.into()),
        ("activates", Kind::Integer, |row| row.served.activates.into()),
        ("refreshes", Kind::Integer, |row| row.served.refreshes.into()),
        ("read_latency_mean_cycles", Kind::Float, |row| row.served.read_latency_cycles.mean.into()),
        ("read_latency_p50_cycles", Kind::Integer, |row| row.served.read_latency_cycles.p50.into()),
        ("read_latency_p90_cycles", Kind::Integer, |row| row.served.read_latency_cycles.p90.into()),
        ("read_latency_p99_cycles", Kind::Integer, |row| row.served.read_latency_cycles.p99.into()),
        ("read_latency_max_cycles", Kind::Integer, |row| row.served.read_latency_cycles.max.into()),
        ("bandwidth_bytes_per_s", Kind::Float, |row| row.served.bandwidth_bytes_per_s.into()),
        ("bus_utilisation", Kind::Float, |row| row.served.bus_utilisation.into()),
        ("average_power_mw", Kind::Float, |row| row.served.average_power_mw.into()),
        (TRUNCATED, Kind::Boolean, |row| Cell::Boolean(row.truncated)),
    ]
}

/// Runs the points of the sweep into the directory of `--out`, or lists them.
pub(super) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let output = Output {
        out: args.out.as_deref(),
        json: args.json.as_deref(),
        whole: vec![
            ("--check", args.check),
            ("--commands", args.commands.is_some()),
            ("--nvm-commands", args.nvm_commands.is_some()),
            ("--svg", args.svg.is_some()),
            ("--timeline", args.timeline.is_some()),
        ],
        threads: args.threads,
    };
    args.shards.check_directory(&output)?;
    let grid = grid(args)?;
    let content = content(&args.trace)?;
    let name = args.trace.display().to_string();
    let origin = Origin { name: name.clone(), ..Origin::default() };
    let truncation = OnceLock::new();
    let read = |grid| ReplaySweep::read(grid, &content, &truncation);
    let outcome = args.shards.execute(&grid, read, &origin, &output)?;
    Ok(warn_of_truncation(&name, truncation.get().copied()).or(outcome))
}

/// Returns the grid of the swept options.
fn grid(args: &Args) -> Result<Grid, Failure> {
    let on_command_line = |refusal: Refusal| refusal.written_in("command line").key("--sweep");
    let grid = Grid::new(args.sweep.clone()).map_err(on_command_line)?;
    let given: Vec<OsString> = std::env::args_os().collect();
    for sweep in grid.sweeps() {
        let option = sweep.path.to_string();
        check(&option).and_then(|()| check_alone(&option, &given)).map_err(on_command_line)?;
    }
    Ok(grid)
}

/// Returns the hash of the trace, which is read at every point.
fn content(trace: &Path) -> Result<String, InputError> {
    if trace == Path::new("-") {
        let error = refusal_of("TRACE", "a sweep reads the trace at every point");
        return Err(error.help("name a file"));
    }
    digest(trace).map_err(|error| InputError::unreadable(trace, &error))
}

/// The options of one point in the place of those of the command line.
#[derive(Parser)]
#[command(name = "replay", args_override_self = true)]
struct Point {
    #[command(flatten)]
    args: Args,
}

/// One point: memories, mode and what becomes of addresses beyond the memories.
struct Prepared {
    args: Args,
    systems: Vec<(PhysAddr, MemoryConfig)>,
    key: String,
}

/// A replay at every point of a grid of options.
struct ReplaySweep<'a> {
    grid: Grid,
    points: Vec<Prepared>,
    /// Filled by the first point that meets the cut of a truncated trace.
    truncation: &'a OnceLock<Truncation>,
}

impl<'a> ReplaySweep<'a> {
    /// Reads the options at every point of a grid; `content` is the hash of the trace.
    fn read(
        grid: Grid,
        content: &str,
        truncation: &'a OnceLock<Truncation>,
    ) -> Result<Self, Failure> {
        // `memweir dram replay`, and then the options.
        let given: Vec<OsString> = std::env::args_os().skip(3).collect();
        let point = |at| Prepared::read(&given, &grid.at(at), content);
        let points = (0..grid.len()).map(point).collect::<Result<_, _>>()?;
        Ok(Self { grid, points, truncation })
    }
}

/// Refuses an option that a replay does not have, or whose values change no result.
fn check(option: &str) -> Result<(), Refusal> {
    let command = Point::command();
    let takes_values = |arg: &&clap::Arg| arg.get_action().takes_values();
    let names: Vec<&str> = command
        .get_arguments()
        .filter(takes_values)
        .filter_map(clap::Arg::get_long)
        .filter(|name| !OF_THE_RUN.contains(name))
        .collect();
    match names.contains(&option) {
        true => Ok(()),
        false => {
            let reason = format!("`{option}` is no option that a replay can sweep");
            Err(Refusal::new(reason, suggestion(option, names.iter().copied())))
        }
    }
}

/// Refuses a swept option that the command line `given` has a value for, too, unless the command
/// requires one.
fn check_alone(option: &str, given: &[OsString]) -> Result<(), Refusal> {
    let is_option = |word: &OsString| {
        let word = word.to_string_lossy();
        word.strip_prefix("--").is_some_and(|word| word.split('=').next() == Some(option))
    };
    let command = Point::command();
    let mut optional = command.get_arguments().filter(|arg| !arg.is_required_set());
    if optional.any(|arg| arg.get_long() == Some(option)) && given.iter().any(is_option) {
        let reason = format!("`{option}` has values here and another by `--{option}`");
        return Err(Refusal::new(reason, "leave out one"));
    }
    Ok(())
}

impl Prepared {
    fn read(
        given: &[OsString],
        at: &[(String, String)],
        content: &str,
    ) -> Result<Self, InputError> {
        let swept = at.iter().map(|(option, value)| format!("--{option}={}", unquoted(value)));
        let line = std::iter::once("replay".into())
            .chain(given.iter().cloned())
            .chain(swept.map(OsString::from));
        let place = || {
            let values: Vec<String> = at.iter().map(|(o, value)| format!("{o}={value}")).collect();
            format!("--sweep {}", values.join(" "))
        };
        let args = Point::try_parse_from(line).map_err(|error| {
            let text = error.to_string();
            let reason = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            InputError::new(place(), reason)
        })?;
        let args = args.args;
        let systems =
            args.memory.systems().map_err(|error| InputError { source_name: place(), ..error })?;
        let caches =
            args.caches.chosen().map_err(|error| InputError { source_name: place(), ..error })?;
        let read_as = (args.format.map(Format::name), format!("{caches:?}"));
        let key = key(at, &(&systems, args.plan(), args.wrap, read_as, content));
        Ok(Self { args, systems, key })
    }

    /// Serves the trace. Returns where it is cut, too.
    fn replay(&self) -> Result<(Simulated, Option<Truncation>), Failure> {
        let Self { args, systems, .. } = self;
        let trace = args.caches.apply(Trace::open(&args.trace, args.format)?)?;
        let mut watches: Vec<_> = systems.iter().map(|(_, config)| Watch::new(config)).collect();
        let beyond = if args.wrap { Beyond::Wrap } else { Beyond::Refuse };
        let mut requests = Requests::new(trace, Space::of(systems), beyond);
        let all = Watches { each: &mut watches, timeline: None };
        let driven = drive_all(systems, args.plan(), &mut requests, all)?;
        let (report, _) = measured(systems, &driven, &watches, 1.0);
        let trace = requests.finish();
        let replayed = Replayed::new(systems, &trace, args.mode, &report);
        let truncation = trace.trace().truncation();
        let truncated = truncation.is_some_and(|found| found.loss != Loss::None);
        let rows = rows(systems, &report, truncated);
        Ok((Simulated::new(rows, &without_host(&replayed)), truncation))
    }
}

/// Returns a value without the quotes that kept its commas together.
fn unquoted(value: &str) -> &str {
    let inside = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.unwrap_or(value)
}

/// Returns the result without the times of this host, which differ from run to run.
fn without_host(replayed: &Replayed<'_>) -> serde_json::Value {
    let mut value = serde_json::to_value(replayed).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| !["cpu_s", "requests_per_cpu_s"].contains(&name.as_str()));
    }
    value
}

/// Returns the row of all memories together, and of each where there are several.
fn rows(systems: &[(PhysAddr, MemoryConfig)], report: &Report, truncated: bool) -> Vec<Vec<Cell>> {
    let clock_ps = systems[0].1.spec().clock.0;
    let row = |memory: &str, served: &Served| {
        cells(&fields(), &Row { memory, clock_ps, served, truncated })
    };
    let parts = report.parts.iter().map(|part| row(&part.memory, &part.served));
    std::iter::once(row("all", &report.served)).chain(parts).collect()
}

impl Simulation for ReplaySweep<'_> {
    fn command(&self) -> &'static str {
        "dram replay"
    }

    fn grid(&self) -> &Grid {
        &self.grid
    }

    fn keys(&self) -> Vec<String> {
        self.points.iter().map(|point| point.key.clone()).collect()
    }

    fn columns(&self) -> Vec<Column> {
        columns(&fields())
    }

    /// A replay runs on one thread to its end.
    fn simulate(
        &self,
        point: usize,
        _: NonZeroUsize,
        _: &Stop,
    ) -> Result<Option<Simulated>, InputError> {
        let replayed = self.points[point].replay().map_err(|failure| match failure {
            Failure::Input(error) => error,
            other => InputError::new("dram replay", other.to_string()),
        });
        let (simulated, truncation) = replayed?;
        if let Some(truncation) = truncation {
            self.truncation.get_or_init(|| truncation);
        }
        Ok(Some(simulated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_change_no_result_cannot_be_swept() {
        for option in ["mode", "scheduler", "page", "queue", "map"] {
            assert!(check(option).is_ok(), "{option}");
        }
        for option in ["threads", "json", "wrap", "modes"] {
            assert!(check(option).is_err(), "{option}");
        }
        assert!(check("modes").is_err_and(|r| r.help.is_some_and(|help| help.contains("`mode`"))));
    }

    #[test]
    fn a_swept_option_is_not_given_beside_the_sweep() {
        let given = ["replay", "t.mwt", "--memory=hbm2", "--page", "open", "--mode=sat"];
        let given = given.map(OsString::from);
        assert!(check_alone("page", &given).unwrap_err().reason.contains("another by `--page`"));
        assert!(check_alone("mode", &given).is_err());
        assert!(check_alone("queue", &given).is_ok());
        assert!(check_alone("memory", &given).is_ok(), "it is required");
    }

    #[test]
    fn quotes_keep_commas_together() {
        assert_eq!([unquoted("\"16,32\""), unquoted("32"), unquoted("\"")], ["16,32", "32", "\""]);
    }

    #[test]
    fn the_last_value_of_an_option_counts() {
        let line = ["replay", "t.mwt", "--memory=ddr4-2400", "--mode=sat", "--mode", "mlp:4"];
        let point = Point::try_parse_from(line).expect("a point's options stand beside the others");
        assert_eq!(point.args.mode.to_string(), "mlp:4");
    }
}
