//! Where the pages of colored programs lie, as lines and in the JSON, and the programs without
//! colors among them.

use std::collections::BTreeMap;
use std::time::Duration;

use memweir_color::Totals;
use memweir_color::kernel::KernelCounts;
use memweir_core::address_map::{Color, ColorSet};
use memweir_linux::preload::UnreachedProgram;
use serde::Serialize;

use crate::foreground;
use crate::render::text::{count, counted, percent, seconds};

/// Interval between walks through all processes, in search of uncolored ones. A walk takes about a
/// millisecond of one processor.
pub(crate) const WALK_INTERVAL: Duration = Duration::from_millis(500);

/// Colors up to which each is listed.
const LISTED: usize = 16;

/// Pages of 4 KiB that a program was given, by where they lie.
#[derive(Debug, Serialize)]
pub(crate) struct GivenPages {
    /// In the requested colors.
    inside: u64,
    /// In others.
    outside: u64,
    /// By bank color, where memweir itself placed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_color: Option<BTreeMap<u32, u64>>,
}

impl From<&KernelCounts> for GivenPages {
    fn from(counts: &KernelCounts) -> Self {
        Self { inside: counts.color_alloc, outside: counts.color_spill, by_color: None }
    }
}

impl GivenPages {
    /// The pages that the library counted by the colors of their frames, held against those asked
    /// for.
    pub(crate) fn counted(totals: &Totals, asked: &ColorSet) -> Self {
        let pages = |is_asked: bool| {
            let counted = totals.by_color().iter();
            counted
                .filter(|(color, _)| asked.contains(Color(**color)) == is_asked)
                .map(|(_, n)| n)
                .sum()
        };
        Self {
            inside: pages(true),
            outside: pages(false),
            by_color: Some(totals.by_color().clone()),
        }
    }

    /// Pages inside and outside of `colors`.
    pub(crate) fn inside(&self, colors: &str) -> String {
        let all = self.inside + self.outside;
        let share = match all {
            0 => String::new(),
            _ => format!(" ({})", percent(self.inside as f64 / all as f64)),
        };
        let (inside, outside) = (counted(self.inside, "page"), count(self.outside));
        format!("{inside} in colors {colors}{share}, {outside} in others")
    }

    /// The summary, a line each: pages inside and outside of `colors`, and pages by color.
    pub(crate) fn lines(&self, colors: &str, time: f64) -> Vec<String> {
        let mut lines = vec![format!("{}, in {}", self.inside(colors), seconds(time))];
        lines.extend(self.by_color.as_ref().filter(|pages| !pages.is_empty()).map(by_color));
        lines
    }
}

/// Tells of processes whose pages were not placed: those that walks have found, or those that the
/// library has counted, whichever are more.
pub(crate) fn uncolored(found: &[UnreachedProgram], counted_too: u64) -> Option<String> {
    let processes = found.iter().map(|program| program.processes).sum::<u64>().max(counted_too);
    let (noun, seen) = (counted(processes, "process"), foreground::memory_of(found.iter()));
    (processes > 0).then(|| format!("{noun} could not be placed and ran as ever{seen}"))
}

/// Pages by color: each color, or the least and the most of many.
fn by_color(pages: &BTreeMap<u32, u64>) -> String {
    if pages.len() <= LISTED {
        let each: Vec<String> =
            pages.iter().map(|(color, pages)| format!("{color}: {}", count(*pages))).collect();
        return format!("pages by color: {}", each.join(", "));
    }
    let (fewest, most) = (pages.values().min(), pages.values().max());
    let of = |pages: Option<&u64>| count(pages.copied().unwrap_or(0));
    format!("pages by color: {} to {} in each of {} colors", of(fewest), of(most), pages.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(by_color: Option<BTreeMap<u32, u64>>) -> GivenPages {
        GivenPages { inside: 3000, outside: 1000, by_color }
    }

    #[test]
    fn a_summary_has_pages_inside_and_outside_the_time_and_the_colors() {
        let few = BTreeMap::from([(0, 1500), (1, 1500), (7, 1000)]);
        let lines = given(Some(few)).lines("0-1", 1.5);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("3,000 pages in colors 0-1 (75"), "{lines:?}");
        assert!(lines[0].ends_with("1,000 in others, in 1.50 s"), "{lines:?}");
        assert_eq!(lines[1], "pages by color: 0: 1,500, 1: 1,500, 7: 1,000");
        let many = (0..20).map(|color| (color, 190 + u64::from(color))).collect();
        let lines = given(Some(many)).lines("0-19", 1.5);
        assert_eq!(lines[1], "pages by color: 190 to 209 in each of 20 colors");
    }

    #[test]
    fn counts_that_are_missing_are_not_shown() {
        assert_eq!(given(None).lines("0", 1.0).len(), 1);
        let none = GivenPages { inside: 0, outside: 0, by_color: Some(BTreeMap::new()) };
        assert_eq!(none.lines("0", 1.0), ["0 pages in colors 0, 0 in others, in 1.00 s"]);
    }
}
