//! `memweir page sim`: applications in turn on DRAM and a swap area, simulated.

mod figure;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use memweir_core::Stop;
use memweir_core::input::Replacement;
use memweir_policy::paging::VICTIM_POLICIES;
use memweir_study::ScenarioText;
use memweir_study::swap::EXAMPLE;
use memweir_study::swap::study::PageStudy;
use memweir_study::sweep::Sweep;
use memweir_swap::area::{SWAPS, SwapKind};
use memweir_swap::phone::{ALL, Phone};
use memweir_sweep::plan::Origin;
use memweir_sweep::simulation::swap as results;

use crate::failure::{EXIT_CODES, Failure, Outcome};
use crate::output;
use crate::render::page as render;
use crate::render::progress::Counter;
use crate::shared::help::Names;
use crate::shared::rows::Rows;
use crate::shared::scenario::{grid, replacement};
use crate::shared::shards::{Output, Shards};
use crate::value::{available_cores, parsed};

const USAGE: &str = "memweir page sim [OPTIONS] SCENARIO.toml
       memweir page sim --example > scenario.toml
       memweir page sim --list";

const TEXT: &str = "\
A scenario names applications (models of the paper's, or recordings of real programs), DRAM, and the
swap areas to compare. Equal scenarios give equal results, whatever the number of threads.

Examples:
  memweir page sim --example > phone.toml
      a commented scenario to start from; `memweir page sim --list` has the names that it can use
  memweir page sim phone.toml
      every swap area: pages copied and read in place, processes killed, delays, block I/O, energy
  memweir page sim phone.toml --sweep swap_mib=128,256,512 --sweep group=browser,news,mix1
      groups of applications on swap areas of three sizes, on all cores
  memweir page sim phone.toml --sweep assumed.written_pages=0..1:0.25 --svg shares.svg --out shares.csv
      how much of the gain depends on the share of pages that are written
  memweir profile --meter software --addresses p.mwt -- python3 work.py
  memweir page refs p.mwt python3.mwt
      a real program as an application: `[[apps]]` with `trace = \"python3.mwt\"`
";

/// Options of `memweir page sim`.
#[derive(Debug, clap::Args)]
#[command(override_usage = USAGE, after_long_help = format!("{TEXT}\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// The scenario: applications, memory, and the swap areas to compare
    #[arg(value_name = "SCENARIO.toml", required_unless_present_any = ["example", "list"])]
    scenario: Option<PathBuf>,
    /// Print a commented scenario to start from
    #[arg(long, conflicts_with_all = ["scenario", "list"])]
    example: bool,
    /// List the swap areas, victim policies, groups and applications that a scenario can name
    #[arg(long, conflicts_with = "scenario")]
    list: bool,
    /// Put a value in the place of the scenario's own, for example `dram_mib=256`
    #[arg(long, value_name = "KEY=VALUE", value_parser = replacement)]
    set: Vec<Replacement>,
    /// Run at each of these values: `KEY=A,B,C` or `KEY=FROM..TO:STEP`; several make a grid
    #[arg(long, value_name = "KEY=VALUES", value_parser = parsed::<Sweep>)]
    sweep: Vec<Sweep>,
    /// Threads to run on [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    shards: Shards,
    /// Write everything as JSON (`-`: to standard output instead of the table)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write one row per run, as Parquet or CSV by the ending; with `--shard` or `--resume` the
    /// directory of the sweep
    #[arg(long, value_name = "FILE|DIR")]
    out: Option<PathBuf>,
    /// Draw pages, delays and energy of each swap area; of a sweep, a line per swap area
    #[arg(long, value_name = "FILE.svg", value_parser = crate::value::svg)]
    svg: Option<PathBuf>,
}

impl Args {
    /// The options that a sweep in shards shares.
    fn output(&self) -> Output<'_> {
        Output {
            out: self.out.as_deref(),
            json: self.json.as_deref(),
            whole: vec![("--svg", self.svg.is_some())],
            threads: self.threads,
        }
    }
}

/// Simulates the scenario and shows the results.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    match &args.scenario {
        Some(path) => return simulate(args, path),
        None if args.example => output::print(EXAMPLE)?,
        None => {
            let names = names();
            output::report(args.json.as_deref(), &names, || names.text())?;
        }
    }
    Ok(Outcome::Success)
}

fn simulate(args: &Args, path: &Path) -> Result<Outcome, Failure> {
    args.shards.check(&args.output())?;
    let grid = grid(&args.sweep, &args.set)?;
    let text = ScenarioText::read(path)?;
    if args.shards.is_wanted() {
        let read = |grid| Ok(PageStudy::read(&text, &args.set, grid)?);
        return args.shards.execute(&grid, read, &Origin::of(&text, &args.set), &args.output());
    }
    output::check([&args.json, &args.svg, &args.out], [path])?;
    let study = PageStudy::read(&text, &args.set, grid)?;
    let mut rows = Rows::create(args.out.as_deref(), &study)?;
    let counter = Counter::new("runs", study.runs() as u64);
    let threads = args.threads.unwrap_or_else(available_cores);
    let report = study.run(&Stop::default(), threads, |finished| {
        rows.append(finished.point, results::row(finished.swap, finished.repetition, finished.run));
        counter.one_more();
    });
    counter.finish();
    let report = report?;
    let table = rows.finish(report.points.iter().map(results::rows));
    let shown = output::report(args.json.as_deref(), &report, || render::report(&report));
    let drawn = |path| output::figure(path, &figure::of(&report, study.grid()));
    let figure = args.svg.as_deref().map_or(Ok(()), drawn);
    output::each([table, shown, figure])?;
    Ok(Outcome::Success)
}

fn names() -> Names {
    let swaps = SWAPS.map(|(name, about)| {
        let kind = SwapKind::parse(name, about);
        (name, kind.map_or_else(|error| error.to_string(), |kind| kind.source))
    });
    let policies = VICTIM_POLICIES.iter().map(|entry| (entry.name, entry.summary));
    let phone = Phone::shipped();
    let apps =
        phone.apps().map(|app| (&app.name, format!("{} MB (drswap Table III)", app.size_mb)));
    Names::default()
        .with("swaps", "Swap areas", "swaps = [\"NAME\", ...]", swaps)
        .with("victim_policies", "Victim policies", "policy = \"NAME\"", policies)
        .with("groups", "Groups", "group = \"NAME\"", groups())
        .with("apps", "Applications", "apps[].app = \"NAME\"", apps)
}

fn groups() -> Vec<(String, String)> {
    let phone = Phone::shipped();
    let row = |(name, title): (&str, &str)| {
        let apps = phone.group(name).unwrap_or_default();
        let names: Vec<&str> = apps.iter().map(|app| app.name.as_str()).collect();
        (name.to_owned(), format!("{title}: {}", names.join(", ")))
    };
    let all = (ALL.to_owned(), "every application below".to_owned());
    phone.groups().map(row).chain([all]).collect()
}
