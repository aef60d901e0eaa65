//! All families side by side.

use std::sync::Arc;

use memweir_plot::{BarSet, Bars, PALETTE, Panel};

use super::family::{CaseGains, Gains, OURS, TOLERATED, lowest, shown};
use crate::mean::mean;
use crate::report::{Found, Plot, Table};

/// Draws the mean and the worst gain of each policy over all cases of all families.
pub(super) fn found(families: &[Arc<Gains>]) -> Found {
    let cases: Vec<(String, &CaseGains)> = families
        .iter()
        .flat_map(|family| {
            family.cases.iter().map(|case| (format!("{}, {}", family.title, case.name), case))
        })
        .collect();
    let names: Vec<&str> = cases.first().map_or_else(Vec::new, |(_, case)| {
        case.policies.iter().map(|(name, _)| name.as_str()).collect()
    });
    let all = |name: &str| -> Vec<f64> {
        cases.iter().flat_map(|(_, case)| case.gains(name)).copied().collect()
    };
    let set = |value: fn(&[f64]) -> f64, color| BarSet {
        name: String::new(),
        values: names.iter().map(|name| value(&all(name))).collect(),
        color,
    };
    let bars = Bars {
        categories: names.iter().map(|name| (*name).to_owned()).collect(),
        sets: vec![set(|gains| mean(gains), PALETTE[0]), set(lowest, PALETTE[1])],
        ..Bars::default()
    };
    let policies = names.iter().map(|name| {
        let gains = all(name);
        let slower = gains.iter().filter(|gain| **gain < -TOLERATED).count();
        vec![
            (*name).to_owned(),
            format!("{:.1}", mean(&gains)),
            format!("{:.1}", lowest(&gains)),
            format!("{slower} of {}", gains.len()),
        ]
    });
    let losses = cases.iter().map(|(title, case)| {
        let (behind, other) = case.furthest_behind();
        let ours = case.gains(OURS);
        vec![
            title.clone(),
            format!("{:.1}", mean(ours)),
            format!("{:.1}", lowest(ours)),
            format!("{behind:.1} ({other})"),
        ]
    });
    let rows = names.iter().flat_map(|name| {
        let gains = all(name);
        [
            shown(format!("mean gain of `{name}`"), "all families", mean(&gains)),
            shown(format!("gain of `{name}` on its worst mix"), "all families", lowest(&gains)),
        ]
    });
    let header = |names: [&str; 4]| names.map(str::to_owned).to_vec();
    Found {
        plots: vec![Plot::of(vec![Panel::Bars(bars)])],
        rows: rows.collect(),
        tables: vec![
            Table {
                caption: "Every policy over all mixes".to_owned(),
                header: header([
                    "policy",
                    "mean gain (%)",
                    "worst mix (%)",
                    "cases slower than os",
                ]),
                rows: policies.collect(),
            },
            Table {
                caption: format!("`{OURS}` by family"),
                header: header([
                    "mixes",
                    "mean gain (%)",
                    "worst mix (%)",
                    "least lead over another policy (points)",
                ]),
                rows: losses.collect(),
            },
        ],
        ..Found::default()
    }
}
