//! The media by themselves: Table I, Fig. 2 and Fig. 3.

use std::sync::Arc;

use memweir_core::input::{InputError, Refusal};
use memweir_core::medium::data::MediumData;
use memweir_core::{BytesPerSec, LINE_BYTES, Nanos, Picos};
use memweir_flow::workload::catalog::Catalog;
use memweir_flow::{
    Contender, Demand, Experiment, Flow, Hardware, Machine, Placement, SimError, Task, simulate,
    speeds,
};
use memweir_plot::Chart;
use serde::Deserialize;

use crate::report::{Found, Plot, Table};
use crate::run::Failed;
use crate::source::FigureData;
use crate::statistics::{highest, lowest, mean};
use crate::work::Bench;

/// The shipped machine.
const MACHINE: &str = "hmmsched";

/// Place of the NVM in it.
pub(super) const NVM: usize = 1;

/// The machine of the paper, its NVM being this medium.
///
/// # Errors
/// If there is no such machine or medium.
pub(super) fn hardware(medium: &str) -> Result<Hardware, InputError> {
    let refused = |refusal: Refusal| refusal.written_in("experiments/hmmsched");
    let mut hardware = Hardware::shipped(MACHINE).map_err(refused)?;
    let data = MediumData::shipped(medium).map_err(refused)?;
    let dram = hardware.machine.memories[0].read_latency;
    let memory = &mut hardware.machine.memories[NVM];
    (memory.read_latency, memory.write_latency) = data.latencies_beside(dram);
    memory.service.read_cost = data.read_cost;
    memory.service.write_cost = data.write_cost;
    Ok(hardware)
}

