//! The workloads of Table 1 as counterparts from the catalog, and the parameters of the evaluation.

use std::collections::HashMap;
use std::sync::Arc;

use memweir_core::Nanos;
use memweir_core::input::{InputError, Refusal};
use memweir_core::names::Named;
use memweir_flow::workload::catalog::{Catalog, Suite};
use memweir_flow::workload::mix::iabw::{Set, TABLE_1, Workload, pool, to_paper};
use memweir_flow::workload::mix::{Ingredient, Mix};
use memweir_flow::{Hardware, KernelConfig, Program, View};
use memweir_policy::{Bus, PredictorKind, SchedulerConfig};
use serde::Deserialize;

use super::WORKLOADS;
use super::evaluation::Length;
use super::units::rate;
use crate::report::{Effort, Found, Table};
use crate::source::{FigureData, parse};

/// `workloads.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    machine: String,
    quantum_ms: u64,
    os_slice_ms: u64,
    saturation: f64,
    predictor: String,
    repetitions: u64,
    seed: u64,
    tuning: Tuning,
}

/// Shares of the ideal average bandwidth that are tried as targets.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tuning {
    from: f64,
    to: f64,
    step: f64,
}

/// Work of each task of a quick run, instead of two minutes.
const QUICK_WORK: Nanos = Nanos::from_millis(30_000);

/// A workload of Table 1 and its counterpart.
#[derive(Clone, Debug)]
pub(super) struct Counterpart {
    /// The paper's.
    pub(super) paper: Workload,
    /// Ours, two minutes of each program.
    pub(super) equal: Mix,
    /// The same programs as a normal workload.
    pub(super) normal: Mix,
}

impl Counterpart {
    /// Ours with tasks of this length.
    pub(super) fn mix(&self, length: Length) -> &Mix {
        match length {
            Length::Equal => &self.equal,
            Length::Normal => &self.normal,
        }
    }

    /// `#06`.
    pub(super) fn label(&self) -> String {
        format!("#{:02}", self.paper.index)
    }
}

/// Everything that the figures run.
#[derive(Clone)]
pub(super) struct Workloads {
    pub(super) hardware: Hardware,
    pub(super) seed: u64,
    pub(super) repetitions: u64,
    pub(super) shares: Vec<f64>,
    /// The operating system of the paper.
    pub(super) kernel: KernelConfig,
    scheduler: SchedulerConfig,
    programs: HashMap<String, Arc<Program>>,
    spec: Vec<String>,
    sets: Vec<(Set, Vec<Counterpart>)>,
}

impl Workloads {
    /// Draws the counterparts of all workloads.
    ///
    /// # Errors
    /// If the data file is invalid, or a workload has no counterpart.
    pub(super) fn new(effort: Effort) -> Result<Self, InputError> {
        let parameters: Parameters = parse(WORKLOADS)?;
        let refused = |refusal: Refusal| refusal.written_in(WORKLOADS.0);
        let hardware = Hardware::shipped(&parameters.machine).map_err(refused)?;
        let cores = hardware.machine.cores();
        let catalog = Catalog::shipped();
        let mut sets = Vec::new();
        let mut programs = HashMap::new();
        for &set in Set::ALL {
            let pool = pool(set, &catalog, &hardware, parameters.seed);
            let table = TABLE_1.iter().filter(|workload| workload.set == set);
            let drawn = table.map(|paper| {
                let mut equal = paper.counterpart(&pool, cores, parameters.seed)?;
                let normal = equal.normal(&pool, cores);
                if effort == Effort::Quick {
                    equal.tasks.iter_mut().for_each(|task| task.work = QUICK_WORK);
                }
                Ok(Counterpart { paper: *paper, normal, equal })
            });
            let drawn = drawn.collect::<Result<Vec<_>, Refusal>>().map_err(refused)?;
            sets.push((set, drawn));
            programs.extend(named(pool));
        }
        let spec = catalog.suite(Suite::Cfp2006).map(|entry| entry.name.clone()).collect();
        Ok(Self {
            scheduler: scheduler(&parameters, &hardware)?,
            seed: parameters.seed,
            repetitions: effort.repetitions(parameters.repetitions),
            kernel: KernelConfig {
                slice: Nanos::from_millis(parameters.os_slice_ms),
                ..KernelConfig::default()
            },
            shares: shares(parameters.tuning, effort),
            hardware,
            programs,
            spec,
            sets,
        })
    }

