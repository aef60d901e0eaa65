//! Fig. 8 and Table V: delays of switches.

use memweir_core::Nanos;
use memweir_swap::phone::Phone;
use memweir_swap::session::{SessionOutcome, Switch};

use super::sessions::{COPIED, DIRECT, DRAM, FLASH, Sessions, less};
use crate::report::{Found, Table};
use crate::statistics::mean;

/// Kinds of swap area that are shown, and their names in the paper.
const SHOWN: [(usize, &str); 4] =
    [(DRAM, "DRAM"), (DIRECT, "DR.Swap"), (COPIED, "without direct read"), (FLASH, "flash")];

/// Mean delay in milliseconds of the switches for which `of` is true, but for the first of each
/// application.
fn delay(outcome: &SessionOutcome, of: impl Fn(&Switch) -> bool) -> f64 {
    let mean = outcome.mean(|switch| switch.round > 0 && of(switch));
    mean.map_or(f64::NAN, Nanos::as_millis_f64)
}

/// Mean delay of a group.
fn group(sessions: &Sessions, at: [usize; 3]) -> f64 {
    sessions.mean(at, |outcome| delay(outcome, |_| true))
}

/// Part of the delay that faults take, over all repetitions.
fn paging(sessions: &Sessions, at: [usize; 3]) -> f64 {
    sessions.mean(at, |outcome| {
        let again = outcome.switches.iter().filter(|switch| switch.round > 0);
        mean(again.map(|switch| switch.paging.as_millis_f64()))
    })
}

/// The mean over all groups and sizes.
fn overall(sessions: &Sessions, of: impl Fn(usize, usize) -> f64) -> f64 {
    let groups = sessions.groups.len();
    mean(
        (0..sessions.sizes.len())
            .flat_map(|size| (0..groups).map(move |g| (size, g)))
            .map(|(size, group)| of(size, group)),
    )
}

pub(super) fn figure_8(sessions: &Sessions) -> Found {
    let over_flash =
        |size, g| less(group(sessions, [size, g, FLASH]), group(sessions, [size, g, DIRECT]));
    let place = |name: &str| sessions.groups.iter().position(|(n, _)| *n == name).unwrap_or(0);
    let of_group = |name| mean((0..sessions.sizes.len()).map(|size| over_flash(size, place(name))));
    let ratio = |of: fn(&Sessions, [usize; 3]) -> f64, other| {
        overall(sessions, |size, g| {
            of(sessions, [size, g, DIRECT]) / of(sessions, [size, g, other])
        })
    };
    let sum = |kind| overall(sessions, |size, g| paging(sessions, [size, g, kind]));
    Found {
        plots: vec![sessions.bars(&SHOWN, |at| group(sessions, at))],
        tables: (0..sessions.sizes.len()).map(|size| table(sessions, size)).collect(),
        values: vec![
            ("flash", overall(sessions, over_flash)),
            ("browser", of_group("browser")),
            ("news", of_group("news") / of_group("browser")),
            ("dram", ratio(group, DRAM)),
            ("direct", sum(DIRECT) / sum(COPIED)),
        ],
        ..Found::default()
    }
}

fn table(sessions: &Sessions, size: usize) -> Table {
    let row = |(g, (_, title)): (usize, &(&str, &str))| {
        let cells = SHOWN.map(|(kind, _)| {
            let at = [size, g, kind];
            format!("{:.0} ({:.1})", group(sessions, at), paging(sessions, at))
        });
        std::iter::once((*title).to_owned()).chain(cells).collect()
    };
    Table::of(sessions.groups.iter().enumerate().map(row))
        .captioned(sessions.sizes[size].to_string())
        .columns(SHOWN.map(|(_, name)| name))
}

pub(super) fn table_5(sessions: &Sessions) -> Found {
    let of_app = |[g, number]: [usize; 2], size, kind| {
        sessions.mean([size, g, kind], |outcome| delay(outcome, |switch| switch.app == number))
    };
    let mut rows = Vec::new();
    let mut twitter = f64::NAN;
    for (g, (name, title)) in sessions.groups.iter().enumerate() {
        let apps = Phone::shipped().group(name).unwrap_or_default();
        for (number, app) in apps.iter().enumerate() {
            let mut row = vec![format!("{title}: {}", app.name)];
            for size in 0..sessions.sizes.len() {
                row.extend(
                    [DRAM, DIRECT, FLASH]
                        .map(|kind| format!("{:.0}", of_app([g, number], size, kind))),
                );
            }
            rows.push(row);
            if app.name == "Twitter" {
                twitter = of_app([g, number], 0, DIRECT) / of_app([g, number], 0, DRAM);
            }
        }
    }
    let columns = sessions
        .sizes
        .iter()
        .flat_map(|size| ["DRAM", "DR.Swap", "flash"].map(|kind| format!("{kind}, {size}")));
    let all = 0..sessions.groups.len();
    Found {
        tables: vec![Table::of(rows).columns(columns)],
        values: vec![
            ("twitter", twitter),
            ("switch", mean(all.map(|g| group(sessions, [0, g, DIRECT])))),
        ],
        ..Found::default()
    }
}
