//! A process: its page table and its colors, with those of its threads and page ranges.

use std::collections::BTreeMap;
use std::ops::Range;

use memweir_core::address_map::{Color, ColorSet};

use super::buddy::Frame;
use super::stats::ProcessStats;
use super::{ThreadId, VirtualPage, Zone, ZoneId};

/// Location of a resident page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resident {
    /// Its zone.
    pub(super) zone: ZoneId,
    /// Its frame in the zone.
    pub(super) frame: Frame,
}

/// Colors that are used in turn.
#[derive(Clone, Debug)]
pub(super) struct Rotation {
    colors: Vec<Color>,
    turn: usize,
}

impl Rotation {
    fn new(colors: impl Iterator<Item = Color>) -> Self {
        Self { colors: colors.collect(), turn: 0 }
    }

    /// Tries the colors in order, beginning with the one whose turn it is, and returns the first
    /// result of `take` that is present. The turn then passes to the color after it.
    pub(super) fn next<T>(&mut self, mut take: impl FnMut(Color) -> Option<T>) -> Option<T> {
        for step in 0..self.colors.len() {
            let place = (self.turn + step) % self.colors.len();
            if let Some(found) = take(self.colors[place]) {
                self.turn = (place + 1) % self.colors.len();
                return Some(found);
            }
        }
        None
    }

    /// Describes the number of colors: `3 colors`.
    pub(super) fn in_words(&self) -> String {
        match self.colors.len() {
            1 => "one color".to_owned(),
            count => format!("{count} colors"),
        }
    }
}

/// A range of pages placed by the program.
#[derive(Clone, Debug)]
struct Placed {
    pages: Range<VirtualPage>,
    zone: ZoneId,
    colors: Rotation,
}

/// One process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    table: PageTable,
    /// Colors by zone.
    colors: Vec<Rotation>,
    threads: BTreeMap<(ThreadId, ZoneId), Rotation>,
    placed: Vec<Placed>,
    /// Running sum of the zones' shares; the last is 1.
    shares: Vec<f64>,
    /// Color at which the next search for a frame to spill into begins.
    spill_from: usize,
    pub(super) stats: ProcessStats,
}

impl Process {
    pub(super) fn new(zones: &[Zone]) -> Self {
        let all = |zone: &Zone| Rotation::new((0..zone.buddy.colors()).map(Color));
        Self {
            table: PageTable::default(),
            colors: zones.iter().map(all).collect(),
            threads: BTreeMap::new(),
            placed: Vec::new(),
            shares: vec![1.0],
            spill_from: 0,
            stats: ProcessStats::default(),
        }
    }

    pub(super) fn allow(&mut self, zone: ZoneId, colors: &ColorSet) {
        self.colors[usize::from(zone.0)] = Rotation::new(colors.iter());
    }

    pub(super) fn allow_thread(&mut self, thread: ThreadId, zone: ZoneId, colors: &ColorSet) {
        self.threads.insert((thread, zone), Rotation::new(colors.iter()));
    }

    pub(super) fn place(&mut self, pages: Range<VirtualPage>, zone: ZoneId, colors: &ColorSet) {
        self.placed.push(Placed { pages, zone, colors: Rotation::new(colors.iter()) });
    }

    pub(super) fn spread(&mut self, shares: &[f64]) {
        let total: f64 = shares.iter().sum();
        let mut sum = 0.0;
        self.shares = shares
            .iter()
            .map(|share| {
                sum += share / total;
                sum
            })
            .collect();
    }

    pub(super) fn resident(&self, page: VirtualPage) -> Option<Resident> {
        self.table.get(page)
    }

    pub(super) fn settle(&mut self, page: VirtualPage, resident: Resident) {
        self.table.set(page, resident);
    }

    /// Returns zone and colors for a page that `thread` touches first: those of the placed range,
    /// else of the thread, else of the process.
    pub(super) fn allowed(
        &mut self,
        thread: ThreadId,
        page: VirtualPage,
    ) -> (ZoneId, &mut Rotation) {
        if let Some(at) = self.placed.iter().rposition(|placed| placed.pages.contains(&page)) {
            let placed = &mut self.placed[at];
            return (placed.zone, &mut placed.colors);
        }
        let zone = self.zone_of(page);
        match self.threads.get_mut(&(thread, zone)) {
            Some(colors) => (zone, colors),
            None => (zone, &mut self.colors[usize::from(zone.0)]),
        }
    }

    /// Returns the zone of a page by its number: pages are spread evenly according to the shares.
    fn zone_of(&self, page: VirtualPage) -> ZoneId {
        // The golden ratio spreads consecutive numbers as evenly as possible over [0, 1).
        let place = page.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) as f64 / 2_f64.powi(64);
        let zone = self.shares.iter().position(|end| place < *end);
        ZoneId(zone.unwrap_or(self.shares.len() - 1) as u8)
    }

    /// Like [`Rotation::next`] over `colors`, beginning after the color that was last spilled into.
    pub(super) fn spill<T>(
        &mut self,
        colors: impl Iterator<Item = Color>,
        take: impl FnMut(Color) -> Option<T>,
    ) -> Option<T> {
        let mut rotation = Rotation::new(colors);
        rotation.turn = self.spill_from % rotation.colors.len().max(1);
        let found = rotation.next(take);
        self.spill_from = rotation.turn;
        found
    }
}

/// Pages of one leaf of the page table.
const LEAF: u64 = 512;

/// Map from page numbers to frames, in leaves of as many pages as in a machine's page table.
#[derive(Clone, Debug, Default)]
struct PageTable(BTreeMap<u64, Box<[Option<Resident>; LEAF as usize]>>);

impl PageTable {
    fn get(&self, page: VirtualPage) -> Option<Resident> {
        self.0.get(&(page.0 / LEAF)).and_then(|leaf| leaf[(page.0 % LEAF) as usize])
    }

    fn set(&mut self, page: VirtualPage, resident: Resident) {
        let leaf = self.0.entry(page.0 / LEAF).or_insert_with(|| Box::new([None; LEAF as usize]));
        leaf[(page.0 % LEAF) as usize] = Some(resident);
    }
}
