//! Mixes of a scenario: random batches as in both papers, optionally with a given ideal average
//! bandwidth, and counterparts of the papers' own mixes.

use std::sync::Arc;

use memweir_core::Nanos;
use memweir_core::input::{InputError, Refusal, Section, Value};
use memweir_core::names::Named;
use memweir_flow::hardware::Hardware;
use memweir_flow::task::{Placement, Task};
use memweir_flow::workload::catalog::{Catalog, Entry, Suite};
use memweir_flow::workload::mix::hmmsched;
use memweir_flow::workload::mix::iabw::{TABLE_1, TOLERANCE, Workload};
use memweir_flow::workload::mix::{Ingredient, Recipe, Wanted, Weight, draw};

use super::tasks::seconds;
use crate::text::range;

/// Keys of a mix that is drawn.
const DRAWN_KEYS: [&str; 8] =
    ["programs", "jobs", "instances", "work_s", "once", "iabw", "tolerance", "seed"];
/// Keys of a mix of the papers.
const PAPER_KEYS: [&str; 5] = ["paper", "work_s", "dram_share", "samples", "seed"];

/// Maximum number of jobs in a mix.
const MOST_JOBS: u32 = 10_000;

/// A mix to draw.
#[derive(Clone, Debug)]
pub struct MixSpec {
    kind: Kind,
    /// The seed, if the file gives one; otherwise each repetition draws another mix.
    seed: Option<u64>,
    /// A key by which the file says where pages are, if it has one.
    placed_by: Option<&'static str>,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Random programs of a pool.
    Drawn { pool: Vec<Arc<Entry>>, recipe: Recipe },
    /// A counterpart of a workload of iabw Table 1.
    Table1 { workload: Workload, pool: Vec<Arc<Entry>> },
    /// A mix of hmmsched section VI.
    Hmmsched { number: usize, catalog: Arc<Catalog>, recipe: hmmsched::HmmschedRecipe },
}

/// The mixes of hmmsched by number.
const HMMSCHED: [(&str, &[&str]); 2] =
    [("hmmsched-1", &hmmsched::MIX_1), ("hmmsched-2", &hmmsched::MIX_2)];

/// Returns the names that `paper` accepts.
pub fn paper_names() -> Vec<String> {
    let hmmsched = HMMSCHED.iter().map(|(name, _)| (*name).to_owned());
    TABLE_1.iter().map(Workload::name).chain(hmmsched).collect()
}

impl MixSpec {
    /// Reads the table `mix` for a machine of which `cores` are used.
    pub(super) fn read(
        value: Value<'_>,
        catalog: &Arc<Catalog>,
        hardware: &Hardware,
        cores: u32,
    ) -> Result<Self, InputError> {
        let mut section = value.section()?;
        let placed_by = ["dram_share", "samples"].into_iter().find(|key| section.has(key));
        let kind = if section.has("paper") {
            section.only(&PAPER_KEYS)?;
            of_paper(&mut section, catalog, hardware)?
        } else {
            section.only(&DRAWN_KEYS)?;
            drawn(&mut section, catalog, cores)?
        };
        Ok(Self { kind, seed: section.map("seed", |v| v.seed())?, placed_by })
    }

    /// Returns true if a repetition may find no mix, because a pool has too few programs or none
    /// with the requested bandwidth.
    pub(super) fn may_fail(&self) -> bool {
        !matches!(self.kind, Kind::Hmmsched { .. })
    }

    /// Returns true if the mix says where pages are.
    pub(super) fn is_placed(&self) -> bool {
        matches!(self.kind, Kind::Hmmsched { .. })
    }

    /// Returns a key by which the file says where pages are, if it has one.
    pub(super) fn placed_by(&self) -> Option<&'static str> {
        self.placed_by
    }

    /// Draws the tasks of a repetition with this seed. Their pages are placed by `placement` unless
    /// the mix says where they are.
    pub(super) fn tasks(
        &self,
        hardware: &Hardware,
        cores: u32,
        placement: Placement,
        seed: u64,
    ) -> Result<Vec<Task>, Refusal> {
        let seed = self.seed.unwrap_or(seed);
        let pool = |entries: &[Arc<Entry>]| -> Vec<Ingredient> {
            entries.iter().map(|entry| Ingredient::of(entry, hardware, seed)).collect()
        };
        let mut mix = match &self.kind {
            Kind::Drawn { pool: entries, recipe } => draw("mix", &pool(entries), recipe, seed)?,
            Kind::Table1 { workload, pool: entries } => {
                workload.counterpart(&pool(entries), cores, seed)?
            }
            Kind::Hmmsched { number, catalog, recipe } => {
                let (name, applications) = HMMSCHED[*number];
                hmmsched::mix(name, applications, catalog, hardware, recipe, seed)?
            }
        };
        if !self.is_placed() {
            mix.tasks.iter_mut().for_each(|task| task.placement = placement);
        }
        Ok(mix.tasks)
    }
}

