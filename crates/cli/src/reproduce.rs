//! `memweir reproduce`: repeats the figures of a paper in simulation, beside its values; and
//! compares all policies on the mixes of all papers.

mod shards;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use clap::builder::PossibleValue;
use indicatif::ProgressBar;
use memweir_reproduce::html;
use memweir_reproduce::report::Results;
use memweir_reproduce::score::Agreement;
use memweir_reproduce::source::Value;
use memweir_reproduce::{
    Comparison, Effort, Failed, Observer, Options, PaperName, Report, Stop, reproduce,
};
use memweir_run::files::{check_writable, write_atomically};

use crate::failure::{Failure, Outcome};
use crate::output::{self, Provenance};
use crate::render::progress;
use crate::render::text::{Table, known, shortened};
use crate::shared::shards::Shards;
use crate::value::available_cores;

/// Options of `memweir reproduce`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The paper, or `beyond` for all policies on all mixes
    #[arg(value_enum)]
    paper: Paper,
    /// Only these figures, as `9`, `1b`, `table1` [default: all that can be simulated]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    figure: Vec<String>,
    /// Where report.html and results.json go [default: reproduce-PAPER]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run a subset with fewer repetitions; the report says what that costs in precision
    #[arg(long)]
    quick: bool,
    /// Threads to compute on [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// List the figures instead
    #[arg(long, conflicts_with_all = ["figure", "out", "quick", "threads", "Shards"])]
    list: bool,
    #[command(flatten)]
    shards: Shards,
}

/// A paper, as the command line names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paper(PaperName);

impl clap::ValueEnum for Paper {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self(PaperName::Iabw),
            Self(PaperName::Hmmsched),
            Self(PaperName::Bpm),
            Self(PaperName::Drswap),
            Self(PaperName::Beyond),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            PaperName::Iabw => "Xu, Wu, Yew: scheduling to the ideal average bandwidth, PACT 2010",
            PaperName::Hmmsched => "Hwang, Park: scheduling on hybrid main memory",
            PaperName::Bpm => "Liu et al.: bank-level partitioning by page coloring, PACT 2012",
            PaperName::Beyond => "All policies on the mixes of all papers and on memweir's own",
            PaperName::Drswap => "Zhong et al.: in-memory paging with direct read, TCAD 2016",
        };
        Some(PossibleValue::new(self.0.name()).help(help))
    }
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Input(input) => Self::Input(input),
            other => Self::Machine(other.to_string()),
        }
    }
}

/// Reproduces the paper and writes the report.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let paper = args.paper.0;
    if args.list {
        let suite = paper.suite()?;
        let table = Table::of(suite.figures)
            .left("figure", |figure| figure.id.clone())
            .left("what it shows", |figure| figure.title.clone());
        output::print(&format!("{table}\n"))?;
        return Ok(Outcome::Success);
    }
    if args.shards.is_wanted() {
        return shards::execute(args);
    }
    let directory =
        args.out.clone().unwrap_or_else(|| PathBuf::from(format!("reproduce-{}", paper.name())));
    let options = Options {
        effort: if args.quick { Effort::Quick } else { Effort::Full },
        figures: args.figure.clone(),
        threads: args.threads.map_or_else(|| available_cores().get(), usize::from),
    };
    let desk = Desk::new(directory);
    let report = reproduce(paper, &options, &desk);
    desk.bar.finish_and_clear();
    if let Some(failure) = desk.failure.into_inner().unwrap_or_default() {
        return Err(failure);
    }
    let report = report?;
    output::print(&format!(
        "{}\n\n{}\nwritten to {}\n",
        report.score(),
        text(&report),
        desk.directory.join(REPORT).display()
    ))?;
    Ok(Outcome::Success)
}

/// The report's file.
const REPORT: &str = "report.html";
/// The comparisons' file.
const RESULTS: &str = "results.json";

/// Shows progress on a terminal, and writes the report so far after every figure.
struct Desk {
    directory: PathBuf,
    bar: ProgressBar,
    failure: Mutex<Option<Failure>>,
}

impl Desk {
    fn new(directory: PathBuf) -> Self {
        let bar = progress::bar(Some(1), "{wide_bar} {percent:>3} % {msg}, about {eta} left");
        if std::io::stderr().is_terminal() {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Self { directory, bar, failure: Mutex::new(None) }
    }

    fn write(&self, report: &Report) -> Result<(), Failure> {
        let write = |name: &str, text: &str| {
            let path: &Path = &self.directory.join(name);
            write_atomically(path, text.as_bytes()).map_err(|error| Failure::write(path, error))
        };
        write(REPORT, &html::page(report)?)?;
        let memweir = serde_json::to_value(Provenance::of_this_run()).unwrap_or_default();
        write(RESULTS, &Results { memweir, ..report.results() }.json())
    }

    /// Keeps the failure, and stops the reproduction if there is one.
    fn stopping(&self, result: Result<(), Failure>) -> Result<(), Stop> {
        result.map_err(|failure| {
            if let Ok(mut kept) = self.failure.lock() {
                *kept = Some(failure);
            }
            Stop
        })
    }
}

impl Observer for Desk {
    fn starting(&self) -> Result<(), Stop> {
        let writable = [REPORT, RESULTS].iter().try_for_each(|name| {
            let path = self.directory.join(name);
            check_writable(&path).map_err(|error| Failure::write(&path, error))
        });
        self.stopping(writable)
    }

    fn advanced(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    fn began(&self, figure: &str) {
        self.bar.set_message(html::label(figure));
    }

    fn finished(&self, report: &Report) -> Result<(), Stop> {
        self.stopping(self.write(report))
    }
}

/// The comparisons as a table.
fn text(report: &Report) -> Table<&Comparison> {
    let heading = report.paper.source.heading().to_lowercase();
    let ratio = format!("here / {heading}");
    Table::of(report.comparisons())
        .left("figure", |line| &*line.figure)
        .left("quantity", |line| &*line.quantity)
        .right(heading, |line| match &line.paper {
            Value::Number(value) => html::number(*value),
            Value::Words(words) => shortened(words, 28),
        })
        .right("here", |line| known(line.ours, html::number))
        .left("unit", |line| &*line.unit)
        .right(ratio, |line| line.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")))
        .left("kind", |line| line.kind.name())
        .left("verdict", |line| match line.verdict {
            Some(Agreement::Agrees) => "agrees",
            Some(Agreement::SignAlone) => "sign alone",
            Some(Agreement::Differs) => "differs",
            Some(Agreement::NoEvidence) => "matches",
            None => "",
        })
}
