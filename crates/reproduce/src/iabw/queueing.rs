//! A bus whose latency grows before it saturates: a test of the explanations.

use memweir_core::Picos;
use memweir_flow::service::GrowthPoint;
use memweir_flow::workload::mix::iabw::Set;
use memweir_plot::{Chart, Panel};
use serde::Deserialize;

use super::combinations::{combinations, share_below_peak};
use super::evaluation::{Evaluation, Known, Length, Treatment};
use super::outcomes::Outcomes;
use super::units::TRANSACTION;
use super::workloads::title;
use crate::report::{Found, Plot};
use crate::run::Failed;
use crate::source::FigureData;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    points: u32,
    highest: f64,
}

/// The growth of latency of a queue with random arrivals and constant service (M/D/1).
fn growth(service: Picos, latency: Picos, parameters: &Parameters) -> Vec<GrowthPoint> {
    (0..=parameters.points)
        .map(|point| parameters.highest * f64::from(point) / f64::from(parameters.points))
        .map(|u| GrowthPoint {
            utilization: u,
            stretch: 1.0 + service.ratio(latency) * u / (2.0 * (1.0 - u)),
        })
        .collect()
}

/// Fig. 6, 11 and 12 on such a bus.
pub(super) fn queueing(
    data: &FigureData,
    figure_6: &FigureData,
    evaluation: &Evaluation<'_>,
) -> Result<Found, Failed> {
    let parameters: Parameters = data.parameters()?;
    let mut workloads = evaluation.workloads.clone();
    let memory = &mut workloads.hardware.machine.memories[0];
    let per_transaction = TRANSACTION / 1e6 / memory.service.capacity.0 * 1e12;
    let service = Picos(per_transaction.round() as u64);
    let growth = growth(service, memory.read_latency, &parameters);
    memory.service.growth = growth.clone().into();
    let points = growth.iter().map(|point| (point.utilization, point.stretch)).collect();
    let latency = Chart::lines([("", points)]);
    let machine = &workloads.hardware.machine;
    let combined = combinations(figure_6, &workloads, evaluation.bench)?;
    let known = Known::default();
    let evaluation = Evaluation { known: &known, workloads: &workloads, ..*evaluation };
    let named = [("PBW", Treatment::PeakBandwidth), ("IABW, our curve", Treatment::Fitted)];
    let mut panels = vec![Panel::Chart(latency)];
    let mut values = vec![("before-peak", share_below_peak(&combined, machine))];
    let mut remarks = Vec::new();
    let ids = [(Set::Spec, "spec-pbw", "spec-mean"), (Set::Npb, "npb-pbw", "npb-mean")];
    for (set, pbw, mean) in ids {
        let outcomes = Outcomes::of(&evaluation, set, Length::Equal, &named)?;
        values.extend([(pbw, outcomes.mean_improvement(0)), (mean, outcomes.mean_improvement(1))]);
        panels.push(outcomes.improvement_bars().into());
        remarks.push(format!("{}: {}", title(set), outcomes.possible_in_words()));
    }
    Ok(Found { plots: vec![Plot::of(panels)], values, remarks, ..Found::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_bus_is_as_fast_as_unloaded_and_half_a_service_time_is_added_at_half_load() {
        let parameters = Parameters { points: 2, highest: 1.0 - 1e-9 };
        let curve = growth(Picos(25_000), Picos(100_000), &parameters);
        assert_eq!(curve[0], GrowthPoint { utilization: 0.0, stretch: 1.0 });
        // 0.5 / (2 x 0.5) of a quarter of the latency.
        assert!((curve[1].stretch - 1.125).abs() < 1e-6, "{:?}", curve[1]);
        assert!(curve.is_sorted_by(|a, b| a.stretch < b.stretch));
    }
}
