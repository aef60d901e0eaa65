//! A [`PageReport`] as text: a row per swap area, at each of the points.

use std::fmt::Write;

use memweir_core::{Bytes, Joules};
use memweir_study::swap::report::{PagePoint, PageReport, SwapResult};

use super::text::{Table, count, counted, known, percent};

/// The whole report.
pub(crate) fn report(report: &PageReport) -> String {
    match report.points.as_slice() {
        [point] if point.at.is_empty() => one(point),
        points => format!("{}\n", rows(points)),
    }
}

fn one(point: &PagePoint) -> String {
    let run = if point.apps.len() == 1 { "runs" } else { "take turns" };
    let mut text = format!(
        "{} of {} in all {run}, {} of DRAM, {} of swap, {:.0} s, victims by `{}`\n\n",
        counted(point.apps.len() as u64, "application"),
        point.footprint,
        point.dram,
        point.swap,
        point.duration_s,
        point.policy,
    );
    let _ = writeln!(text, "{}\n", rows(std::slice::from_ref(point)));
    for result in point.swaps.iter().filter(|result| result.mean.direct_reads > 0.0) {
        let mean = &result.mean;
        let later = match mean.copies_avoided < mean.direct_reads {
            true => "; the others were copied later",
            false => "",
        };
        let _ = writeln!(
            text,
            "{}: of {} pages mapped in place, {} were not written afterwards and never copied{later}",
            result.swap,
            whole(mean.direct_reads),
            percent(mean.copies_avoided / mean.direct_reads),
        );
    }
    let _ = writeln!(text, "energy by the equations read `{}`", point.reading);
    text
}

fn rows(points: &[PagePoint]) -> Table<(&PagePoint, &SwapResult)> {
    let millis = |ms| known(ms, |ms: f64| format!("{ms:.1} ms"));
    let results =
        points.iter().flat_map(|point| point.swaps.iter().map(move |result| (point, result)));
    Table::of(results)
        .swept(&points[0].at, |(point, _)| &point.at)
        .left("swap area", |(_, result)| result.swap.clone())
        .right("copied in", |(_, result)| whole(result.mean.copies_in))
        .right("read in place", |(_, result)| whole(result.mean.direct_reads))
        .right("written later", |(_, result)| whole(result.mean.upgrades))
        .right("copied out", |(_, result)| whole(result.mean.swap_outs))
        .right("killed", |(_, result)| format!("{:.1}", result.mean.killed))
        .right("switch", |(_, result)| millis(result.mean.switch_ms))
        .right("of it faults", |(_, result)| millis(result.mean.switch_paging_ms))
        .right("stalled", |(_, result)| millis(Some(result.mean.stalled_ms)))
        .right("block I/O", |(_, result)| Bytes(result.mean.block_io.round() as u64))
        .right("energy", |(_, result)| Joules(result.mean.energy_j))
}

/// A mean count.
fn whole(mean: f64) -> String {
    count(mean.round() as u64)
}
