//! `memweir color plan`: assigns colors to jobs.

use std::path::PathBuf;

use memweir_core::address_map::{BASE_PAGE_BITS, ColorSet};
use memweir_core::cache::CacheGeometry;
use memweir_linux::tell;
use memweir_policy::colors::{ASSIGNMENTS, CacheUse, ColorAssignment, ProgramTraits, Supply};
use memweir_run::batch::Knowledge;
use memweir_run::colors;
use memweir_run::jobs::JobsFile;
use memweir_run::platform::Machine;
use memweir_run::store::Store;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::text::{Table, counted, rate};
use crate::shared::map;
use crate::value::{cache, named, refused};

/// Options of `memweir color plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = policies())]
pub(crate) struct Args {
    /// A jobs file; jobs that have `colors` in it keep them
    #[arg(value_name = "JOBS.toml")]
    jobs: PathBuf,
    /// The machine's address map
    #[arg(long, value_name = "FILE")]
    map: PathBuf,
    /// Policy that assigns colors
    #[arg(long, value_name = "NAME", default_value = "uniform")]
    #[arg(value_parser = |name: &str| ColorAssignment::named(name).map_err(refused))]
    policy: ColorAssignment,
    /// The last-level cache, whose parts bank colors may choose too
    #[arg(long, value_name = "SIZE:WAYS", value_parser = cache)]
    cache: Option<CacheGeometry>,
    /// Use of the cache: `keep` (each job in all of it) or `balance` (divided as the banks)
    #[arg(long, value_name = "USE", default_value = "keep", requires = "cache")]
    #[arg(value_parser = named::<CacheUse>(), hide_possible_values = true)]
    cache_use: CacheUse,
    /// The profile store, instead of the one in the XDG data directory
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Write the plan as JSON (`-`: to standard output instead of the table)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

fn policies() -> String {
    let lines: Vec<String> =
        ASSIGNMENTS.iter().map(|entry| format!("  {:<10} {}", entry.name, entry.summary)).collect();
    format!("Policies:\n{}", lines.join("\n"))
}

/// Plans the colors.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::check([&args.json], [&*args.map, &*args.jobs])?;
    let map = map::read(&args.map)?;
    let file = JobsFile::read(&args.jobs, Machine::here().cores)?;
    let store = Store::read(args.store.as_deref())?;
    let knowledge = Knowledge::of_batch(&file.batch, Some(&store))?;
    let supply = Supply::of_map(&map, BASE_PAGE_BITS, args.cache.as_ref());
    let sets = colors::plan(&file.batch, &knowledge, args.policy, &supply, args.cache_use)
        .map_err(|refusal| refusal.written_in(&args.jobs.display().to_string()))?;
    for notice in &knowledge.notices {
        tell!("{notice}");
    }
    let names = file.batch.jobs.iter().map(|job| job.name.as_str());
    let jobs: Vec<Planned> = names
        .zip(colors::traits(&file.batch, &knowledge))
        .zip(&sets)
        .map(|((name, traits), colors)| Planned::new(name, traits, colors, &supply))
        .collect();
    let plan = Plan {
        map: &map.name,
        policy: args.policy.entry().name,
        colors: supply.colors(),
        banks_per_color: supply.banks_per_color(),
        jobs: &jobs,
    };
    output::report(args.json.as_deref(), &plan, || render(&map.name, &supply, &jobs))?;
    Ok(Outcome::Success)
}

/// A plan in JSON.
#[derive(Debug, Serialize)]
struct Plan<'a> {
    map: &'a str,
    policy: &'a str,
    colors: u32,
    banks_per_color: u32,
    jobs: &'a [Planned<'a>],
}

/// Colors of one job, and the traits that decide them.
#[derive(Debug, Serialize)]
struct Planned<'a> {
    name: &'a str,
    colors: String,
    banks: u32,
    mpki: Option<f64>,
    bandwidth: Option<f64>,
    demanded_banks: u32,
}

impl<'a> Planned<'a> {
    fn new(name: &'a str, traits: ProgramTraits, colors: &ColorSet, supply: &Supply) -> Self {
        Self {
            name,
            colors: colors.to_string(),
            banks: colors.len() as u32 * supply.banks_per_color(),
            mpki: traits.mpki,
            bandwidth: traits.bandwidth.map(|rate| rate.0),
            demanded_banks: traits.banks(),
        }
    }
}

fn render(map: &str, supply: &Supply, jobs: &[Planned<'_>]) -> String {
    let known = |value: Option<String>| value.unwrap_or_else(|| "?".to_owned());
    let table = Table::of(jobs)
        .left("job", |job| job.name)
        .right("MPKI", |job| known(job.mpki.map(|mpki| format!("{mpki:.1}"))))
        .right("bandwidth", |job| known(job.bandwidth.map(rate)))
        .right("banks demanded", |job| job.demanded_banks)
        .right("banks", |job| job.banks)
        .left("in the jobs file", |job| format!("colors = \"{}\"", job.colors));
    let colors = counted(supply.colors().into(), "color");
    let banks = counted(supply.banks_per_color().into(), "bank");
    format!("{map}: {colors} of {banks} each\n\n{table}\n")
}
