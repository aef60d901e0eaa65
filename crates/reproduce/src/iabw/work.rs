//! Amount of simulation, for the progress display.

use std::collections::HashSet;

use memweir_flow::workload::mix::iabw::{Set, TABLE_1};

use super::workloads::Workloads;
use super::{combinations, evaluation};
use crate::report::Effort;
use crate::source::FigureData;

/// Simulated core-seconds of these figures, near enough for a progress bar: work that several share
/// counts once.
pub(super) fn of(figures: &[&FigureData], workloads: &Workloads, effort: Effort) -> u64 {
    let mut stages = HashSet::new();
    for figure in figures {
        let needed: &[&str] = match figure.id.as_str() {
            "6" | "eq7" => &["combinations"],
            "7" | "9" | "10" | "rsd" => &["tuning", "training"],
            "8" => &["tuning", "combinations"],
            "table2" => &["tuning", "unfiltered"],
            "11" => &["tuning", "spec"],
            "12" => &["tuning", "spec", "npb"],
            "13" => &["tuning", "normal-training"],
            "14" => &["tuning", "normal-npb"],
            "queueing" => &["tuning", "queueing"],
            "idle" => &["tuning", "idle"],
            "5" => &["sensitivity"],
            "15" => &["prediction"],
            _ => &["hogs"],
        };
        stages.extend(needed.iter().copied());
    }
    stages.into_iter().map(|stage| stage_work(stage, figures, workloads, effort)).sum()
}

fn stage_work(stage: &str, figures: &[&FigureData], workloads: &Workloads, effort: Effort) -> u64 {
    let count = |set| TABLE_1.iter().filter(|workload| workload.set == set).count() as u64;
    let runs =
        |set, treatments: u64| count(set) * treatments * workloads.repetitions * evaluation::WORK;
    match stage {
        "combinations" => {
            let parameters = figures.iter().find(|figure| figure.id == "6");
            parameters
                .and_then(|figure| figure.parameters::<combinations::Parameters>().ok())
                .map_or(0, |parameters| parameters.count(effort) as u64 * parameters.work())
        }
        "tuning" => runs(Set::SpecTraining, workloads.shares.len() as u64 + 1),
        "training" | "idle" => runs(Set::SpecTraining, 2),
        "queueing" => runs(Set::Spec, 3) + runs(Set::Npb, 3),
        "unfiltered" => runs(Set::SpecTraining, 1),
        "spec" => runs(Set::Spec, 4),
        "npb" => runs(Set::Npb, 4),
        "normal-training" => runs(Set::SpecTraining, 4),
        "normal-npb" => runs(Set::Npb, 4),
        "prediction" => 17 * 5 * 120,
        "sensitivity" => 16 * 12 * (5 * 4 + 2 * 5),
        _ => 31 * 16 * 8 + 61 * 4,
    }
}
