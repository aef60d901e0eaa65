//! A [`PageReport`] as text: a row per swap area, at each of the points.

use std::fmt::Write;

use memweir_core::{Bytes, Joules};
use memweir_study::swap::report::{PagePoint, PageReport, SwapResult};

use super::text::{Align, count, percent, table};

/// The whole report.
pub(crate) fn report(report: &PageReport) -> String {
    match report.points.as_slice() {
        [point] if point.at.is_empty() => one(point),
        points => rows(points) + "\n",
    }
}

fn one(point: &PagePoint) -> String {
    let mut text = format!(
        "{} applications of {} in all take turns, {} of DRAM, {} of swap, {:.0} s, victims by `{}`\n\n",
        point.apps.len(),
        point.footprint,
        point.dram,
        point.swap,
        point.duration_s,
        point.policy,
    );
    text += &rows(std::slice::from_ref(point));
    text.push_str("\n\n");
    for result in point.swaps.iter().filter(|result| result.mean.direct_reads > 0.0) {
        let mean = &result.mean;
        let avoided = percent(mean.copies_avoided / mean.direct_reads);
        let _ = writeln!(
            text,
            "{}: of {} pages mapped in place, {avoided} were not written afterwards: so many copies \
             were avoided, the others put off",
            result.swap,
            whole(mean.direct_reads),
        );
    }
    let _ = writeln!(text, "energy by the equations read `{}`", point.reading);
    text
}

fn rows(points: &[PagePoint]) -> String {
    let right = |head| (head, Align::Right);
    let mut columns: Vec<(&str, Align)> =
        points.iter().take(1).flat_map(|p| &p.at).map(|(key, _)| right(key.as_str())).collect();
    columns.push(("swap area", Align::Left));
    columns.extend(
        [
            "copied in",
            "read in place",
            "written later",
            "copied out",
            "killed",
            "switch",
            "of it faults",
            "stalled",
            "block I/O",
            "energy",
        ]
        .map(right),
    );
    let rows = points.iter().flat_map(|point| {
        let values = point.at.iter().map(|(_, value)| value.clone());
        point.swaps.iter().map(move |result| values.clone().chain(row(result)).collect())
    });
    table(&columns, rows.collect())
}

fn row(result: &SwapResult) -> [String; 11] {
    let mean = &result.mean;
    let millis = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.1} ms"));
    [
        result.swap.clone(),
        whole(mean.copies_in),
        whole(mean.direct_reads),
        whole(mean.upgrades),
        whole(mean.swap_outs),
        format!("{:.1}", mean.killed),
        millis(mean.switch_ms),
        millis(mean.switch_paging_ms),
        millis(Some(mean.stalled_ms)),
        Bytes(mean.block_io.round() as u64).to_string(),
        Joules(mean.energy_j).to_string(),
    ]
}

/// A mean count.
fn whole(mean: f64) -> String {
    count(mean.round() as u64)
}