    /// A program of the catalog, as it is in the workloads.
    ///
    /// # Errors
    /// If no workload is drawn from it.
    pub(super) fn program(&self, name: &str) -> Result<Arc<Program>, InputError> {
        self.programs.get(name).cloned().ok_or_else(|| {
            InputError::new("experiments/iabw", format!("there is no program `{name}`"))
        })
    }

    /// The floating-point programs of SPEC, in the order of the catalog.
    ///
    /// # Errors
    /// Never for the shipped catalog.
    pub(super) fn spec_programs(&self) -> Result<Vec<Arc<Program>>, InputError> {
        self.spec.iter().map(|name| self.program(name)).collect()
    }

    /// The workloads of a set in the order of Table 1, which is that of their ideal average
    /// bandwidth.
    pub(super) fn set(&self, set: Set) -> &[Counterpart] {
        self.sets.iter().find(|(other, _)| *other == set).map_or(&[], |(_, drawn)| drawn)
    }

    /// The scheduler of Table 2 under this policy.
    pub(super) fn scheduler(&self, policy: &str) -> SchedulerConfig {
        SchedulerConfig { policy: policy.to_owned(), ..self.scheduler.clone() }
    }
}

fn named(pool: Vec<Ingredient>) -> impl Iterator<Item = (String, Arc<Program>)> {
    pool.into_iter().map(|part| (part.program.name.clone(), part.program))
}

/// Returns the shares that are tried; a third of them in a quick run.
fn shares(tuning: Tuning, effort: Effort) -> Vec<f64> {
    let count = ((tuning.to - tuning.from) / tuning.step).round() as u32;
    let numbers = (0..=count).step_by(effort.pick(1, 3));
    numbers.map(|number| tuning.from + tuning.step * f64::from(number)).collect()
}

/// Table 2.
fn scheduler(parameters: &Parameters, hardware: &Hardware) -> Result<SchedulerConfig, InputError> {
    let predictor: PredictorKind = parameters
        .predictor
        .parse()
        .map_err(|unknown| InputError::new(WORKLOADS.0, format!("{unknown}")).key("predictor"))?;
    let machine = &hardware.machine;
    Ok(SchedulerConfig {
        predictor,
        cores: machine.cores(),
        quantum: Nanos::from_millis(parameters.quantum_ms),
        bus: Bus {
            peak: machine.memories.first().map(|memory| memory.service.capacity),
            saturation: Some(rate(parameters.saturation)),
            ..Bus::default()
        },
        media: View::new(machine).media().clone(),
        seed: parameters.seed,
        ..SchedulerConfig::default()
    })
}

/// Table 1.
pub(super) fn table_1(data: &FigureData, workloads: &Workloads) -> Found {
    let mut found = Found::default();
    let mut rows = Vec::new();
    for &set in Set::ALL {
        for counterpart in workloads.set(set) {
            let Counterpart { paper, equal, normal } = counterpart;
            let ours = to_paper(equal.iabw);
            let name = format!("{} {}", title(set), counterpart.label());
            found.rows.push((data.row("drawn", &name, Some(paper.iabw)), ours));
            let programs: Vec<&str> = equal.tasks.iter().map(|task| task.name.as_str()).collect();
            rows.push(vec![
                format!("{} {}: {}", title(set), counterpart.label(), programs.join(", ")),
                equal.seed.to_string(),
                equal.tasks.len().to_string(),
                format!("{:.1}", paper.iabw),
                format!("{ours:.1}"),
                normal.tasks.len().to_string(),
                format!("{:.1}", to_paper(normal.iabw)),
            ]);
        }
    }
    found.tables.push(Table::of(rows));
    found
}

/// A set as the paper's table calls it.
pub(super) fn title(set: Set) -> &'static str {
    match set {
        Set::SpecTraining => "SPEC training",
        Set::Spec => "SPEC",
        Set::Npb => "NPB",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_tries_no_share_beyond_the_last() {
        let tuning = Tuning { from: 0.5, to: 1.2, step: 0.05 };
        let tried = |effort| -> Vec<u32> {
            shares(tuning, effort).iter().map(|share| (1000.0 * share).round() as u32).collect()
        };
        assert_eq!(tried(Effort::Quick), [500, 650, 800, 950, 1100]);
        let full = tried(Effort::Full);
        assert_eq!((full.len(), full[0], full[14]), (15, 500, 1200));
    }
}
