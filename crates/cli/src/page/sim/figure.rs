//! `memweir page sim --svg`: the swap areas beside each other, or along a sweep.

use memweir_plot::{Arrangement, Bars, Figure, Panel};
use memweir_study::swap::report::{PagePoint, PageReport, Session, SwapResult};
use memweir_study::sweep::Grid;

use crate::render::plot::sweep::{self, Line};
use crate::render::text::counted;

/// Quantities that the lines of a sweep show.
const QUANTITIES: [&str; 4] =
    ["pages copied in", "delay of a switch (ms)", "processes killed", "energy (J)"];

/// A line per swap area, or bars if nothing is swept.
pub(super) fn of(report: &PageReport, grid: &Grid) -> Figure {
    match report.points.as_slice() {
        [point] if point.at.is_empty() => bars(&report.scenario, point),
        points => {
            let points: Vec<Vec<Line>> = points.iter().map(lines).collect();
            let title = format!("{} on each swap area", report.scenario);
            sweep::figure(title, grid, &QUANTITIES, &points)
        }
    }
}

fn lines(point: &PagePoint) -> Vec<Line> {
    let line = |swap: &SwapResult| {
        let mean = &swap.mean;
        let switch = mean.switch_ms.unwrap_or(f64::NAN);
        let values = vec![mean.copies_in, switch, mean.killed, mean.energy_j];
        Line { name: swap.swap.clone(), values }
    };
    point.swaps.iter().map(line).collect()
}

/// A part of a bar: its name and its length.
type Part = (&'static str, fn(&Session) -> f64);

const PAGES: [Part; 2] = [
    ("copied to DRAM", |session| session.copies_in),
    ("read in place, never written", |session| session.copies_avoided),
];
const DELAY: [Part; 2] = [
    ("faults", |session| session.switch_paging_ms.unwrap_or(0.0)),
    ("the rest", |session| match (session.switch_ms, session.switch_paging_ms) {
        (Some(whole), Some(faults)) => whole - faults,
        _ => 0.0,
    }),
];
const ENERGY: [Part; 2] = [
    ("for being there", |session| session.energy_background_j),
    ("for what it does", |session| session.energy_j - session.energy_background_j),
];

fn bars(scenario: &str, point: &PagePoint) -> Figure {
    Figure {
        title: format!("{scenario} on each swap area"),
        subtitle: format!(
            "{} of {} in all, {} of DRAM, {} of swap, victims by {}",
            counted(point.apps.len() as u64, "application"),
            point.footprint,
            point.dram,
            point.swap,
            point.policy
        ),
        panels: vec![
            panel(point, "Pages that came back from the swap area", "pages", &PAGES),
            panel(point, "Mean delay of a switch", "ms", &DELAY),
            panel(point, "Energy of the swap area", "J", &ENERGY),
        ],
    }
}

/// A bar per swap area, with the parts stacked.
fn panel(point: &PagePoint, title: &str, unit: &str, parts: &[Part]) -> Panel {
    let set =
        |(name, value): &Part| (*name, point.swaps.iter().map(|swap| value(&swap.mean)).collect());
    Panel::Bars(Bars {
        title: title.to_owned(),
        y_label: unit.to_owned(),
        arrangement: Arrangement::Stacked,
        ..Bars::of(point.swaps.iter().map(|swap| &swap.swap), parts.iter().map(set))
    })
}
