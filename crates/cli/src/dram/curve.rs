//! `memweir dram curve`: what a memory carries, and how long reads take meanwhile.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use memweir_core::input::{InputError, Refusal};
use memweir_dram::MemoryConfig;
use memweir_dram::curve::{Curve, Fit, Line, Pattern, Plan, Task};
use serde::Serialize;

use super::memory::MemoryArgs;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::plot::{Chart, Figure, PALETTE, Panel, Series, Style};
use crate::render::progress::Counter;
use crate::render::text::{Align, percent, rate, table};
use crate::value::refused;

/// Options of `memweir dram curve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    memory: MemoryArgs,
    /// Shares of reads in percent
    #[arg(long, value_name = "LIST", default_value = "0,25,50,75,100", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
    read_shares: Vec<u8>,
    /// How addresses follow each other: streaming, mixed, random
    #[arg(
        long,
        value_name = "LIST",
        default_value = "streaming,mixed,random",
        value_delimiter = ','
    )]
    #[arg(value_parser = pattern)]
    patterns: Vec<Pattern>,
    /// The pattern of the service curve that the flow model reads [default: mixed, or the first]
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    service: Option<Pattern>,
    /// Requests of each run
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    requests: u64,
    /// Of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads to run on [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Write the curve, as machine files of `memweir sim` name it: `curve = "FILE"`
    #[arg(long, value_name = "FILE.toml", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Draw latency against bandwidth
    #[arg(long, value_name = "FILE.svg", help_heading = "Output")]
    svg: Option<PathBuf>,
    /// Write everything as JSON (`-`: to standard output instead of the table)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    json: Option<PathBuf>,
}

fn pattern(text: &str) -> Result<Pattern, String> {
    text.parse().map_err(refused)
}

/// What `--json` writes.
#[derive(Serialize)]
struct Report<'a> {
    memory: &'a str,
    service: Service<'a>,
    lines: &'a [Line],
}

#[derive(Serialize)]
struct Service<'a> {
    pattern: Pattern,
    capacity: f64,
    read_cost: f64,
    write_cost: f64,
    growth: &'a [[f64; 2]],
    unloaded_read_ns: f64,
    error: f64,
}

pub(super) fn execute(args: &Args) -> Result<Outcome, Failure> {
    for path in [&args.out, &args.svg, &args.json] {
        output::writable(path.as_deref())?;
    }
    let config = args.memory.config()?;
    let plan = Plan {
        read_shares: args.read_shares.iter().map(|share| f64::from(*share) / 100.0).collect(),
        patterns: args.patterns.clone(),
        requests: args.requests,
        seed: args.seed,
        ..Plan::default()
    };
    let service = chosen(args)?;
    let threads = args.threads.unwrap_or_else(crate::sim::cores);
    let lines = measure(&plan, &config, threads).map_err(|r| r.written_in("command line"))?;
    let curve = Curve { memory: args.memory.describe(&config), lines };
    let fit = curve.fit(service).ok_or_else(|| {
        InputError::new("command line", "nothing was read, so no latency is known")
            .key("--read-shares")
            .help("at least one share above 0")
    })?;
    if let Some(path) = &args.out {
        std::fs::write(path, curve.to_toml(&fit)).map_err(|error| Failure::write(path, error))?;
    }
    if let Some(path) = &args.svg {
        figure(&curve).write(path)?;
    }
    if let Some(path) = &args.json {
        output::json(path, &report(&curve, &fit))?;
    }
    if !output::is_stdout(args.json.as_deref()) {
        output::print(&text(&curve, &fit))?;
    }
    Ok(Outcome::Success)
}

/// The pattern of the service curve, which must be one of those that are measured.
fn chosen(args: &Args) -> Result<Pattern, InputError> {
    match args.service {
        Some(service) if args.patterns.contains(&service) => Ok(service),
        Some(service) => {
            Err(InputError::new("command line", format!("`{service}` is not measured"))
                .key("--service")
                .help("name it among `--patterns` too"))
        }
        None if args.patterns.contains(&Pattern::Mixed) => Ok(Pattern::Mixed),
        None => Ok(args.patterns[0]),
    }
}

