//! `memweir dram curve`: the bandwidth of a memory, and the latency of reads at it.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use memweir_core::PhysAddr;
use memweir_core::input::{InputError, Refusal};
use memweir_core::names::Named;
use memweir_dram::MemoryConfig;
use memweir_dram::curve::{Curve, Fit, Growth, Line, Pattern, Plan, Point, Site};
use memweir_study::parallel;
use serde::Serialize;

use super::memory::{self, MemoryArgs};
use crate::failure::{Failure, Outcome, refusal_of};
use crate::output;
use crate::render::plot::{Chart, Figure};
use crate::render::progress::Counter;
use crate::render::text::{Table, known, percent, rate};
use crate::value::{available_cores, parsed};

/// Options of `memweir dram curve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    memory: MemoryArgs,
    /// Shares of reads in percent
    #[arg(long, value_name = "LIST", default_value = "0,25,50,75,100", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
    read_shares: Vec<u8>,
    /// Order of addresses: streaming, mixed, random
    #[arg(
        long,
        value_name = "LIST",
        default_value = "streaming,mixed,random",
        value_delimiter = ','
    )]
    #[arg(value_parser = parsed::<Pattern>)]
    patterns: Vec<Pattern>,
    /// The pattern of the service curve that the flow model reads [default: mixed, or the first]
    #[arg(long, value_name = "PATTERN", value_parser = parsed::<Pattern>, conflicts_with = "nvm")]
    service: Option<Pattern>,
    /// Share of the requests that goes to the second memory, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 50, requires = "nvm")]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=100), help_heading = "Second memory")]
    nvm_share: u8,
    /// Requests of each run
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    requests: u64,
    /// Of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = crate::value::seed)]
    seed: u64,
    /// Threads to run on [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Write the curve, as machine files of `memweir sim` name it: `curve = "FILE"`
    #[arg(long, value_name = "FILE.toml", help_heading = "Output")]
    #[arg(value_parser = crate::value::toml)]
    out: Option<PathBuf>,
    /// Draw latency against bandwidth
    #[arg(long, value_name = "FILE.svg", value_parser = crate::value::svg, help_heading = "Output")]
    svg: Option<PathBuf>,
    /// Write everything as JSON (`-`: to standard output instead of the table)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    json: Option<PathBuf>,
}

/// Output of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    memory: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<Service<'a>>,
    lines: &'a [Line],
}

#[derive(Serialize)]
struct Service<'a> {
    pattern: Pattern,
    capacity: f64,
    read_cost: f64,
    write_cost: f64,
    growth: &'a [Growth],
    unloaded_read_ns: f64,
    error: f64,
}

pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::check([&args.out, &args.svg, &args.json], [])?;
    let systems = args.memory.systems()?;
    if let (Some(_), [_, _, ..]) = (&args.out, systems.as_slice()) {
        let help = "measure each by itself: without `--nvm`, and with the second as `--memory`";
        return Err(refusal_of("--out", "a service curve is that of one memory").help(help).into());
    }
    let plan = Plan {
        read_shares: args.read_shares.iter().map(|share| f64::from(*share) / 100.0).collect(),
        patterns: args.patterns.clone(),
        requests: args.requests,
        seed: args.seed,
        ..Plan::default()
    };
    let service = chosen(args)?;
    let threads = args.threads.unwrap_or_else(available_cores);
    let site = site(&systems, f64::from(args.nvm_share) / 100.0);
    let lines = measure(&plan, &site, threads).map_err(|r| r.written_in("command line"))?;
    let names: Vec<String> = systems.iter().map(|(_, config)| memory::describe(config)).collect();
    let curve = Curve { memory: names.join(" beside "), lines };
    let fit = match systems.as_slice() {
        [_] => Some(curve.fit(service).ok_or_else(|| {
            refusal_of("--read-shares", "nothing was read, so no latency is known")
                .help("at least one share above 0")
        })?),
        _ => None,
    };
    let fit = fit.as_ref();
    let file = args.out.as_ref().zip(fit);
    let file = file.map(|(path, fit)| output::file(path, &curve.to_toml(fit)));
    let figure = args.svg.as_ref().map(|path| output::figure(path, &figure(&curve)));
    let shown = output::report(args.json.as_deref(), &report(&curve, fit), || text(&curve, fit));
    output::each([file, figure, Some(shown)].into_iter().flatten())?;
    Ok(Outcome::Success)
}

/// One memory, or two of which the second gets this share of the requests.
fn site(systems: &[(PhysAddr, MemoryConfig)], share: f64) -> Site {
    let (first, others) = systems.split_first().expect("there is a first memory");
    let beside = |site: Site, (from, config): &(PhysAddr, MemoryConfig)| {
        site.beside(*from, config.clone(), share)
    };
    others.iter().fold(Site::of(first.1.clone()), beside)
}

