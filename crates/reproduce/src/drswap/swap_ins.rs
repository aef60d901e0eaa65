//! Table IV: swap-ins with and without direct read, and the parameter that decides their
//! difference.

use memweir_energy::{CATEGORIES, SwapIns, TABLE_IV};
use memweir_plot::{Bars, Chart, Level, PALETTE};
use memweir_swap::memory::Counts;
use memweir_swap::phone::{Assumed, Phone};

use super::sessions::{
    COPIED, DIRECT, Parameters, Sessions, WORK, assumed, less, mebibytes, refused, session,
};
use crate::report::{Found, Plot, Table};
use crate::run::Failed;
use crate::source::{FigureData, Statement};
use crate::statistics::mean;
use crate::work::Bench;

/// Index of the size at which shares of written pages are tried, and the paper's value there.
const MIDDLE: usize = 1;
const PAPER_MIDDLE: f64 = 72.04;

/// The paper's cell of a group, by the sizes of Table IV.
fn printed(size: usize, group: &str) -> Option<SwapIns> {
    let place = CATEGORIES.iter().position(|name| *name == group)?;
    TABLE_IV.get(size).map(|(_, cells)| cells[place])
}

fn reduction(sessions: &Sessions, size: usize, group: usize) -> f64 {
    let copies = |kind| sessions.count([size, group, kind], |counts| counts.copies_in);
    less(copies(COPIED), copies(DIRECT))
}

pub(super) fn table_4(
    data: &FigureData,
    sessions: &Sessions,
    parameters: &Parameters,
    bench: &Bench<'_>,
) -> Result<Found, Failed> {
    let average = |size, kind| sessions.average(size, kind, |counts| counts.copies_in);
    let of_size = |size| less(average(size, COPIED), average(size, DIRECT));
    let browser = sessions.groups.iter().position(|(name, _)| *name == "browser").unwrap_or(0);
    let first = |group| sessions.count([0, group, COPIED], |counts| counts.copies_in);
    let others = (0..sessions.groups.len()).filter(|group| *group != browser);
    let last = sessions.sizes.len() - 1;
    let curve = shares(parameters, bench)?;
    let avoided = sessions.average(MIDDLE, DIRECT, Counts::copies_avoided);
    let spared = average(MIDDLE, COPIED) - average(MIDDLE, DIRECT);
    let values = vec![
        ("128", of_size(0)),
        ("256", of_size(1)),
        ("512", of_size(2)),
        ("larger", average(last, COPIED) / average(0, COPIED)),
        ("most", first(browser) / mean(others.map(first))),
        ("relief", 100.0 * avoided / spared),
        ("none", curve.first().map_or(f64::NAN, |point| point.1)),
        ("all", curve.last().map_or(f64::NAN, |point| point.1)),
    ];
    Ok(Found {
        plots: vec![bars(sessions), chart(&curve)],
        tables: (0..sessions.sizes.len()).map(|size| table(sessions, size)).collect(),
        values,
        rows: rows(data, sessions),
        remarks: crossing(&curve, PAPER_MIDDLE).map(remark).into_iter().collect(),
    })
}

/// One statement for each cell of the table.
fn rows(data: &FigureData, sessions: &Sessions) -> Vec<(Statement, f64)> {
    let mut rows = Vec::new();
    for (at, size) in sessions.sizes.iter().enumerate() {
        for (group, (name, title)) in sessions.groups.iter().enumerate() {
            let Some(cell) = printed(at, name) else { continue };
            let without = sessions.count([at, group, COPIED], |counts| counts.copies_in);
            let ours = reduction(sessions, at, group);
            rows.push(judged(data, &format!("{title}, {size}"), cell, without, ours));
        }
    }
    rows
}

/// Returns the statement of a cell with our value: the reduction of its swap-ins, or the swap-ins
/// themselves where none can be fewer.
fn judged(
    data: &FigureData,
    cell: &str,
    paper: SwapIns,
    without: f64,
    reduction: f64,
) -> (Statement, f64) {
    let percent = less(paper.without as f64, paper.with as f64);
    let (id, paper, ours) = if without == 0.0 {
        ("none", paper.without as f64, without)
    } else if reduction <= 0.0 {
        ("all-written", percent, reduction)
    } else {
        ("fewer", percent, reduction)
    };
    (data.row(id, cell, Some(paper)), ours)
}

fn table(sessions: &Sessions, size: usize) -> Table {
    let whole = |value: f64| format!("{value:.0}");
    let row = |(group, (name, title)): (usize, &(&str, &str))| {
        let cell = printed(size, name).unwrap_or(SwapIns { without: 0, with: 0 });
        let count = |kind, of: fn(&Counts) -> u64| sessions.count([size, group, kind], of);
        vec![
            (*title).to_owned(),
            cell.without.to_string(),
            cell.with.to_string(),
            whole(count(COPIED, |counts| counts.copies_in)),
            whole(count(DIRECT, |counts| counts.copies_in)),
            whole(count(DIRECT, |counts| counts.direct_reads)),
            whole(count(DIRECT, |counts| counts.upgrades)),
            format!("{:.1}", count(COPIED, |counts| counts.killed)),
            format!("{:.1}", count(DIRECT, |counts| counts.killed)),
        ]
    };
    let rows = sessions.groups.iter().enumerate().map(row);
    Table::of(rows).captioned(sessions.sizes[size].to_string())
}