/// Measures all lines on `threads` threads; the result does not depend on their number.
fn measure(
    plan: &Plan,
    config: &MemoryConfig,
    threads: NonZeroUsize,
) -> Result<Vec<Line>, Refusal> {
    let tasks: Vec<Task> = plan.tasks();
    let counter = Counter::new("lines", tasks.len() as u64);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Result<Line, Refusal>>>> = Mutex::new(vec![None; tasks.len()]);
    std::thread::scope(|scope| {
        for _ in 0..threads.get().min(tasks.len()) {
            scope.spawn(|| {
                while let Some((index, task)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    tasks.get(index).map(|task| (index, *task))
                } {
                    let line = plan.measure(config, task);
                    if let Ok(mut done) = done.lock() {
                        done[index] = Some(line);
                    }
                    counter.one_more();
                }
            });
        }
    });
    counter.finish();
    let done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.into_iter().flatten().collect()
}

fn report<'a>(curve: &'a Curve, fit: &'a Fit) -> Report<'a> {
    Report {
        memory: &curve.memory,
        service: Service {
            pattern: fit.pattern,
            capacity: fit.capacity.0,
            read_cost: 1.0,
            write_cost: fit.write_cost,
            growth: &fit.growth,
            unloaded_read_ns: fit.unloaded_ns,
            error: fit.error,
        },
        lines: &curve.lines,
    }
}

/// Each line in a row, then the service curve.
fn text(curve: &Curve, fit: &Fit) -> String {
    let columns = [
        ("pattern", Align::Left),
        ("reads", Align::Right),
        ("saturated", Align::Right),
        ("unloaded ns", Align::Right),
        ("at 50 %", Align::Right),
        ("at 80 %", Align::Right),
        ("at 95 %", Align::Right),
    ];
    let row = |line: &Line| {
        let at = |load: f64| {
            let point = line.points.iter().min_by(|a, b| {
                let far =
                    |p: &memweir_dram::curve::Point| (p.offered.0 / line.saturated.0 - load).abs();
                far(a).total_cmp(&far(b))
            });
            let latency = point.and_then(|point| point.latency_ns);
            latency.map_or("-".to_owned(), |latency| format!("{latency:.1}"))
        };
        vec![
            line.pattern.to_string(),
            percent(line.read_share),
            rate(line.saturated.0),
            at(0.0),
            at(0.5),
            at(0.8),
            at(0.95),
        ]
    };
    format!(
        "{}\n\n{}\n\nservice curve ({}): capacity {}, a line written costs {:.2} lines read, \
         {:.1} ns unloaded; the costs meet the saturated bandwidths within {}\n",
        curve.memory,
        table(&columns, curve.lines.iter().map(row).collect()),
        fit.pattern,
        rate(fit.capacity.0),
        fit.write_cost,
        fit.unloaded_ns,
        percent(fit.error)
    )
}

/// A panel for each pattern, a line for each share of reads.
fn figure(curve: &Curve) -> Figure {
    let mut panels = Vec::new();
    for (name, pattern) in Pattern::ALL {
        let lines: Vec<&Line> = curve.lines.iter().filter(|line| line.pattern == pattern).collect();
        let series = lines.iter().enumerate().map(|(index, line)| Series {
            name: format!("{:.0} % reads", line.read_share * 100.0),
            points: line
                .points
                .iter()
                .filter_map(|point| Some((point.bandwidth.0 / 1e9, point.latency_ns?)))
                .collect(),
            style: Style::Line,
            color: PALETTE[index % PALETTE.len()],
        });
        let series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
        if !series.is_empty() {
            panels.push(Panel::Chart(Chart {
                title: name.to_owned(),
                x_label: "bandwidth (GB/s)".to_owned(),
                y_label: "read latency (ns)".to_owned(),
                series,
                ..Chart::default()
            }));
        }
    }
    Figure { title: "Latency against bandwidth".to_owned(), subtitle: curve.memory.clone(), panels }
}