fn drawn(section: &mut Section<'_>, catalog: &Catalog, cores: u32) -> Result<Kind, InputError> {
    let pool = match section.take("programs") {
        Some(value) => programs(&value, catalog)?,
        None => suite(catalog, Suite::Cfp2006),
    };
    let work = section.map("work_s", |v| seconds(&v, 1e-3))?;
    let once = section.map("once", |v| v.boolean())?.unwrap_or(false);
    let weight = match (once, work) {
        (true, Some(_)) => {
            let help = "`once` executes each program to its end, `work_s` for so long";
            return Err(section.refuse("`once` and `work_s` exclude each other").help(help));
        }
        (true, None) => Weight::Normal,
        (false, work) => Weight::Equal(work.unwrap_or(Nanos::from_millis(120_000))),
    };
    let iabw = section.map("iabw", |v| v.capacity())?;
    let tolerance = section.map("tolerance", |v| match iabw {
        Some(_) => v.number_in(1e-4..=1.0, "tolerance"),
        None => Err(v.refuse("there is no `iabw` that it belongs to")),
    })?;
    let instances = section.map("instances", |v| v.whole_in(1..=MOST_JOBS))?;
    let wanted = iabw.map(|iabw| Wanted { iabw, tolerance: tolerance.unwrap_or(TOLERANCE) });
    let jobs = section.map("jobs", |v| range(&v, |v| v.whole_in(1..=MOST_JOBS)))?;
    let recipe = Recipe {
        cores,
        jobs: jobs.unwrap_or(2 * cores..=4 * cores),
        instances: instances.unwrap_or(if once { 1 } else { 2 }),
        weight,
        wanted,
    };
    Ok(Kind::Drawn { pool, recipe })
}

/// Reads the name of a suite, or an array of programs.
fn programs(value: &Value<'_>, catalog: &Catalog) -> Result<Vec<Arc<Entry>>, InputError> {
    if value.text().is_some() {
        let suites = Suite::ALL.iter().map(|suite| (suite.name(), Some(*suite)));
        return Ok(match value.choose("suite", suites.chain([("all", None)]))? {
            Some(of) => suite(catalog, of),
            None => catalog.iter().cloned().map(Arc::new).collect(),
        });
    }
    let elements = value.array("the name of a suite or an array of programs")?;
    if elements.is_empty() {
        return Err(value.refuse("there are no programs to draw from"));
    }
    let entry = |element: &Value<'_>| {
        element.checked(catalog.find(element.string()?)).map(|entry| Arc::new(entry.clone()))
    };
    elements.iter().map(entry).collect()
}

fn suite(catalog: &Catalog, suite: Suite) -> Vec<Arc<Entry>> {
    catalog.suite(suite).cloned().map(Arc::new).collect()
}

fn of_paper(
    section: &mut Section<'_>,
    catalog: &Arc<Catalog>,
    hardware: &Hardware,
) -> Result<Kind, InputError> {
    let value = section.require("paper")?;
    let names = paper_names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let name = value.one_of("mix", &names)?;
    let work = section.map("work_s", |v| seconds(&v, 1e-3).map(|work| (v, work)))?;
    let share = section.map("dram_share", |v| v.number_in(0.0..=1.0, "share").map(|s| (v, s)))?;
    let samples = section.map("samples", |v| v.whole_in(1..=100_000_000).map(|n| (v, n)))?;
    let Some(number) = HMMSCHED.iter().position(|(other, _)| *other == name) else {
        let others = [work.map(|(v, _)| v), share.map(|(v, _)| v), samples.map(|(v, _)| v)];
        if let Some(other) = others.into_iter().flatten().next() {
            return Err(other.refuse(format!("`{name}` has no such choice")));
        }
        let is = |workload: &&Workload| workload.name() == name;
        let Some(workload) = TABLE_1.iter().find(is).copied() else {
            return Err(value.refuse(format!("unknown mix `{name}`")));
        };
        return Ok(Kind::Table1 { workload, pool: suite(catalog, workload.set.suite()) });
    };
    if hardware.machine.memories.len() <= hmmsched::NVM {
        let reason = format!("`{}` has no second memory for it", hardware.machine.name);
        return Err(value.refuse(reason).help("hmmsched and cxl-server have one"));
    }
    let default = hmmsched::HmmschedRecipe::default();
    let recipe = hmmsched::HmmschedRecipe {
        weight: work.map_or(default.weight, |(_, work)| Weight::Equal(work)),
        dram_share: share.map_or(default.dram_share, |(_, share)| share),
        samples: samples.map_or(default.samples, |(_, samples)| samples),
    };
    Ok(Kind::Hmmsched { number, catalog: Arc::clone(catalog), recipe })
}