fn bars(sessions: &Sessions) -> Plot {
    let groups = 0..sessions.groups.len();
    let paper = sessions.groups.iter().map(|(name, _)| {
        printed(MIDDLE, name).map_or(0.0, |cell| less(cell.without as f64, cell.with as f64))
    });
    let ours = groups.map(|group| {
        let value = reduction(sessions, MIDDLE, group);
        if value.is_finite() { value } else { 0.0 }
    });
    let titles = sessions.groups.iter().map(|(_, title)| *title);
    let sets = [("", paper.collect()), ("", ours.collect())];
    let title = sessions.sizes[MIDDLE].to_string();
    Plot::of([Bars { title, ..Bars::of(titles, sets) }])
}

/// The reduction over all groups at each share of written pages.
fn shares(parameters: &Parameters, bench: &Bench<'_>) -> Result<Vec<(f64, f64)>, Failed> {
    let kinds = super::sessions::kinds()?;
    let [dram, swap] = [parameters.dram_mib, parameters.swap_mib[MIDDLE]].map(mebibytes);
    let mut inputs = Vec::new();
    for share in &parameters.written_pages {
        let assumed = Assumed { written_pages: *share, ..assumed(bench.effort) };
        for (group, _) in Phone::shipped().groups() {
            let session = session(group, &assumed, dram, swap).map_err(refused)?;
            inputs.extend([COPIED, DIRECT].map(|kind| (session.clone(), kind)));
        }
    }
    let copies = bench.all(WORK, &inputs, |(session, kind)| {
        session.run(&kinds[*kind], parameters.seed).counts.copies_in
    });
    let each = copies.len() / parameters.written_pages.len().max(1);
    let sum = |copies: &[u64], kind: usize| copies.iter().skip(kind).step_by(2).sum::<u64>() as f64;
    let reductions = copies.chunks(each.max(1)).map(|cell| less(sum(cell, 0), sum(cell, 1)));
    Ok(parameters.written_pages.iter().copied().zip(reductions).collect())
}

/// Point at which the curve first falls through a level, interpolated between two points of it.
fn crossing(curve: &[(f64, f64)], level: f64) -> Option<f64> {
    let pair = curve.windows(2).find(|pair| pair[0].1 >= level && pair[1].1 < level)?;
    let part = (pair[0].1 - level) / (pair[0].1 - pair[1].1);
    Some(pair[0].0 + part * (pair[1].0 - pair[0].0))
}

fn remark(share: f64) -> String {
    format!("With {:.0} % of the pages written, ours would be the paper's average.", 100.0 * share)
}

fn chart(curve: &[(f64, f64)]) -> Plot {
    let chart = Chart {
        levels: vec![Level::new("paper", PAPER_MIDDLE, PALETTE[1])],
        ..Chart::lines([("", curve.to_vec())])
    };
    Plot::of([chart])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::PaperName;
    use crate::score::Agreement;

    #[test]
    fn a_level_is_crossed_between_two_points() {
        let curve = [(0.0, 90.0), (0.5, 60.0), (1.0, 20.0)];
        assert_eq!(crossing(&curve, 75.0), Some(0.25));
        assert_eq!(crossing(&curve, 10.0), None);
        assert_eq!(crossing(&curve, 95.0), None);
    }

    #[test]
    fn a_cell_in_which_nothing_comes_back_misses() {
        let suite = PaperName::Drswap.suite().unwrap();
        let data = suite.figure("table4").unwrap();
        let paper = SwapIns { without: 4000, with: 1000 };
        for (without, reduction, quantity, verdict) in [
            (0.0, f64::NAN, "a cell: swap-ins without direct read", Agreement::Differs),
            (500.0, 90.0, "a cell: fewer swap-ins", Agreement::NoEvidence),
            (500.0, 20.0, "a cell: fewer swap-ins", Agreement::SignAlone),
            (500.0, -5.0, "a cell: fewer swap-ins", Agreement::Differs),
        ] {
            let (statement, ours) = judged(data, "a cell", paper, without, reduction);
            assert_eq!(statement.quantity, quantity);
            assert_eq!(Agreement::of(&statement, ours), Some(verdict), "{ours}");
        }
        // So each cell can be missed.
        assert!(TABLE_IV.iter().flat_map(|(_, cells)| cells).all(|cell| cell.without > 0));
    }

    #[test]
    fn cells_of_the_paper_are_found_by_group() {
        assert_eq!(printed(0, "browser"), Some(SwapIns { without: 6017, with: 1771 }));
        assert_eq!(printed(0, "all"), None);
        for (name, _) in Phone::shipped().groups() {
            assert!(printed(2, name).is_some(), "{name}");
        }
    }
}