/// The pattern of the service curve, which must be one of those that are measured.
fn chosen(args: &Args) -> Result<Pattern, InputError> {
    match args.service {
        Some(service) if args.patterns.contains(&service) => Ok(service),
        Some(service) => Err(refusal_of("--service", format!("`{service}` is not measured"))
            .help("name it among `--patterns` too")),
        None if args.patterns.contains(&Pattern::Mixed) => Ok(Pattern::Mixed),
        None => Ok(args.patterns[0]),
    }
}

/// Measures all lines on `threads` threads; the result does not depend on their number.
fn measure(plan: &Plan, site: &Site, threads: NonZeroUsize) -> Result<Vec<Line>, Refusal> {
    let tasks = plan.tasks();
    let counter = Counter::new("lines", tasks.len() as u64);
    let lines = parallel::map(&tasks, threads, |task| {
        let line = plan.measure_on(site, *task);
        counter.one_more();
        line
    });
    counter.finish();
    lines.into_iter().collect()
}

fn report<'a>(curve: &'a Curve, fit: Option<&'a Fit>) -> Report<'a> {
    Report {
        memory: &curve.memory,
        service: fit.map(|fit| Service {
            pattern: fit.pattern,
            capacity: fit.capacity.0,
            read_cost: 1.0,
            write_cost: fit.write_cost,
            growth: &fit.growth,
            unloaded_read_ns: fit.unloaded_ns,
            error: fit.error,
        }),
        lines: &curve.lines,
    }
}

/// Each line in a row, then the service curve if it is of one memory.
fn text(curve: &Curve, fit: Option<&Fit>) -> String {
    let at = |load: f64| {
        move |line: &&Line| {
            let point = line.points.iter().min_by(|a, b| {
                let far = |p: &Point| (p.offered.0 / line.saturated.0 - load).abs();
                far(a).total_cmp(&far(b))
            });
            point.map_or_else(String::new, latencies)
        }
    };
    let waits = |programs: u32| {
        move |line: &&Line| {
            let seen = line.waiting.iter().find(|seen| seen.programs == programs);
            known(seen.map(|seen| seen.wait_ns), |ns| format!("{ns:.1}"))
        }
    };
    let lines = Table::of(&curve.lines)
        .left("pattern", |line| line.pattern)
        .right("reads", |line| percent(line.read_share))
        .right("saturated", |line| rate(line.saturated.0))
        .right("unloaded ns", at(0.0))
        .right("at 50 %", at(0.5))
        .right("at 80 %", at(0.8))
        .right("at 95 %", at(0.95))
        .right("one waits", waits(1))
        .right("16 wait", waits(16));
    let service = match fit {
        None => "latencies of the first / the second memory".to_owned(),
        Some(fit) => format!(
            "service curve ({}): capacity {}, a line written costs {:.2} lines read, \
             a program that waits alone for each read waits {:.1} ns for it; the costs match the \
             saturated bandwidths within {}",
            fit.pattern,
            rate(fit.capacity.0),
            fit.write_cost,
            fit.unloaded_ns,
            percent(fit.error)
        ),
    };
    format!("{}\n\n{lines}\n\n{service}\n", curve.memory)
}

/// The mean latencies of a point in nanoseconds: of each memory, if there are several.
fn latencies(point: &Point) -> String {
    let shown = |latency| known(latency, |ns: f64| format!("{ns:.1}"));
    match point.parts.as_slice() {
        [] => shown(point.latency_ns),
        parts => {
            let parts = parts.iter().map(|part| shown(part.latency_ns));
            parts.collect::<Vec<_>>().join(" / ")
        }
    }
}

/// A panel for each pattern, a line for each share of reads.
fn figure(curve: &Curve) -> Figure {
    let mut panels = Vec::new();
    for pattern in Pattern::ALL {
        let lines = curve.lines.iter().filter(|line| line.pattern == *pattern);
        let mut chart = Chart {
            title: pattern.to_string(),
            x_label: "bandwidth (GB/s)".to_owned(),
            y_label: "read latency (ns)".to_owned(),
            ..Chart::lines(lines.map(|line| {
                let points = line.points.iter();
                let points =
                    points.filter_map(|point| Some((point.bandwidth.0 / 1e9, point.latency_ns?)));
                (format!("{:.0} % reads", line.read_share * 100.0), points.collect())
            }))
        };
        chart.series.retain(|series| !series.points.is_empty());
        if !chart.series.is_empty() {
            panels.push(chart.into());
        }
    }
    Figure { title: "Latency against bandwidth".to_owned(), subtitle: curve.memory.clone(), panels }
}
