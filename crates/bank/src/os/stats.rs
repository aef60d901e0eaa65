//! Counters of the operating system.

use memweir_core::Nanos;
use memweir_core::address_map::Color;

use super::{Supply, Zone};

/// All counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OsStats {
    /// By process.
    pub processes: Vec<ProcessStats>,
    /// By zone.
    pub zones: Vec<ZoneStats>,
}

/// Page faults of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessStats {
    /// Successful page faults, one per page that it got.
    pub faults: u64,
    /// Of these, faults that got a page of another color or zone than allowed.
    pub spilled: u64,
    /// Of these, faults that got a page reclaimed from another holder.
    pub reclaimed: u64,
    /// Faults that failed.
    pub refused: u64,
    /// Free lists searched.
    pub lists_searched: u64,
    /// Kernel time of the faults.
    pub kernel_time: Nanos,
    /// Pages by color, over all zones.
    pub pages_by_color: Vec<u64>,
}

impl ProcessStats {
    pub(super) fn new(colors: u32) -> Self {
        Self { pages_by_color: vec![0; colors as usize], ..Self::default() }
    }

    pub(super) fn count(&mut self, kind: Supply, color: Color, searched: u32, cost: Nanos) {
        self.faults += 1;
        self.spilled += u64::from(kind == Supply::Spilled);
        self.reclaimed += u64::from(kind == Supply::Reclaimed);
        self.lists_searched += u64::from(searched);
        self.kernel_time += cost;
        let place = color.0 as usize;
        if place >= self.pages_by_color.len() {
            self.pages_by_color.resize(place + 1, 0);
        }
        self.pages_by_color[place] += 1;
    }
}

/// The state of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneStats {
    /// Its name.
    pub name: String,
    /// Its pages.
    pub pages: u64,
    /// Free pages.
    pub free: u64,
    /// Blocks that were split.
    pub splits: u64,
    /// Blocks that were merged.
    pub merges: u64,
}

impl Zone {
    pub(super) fn stats(&self) -> ZoneStats {
        let (splits, merges) = self.buddy.splits_and_merges();
        ZoneStats {
            name: self.name.clone(),
            pages: u64::from(self.buddy.frames()),
            free: self.buddy.free_pages(),
            splits,
            merges,
        }
    }
}