/// Table I.
pub(super) fn table_1() -> Result<Found, Failed> {
    let medium =
        |name| MediumData::shipped(name).map_err(|r: Refusal| r.written_in("experiments/hmmsched"));
    let names = ["dram", "stt-ram", "pram", "ratio-1-1-3", "ratio-1-3-8"];
    let media = names.map(medium).into_iter().collect::<Result<Vec<_>, _>>()?;
    let nanos = |latency: Picos| latency.as_f64() / 1e3;
    let (stt, pram) = (&media[1], &media[2]);
    let rows = media.iter().map(|medium| {
        vec![
            medium.name.clone(),
            format!("{:.1}", nanos(medium.read_latency)),
            format!("{:.1}", nanos(medium.write_latency)),
            format!("{:.2}", medium.read_latency.ratio(medium.dram_latency)),
            format!("{:.2}", medium.write_latency.ratio(medium.dram_latency)),
        ]
    });
    Ok(Found {
        tables: vec![Table::of(rows)],
        values: vec![
            ("stt-read", nanos(stt.read_latency)),
            ("stt-write", nanos(stt.write_latency)),
            ("pram-read", nanos(pram.read_latency)),
            ("pram-write", nanos(pram.write_latency)),
            ("stt-like", stt.write_latency.ratio(stt.read_latency)),
            ("pram-like", pram.read_latency.ratio(pram.dram_latency)),
        ],
        ..Found::default()
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CrowdParameters {
    light: String,
    heavy: String,
    seconds: f64,
}

/// Mean slowdown of `instances` instances of a program, all on DRAM.
fn crowd(hardware: &Hardware, task: &Task, instances: u32) -> Result<f64, SimError> {
    let length = task.program.length().0;
    let tasks = (0..instances).map(|number| Task {
        name: format!("{}#{number}", task.name),
        // Instances in lockstep would be an artifact.
        offset: Nanos(length / u64::from(instances) * u64::from(number)),
        ..task.clone()
    });
    let experiment = Experiment::new(hardware.machine.clone(), tasks.collect(), "os");
    let outcome = simulate(&experiment)?;
    Ok(mean(outcome.tasks.iter().map(|task| task.slowdown())))
}

/// Fig. 2.
pub(super) fn figure_2(data: &FigureData, bench: &Bench<'_>) -> Result<Found, Failed> {
    let parameters: CrowdParameters = data.parameters()?;
    let hardware = hardware("ratio-1-3-8")?;
    let catalog = Catalog::shipped();
    let cores = hardware.machine.cores();
    let mut curves = Vec::new();
    let in_nvm = (&parameters.heavy, Placement::all_in(NVM), "in NVM, 1:3:8");
    let in_dram = |name| (name, Placement::default(), "in DRAM");
    for (name, placement, place) in [in_dram(&parameters.light), in_dram(&parameters.heavy), in_nvm]
    {
        let entry = catalog.find(name).map_err(|r| r.written_in("figure 2"))?;
        let program = Arc::new(entry.program(&hardware, 0));
        let work = Nanos::from_secs_f64(parameters.seconds);
        let task = Task { work, placement, ..Task::once(name.clone(), program) };
        let counts: Vec<u32> = (1..=cores).collect();
        let slowdowns = bench.try_all(40, &counts, |count| crowd(&hardware, &task, *count))?;
        curves.push((
            format!("{name} {place}"),
            counts.into_iter().map(f64::from).zip(slowdowns).collect::<Vec<_>>(),
        ));
    }
    let at =
        |curve: &[(f64, f64)], place: usize| curve.get(place).map_or(f64::NAN, |point| point.1);
    let last = cores as usize - 1;
    let [light, heavy, nvm] = [0, 1, 2].map(|place| -> Vec<(f64, f64)> { curves[place].1.clone() });
    let values = vec![
        ("light", at(&light, last)),
        ("heavy", at(&heavy, last)),
        ("growth", at(&heavy, last) / at(&heavy, 1)),
        ("nvm", at(&nvm, last) / at(&heavy, last)),
    ];
    let chart = Chart { x_start: 1.0, ..Chart::lines(curves) };
    Ok(Found { plots: vec![Plot::of([chart])], values, ..Found::default() })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShareParameters {
    points: usize,
}

/// Transactions per microsecond of cores that only access NVM, and the effective bandwidth of eq.
/// (7) in the same unit.
fn accesses(machine: &Machine, write_share: f64) -> (f64, f64) {
    let rate = machine.core_peak;
    let mut demand = Demand { stall: 1.0, ..Demand::default() };
    demand.flows[NVM] = Flow { reads: rate * (1.0 - write_share), writes: rate * write_share };
    let task = Contender { demand, placement: Placement::default(), node: 0 };
    let speeds = speeds(machine, &vec![task; machine.cores() as usize]);
    let lines = |rate: BytesPerSec| speeds.iter().sum::<f64>() * rate.0 / LINE_BYTES as f64 / 1e6;
    let flow = demand.flows[NVM];
    let (reads, writes) = (lines(flow.reads), lines(flow.writes));
    let (dram, nvm) = (&machine.memories[0], &machine.memories[NVM]);
    let gamma = nvm.read_latency.ratio(dram.read_latency);
    let delta = nvm.write_latency.ratio(dram.read_latency);
    (reads + writes, gamma * reads + delta * writes)
}

/// Fig. 3.
pub(super) fn figure_3(data: &FigureData) -> Result<Found, Failed> {
    let parameters: ShareParameters = data.parameters()?;
    let last = (parameters.points - 1).max(1) as f64;
    let shares: Vec<f64> = (0..parameters.points).map(|n| n as f64 / last).collect();
    let (mut counted, mut translated) = (Vec::new(), Vec::new());
    for medium in ["ratio-1-1-3", "ratio-1-3-8"] {
        let machine = hardware(medium)?.machine;
        let points: Vec<_> =
            shares.iter().map(|share| (*share, accesses(&machine, *share))).collect();
        let name = medium.replacen("ratio-", "", 1).replace('-', ":");
        counted.push((name.clone(), points.iter().map(|(x, (count, _))| (*x, *count)).collect()));
        translated.push((name, points.iter().map(|(x, (_, ebw))| (*x, *ebw)).collect()));
    }
    let ratio = |curve: &[(f64, f64)]| {
        curve.last().map_or(f64::NAN, |point| point.1)
            / curve.first().map_or(f64::NAN, |point| point.1)
    };
    let curve = |curves: &[(String, Vec<(f64, f64)>)], at: usize| curves[at].1.clone();
    let ebw: Vec<f64> = curve(&translated, 1).into_iter().map(|point| point.1).collect();
    let values = vec![
        ("stt", ratio(&curve(&counted, 0))),
        ("pram", ratio(&curve(&counted, 1))),
        ("ebw", lowest(&ebw) / highest(&ebw)),
    ];
    Ok(Found {
        plots: vec![Plot::of([counted, translated].map(Chart::lines))],
        values,
        remarks: vec![
            "That the effective bandwidth is level is no finding: the media files take from the \
             latencies for how long a request occupies the memory, as section IV.B does."
                .to_owned(),
        ],
        ..Found::default()
    })
}
