//! Accuracy of predictors for the next quantum: Fig. 15.

use std::sync::Arc;

use memweir_core::{BytesPerSec, Nanos, metrics};
use memweir_flow::{
    Experiment, Program, QuantumOutcome, Recorder, SimError, Simulation, Task, TaskQuantum,
};
use memweir_plot::Bars;
use memweir_policy::PredictorKind;
use serde::Deserialize;

use super::workloads::Workloads;
use crate::report::{self, Found, Plot, Table, short};
use crate::run::Failed;
use crate::source::FigureData;
use crate::statistics::mean;
use crate::work::Bench;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    predictors: Vec<String>,
    fluctuating: Vec<String>,
    seconds: f64,
}

/// Predicted and measured bandwidth per quantum.
#[derive(Default)]
struct Meter(Vec<(BytesPerSec, BytesPerSec)>);

impl Recorder for Meter {
    fn quantum(&mut self, _: &QuantumOutcome, tasks: &[TaskQuantum]) {
        for task in tasks {
            // The first quantum has no prediction.
            if let Some(predicted) = task.predicted {
                self.0.push((predicted, task.counts.bandwidth(task.cpu_time)));
            }
        }
    }
}

/// Share of the quanta that a predictor foresees, for a program that runs alone.
fn accuracy(
    workloads: &Workloads,
    program: &Arc<Program>,
    predictor: PredictorKind,
    time: Nanos,
) -> Result<f64, SimError> {
    let machine = &workloads.hardware.machine;
    let task = Task { work: time, ..Task::once(program.name.clone(), Arc::clone(program)) };
    let mut experiment = Experiment::new(machine.clone(), vec![task], "round-robin");
    experiment.scheduler = workloads.scheduler("round-robin");
    experiment.scheduler.predictor = predictor;
    // A predictor that knew the program's mean would begin with a guess that is not its own.
    experiment.knowledge = memweir_flow::Knowledge::Nothing;
    let mut meter = Meter::default();
    Simulation::new(&experiment).recorder(&mut meter).run()?;
    let peak = machine.memories[0].service.capacity;
    Ok(metrics::prediction_accuracy(&meter.0, peak).unwrap_or(f64::NAN))
}

/// Fig. 15.
pub(super) fn figure_15(
    data: &FigureData,
    workloads: &Workloads,
    bench: &Bench<'_>,
) -> Result<Found, Failed> {
    let parameters: Parameters = data.parameters()?;
    let programs = workloads.spec_programs()?;
    let kinds = parameters.predictors.iter().map(|name| {
        name.parse::<PredictorKind>()
            .map_err(|refusal| refusal.written_in("figure 15").key("predictors"))
    });
    let kinds = kinds.collect::<Result<Vec<_>, _>>()?;
    let cases: Vec<_> = programs
        .iter()
        .flat_map(|program| kinds.iter().map(move |kind| (program, *kind)))
        .collect();
    let time = Nanos::from_secs_f64(parameters.seconds);
    let shares = bench.try_all(parameters.seconds as u64, &cases, |(program, kind)| {
        accuracy(workloads, program, *kind, time).map(|share| 100.0 * share)
    })?;
    let by_program: Vec<(&str, &[f64])> =
        programs.iter().map(|p| p.name.as_str()).zip(shares.chunks(kinds.len())).collect();
    let place = |name: &str| parameters.predictors.iter().position(|other| other == name);
    let (phase, last) = (place("phase:0.4").unwrap_or(0), place("last").unwrap_or(0));
    let gain = |name: &str| {
        let found = by_program.iter().find(|(program, _)| *program == name);
        found.map_or(f64::NAN, |(_, shares)| shares[phase] - shares[last])
    };
    let others = by_program.iter().map(|(name, _)| *name);
    let others = others.filter(|name| !parameters.fluctuating.iter().any(|other| other == name));
    let others = mean(others.map(gain));
    let names = ["zeusmp", "gems", "wrf"];
    let mut values: Vec<(&'static str, f64)> =
        names.into_iter().zip(parameters.fluctuating.iter().map(|name| gain(name))).collect();
    values.push(("others", others));
    Ok(Found {
        plots: vec![Plot::of([bars(&parameters.predictors, &by_program)])],
        tables: vec![table(&parameters.predictors, &by_program)],
        values,
        ..Found::default()
    })
}

/// The shares of each program, a bar for each predictor.
fn bars(predictors: &[String], by_program: &[(&str, &[f64])]) -> Bars {
    let of = |at: usize| by_program.iter().map(|(_, shares)| shares[at]).collect();
    let sets = predictors.iter().enumerate().map(|(at, name)| (name, of(at)));
    Bars::of(by_program.iter().map(|(name, _)| short(name)), sets)
}

/// The same as numbers.
fn table(predictors: &[String], by_program: &[(&str, &[f64])]) -> Table {
    let row = |(name, shares): &(&str, &[f64])| report::row(*name, 1, shares.iter().copied());
    Table::of(by_program.iter().map(row)).columns(predictors)
}
