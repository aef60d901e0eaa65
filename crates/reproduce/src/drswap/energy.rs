//! Fig. 7: the energy models with the counts of the sessions.

use memweir_energy::{Medium, Reading};

use super::sessions::{COPIED, DIRECT, DRAM, FLASH, Sessions, less};
use crate::report::{self, Found, Table};
use crate::statistics::mean;

/// Kinds of swap area that are drawn, and their names in the paper.
const DRAWN: [(usize, &str); 3] = [(DRAM, "DRAM"), (FLASH, "flash"), (DIRECT, "DR.Swap")];

/// Energy of a group on a swap area, in joules.
fn joules(sessions: &Sessions, [size, group, kind]: [usize; 3], reading: &Reading) -> f64 {
    let Medium::Memory(dram) = &sessions.kinds[DRAM].medium else { return f64::NAN };
    let area = &sessions.kinds[kind];
    sessions.mean([size, group, kind], |outcome| {
        let (counts, lines) = (&outcome.counts, outcome.lines_in_place);
        area.energy(counts, lines, sessions.sizes[size], outcome.duration, reading, dram).total().0
    })
}

fn average(sessions: &Sessions, size: usize, kind: usize, reading: &Reading) -> f64 {
    mean((0..sessions.groups.len()).map(|group| joules(sessions, [size, group, kind], reading)))
}

pub(super) fn figure_7(sessions: &Sessions) -> Found {
    let (mended, physical) = (&Reading::MENDED, &Reading::PHYSICAL);
    let average = |size, kind, reading| average(sessions, size, kind, reading);
    let saved = |size, reading| less(average(size, DRAM, reading), average(size, DIRECT, reading));
    let direct = average(1, COPIED, mended) - average(1, DIRECT, mended);
    let row = |size: usize| {
        let values = [mended, physical]
            .into_iter()
            .flat_map(|reading| DRAWN.map(|(kind, _)| average(size, kind, reading)));
        report::row(sessions.sizes[size].to_string(), 2, values)
    };
    Found {
        plots: vec![sessions.bars(&DRAWN, |at| joules(sessions, at, mended))],
        tables: vec![Table::of((0..sessions.sizes.len()).map(row))],
        values: vec![
            ("128", saved(0, mended)),
            ("256", saved(1, mended)),
            ("512", saved(2, mended)),
            ("physical", saved(2, physical)),
            ("flash", average(1, FLASH, mended) / average(1, DIRECT, mended)),
            ("direct", 100.0 * direct / average(1, DRAM, mended)),
            ("refresh", average(2, DRAM, mended) / average(0, DRAM, mended)),
        ],
        ..Found::default()
    }
}
