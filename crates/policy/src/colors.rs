//! Which program may use which page colors (bpm section 3): the decision of the simulated operating
//! system and of `memweir color plan` alike.
//!
//! An assignment policy decides how many colors each program is given ([`ASSIGNMENTS`]); which ones
//! they are follows from what is to become of the cache ([`CacheUse`]). No two programs share a color.
//!
//! ```
//! use memweir_policy::colors::{CacheUse, ColorAssignment, ProgramTraits, Supply};
//!
//! // The machine of the paper: 64 banks in 32 colors.
//! let supply = Supply::new(32, 2);
//! let uniform = ColorAssignment::named("uniform").unwrap();
//! let programs = vec![ProgramTraits::default(); 4];
//! let sets = uniform.assign(&programs, &supply, CacheUse::Keep).unwrap();
//! assert_eq!(sets[1].to_string(), "8-15");
//! ```

mod apportion;
mod demand;
mod intensity;
#[cfg(test)]
mod tests;
mod uniform;

use memweir_core::BytesPerSec;
use memweir_core::address_map::{AddressMap, Color, ColorSet, Coloring};
use memweir_core::cache::CacheGeometry;
use memweir_core::input::Refusal;
use memweir_core::names::suggestion;

/// What is known of a program. All of it may be missing: each policy says what it takes instead.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProgramTraits {
    /// Misses of the last-level cache per 1,000 instructions.
    pub mpki: Option<f64>,
    /// Share of the misses that find their row open when the program runs alone, 0 to 1.
    pub row_buffer_locality: Option<f64>,
    /// Banks that are busy for the program at once, on average over the time when any is.
    pub bank_parallelism: Option<f64>,
    /// What it moves when it runs alone.
    pub bandwidth: Option<BytesPerSec>,
    /// Banks beyond which it is no faster.
    pub demanded_banks: Option<u32>,
}

/// Above how many misses per 1,000 instructions a program is memory-intensive (bpm section 4.2).
pub const MEMORY_INTENSIVE_MPKI: f64 = 1.0;

/// Banks with which every program of bpm Fig. 1 has 90 % of its best (B5).
pub const ENOUGH_BANKS: u32 = 16;

/// Banks that are enough for a program that is not memory-intensive: the lower end of the 8 to 16 of
/// bpm section 1.
pub const ENOUGH_BANKS_LIGHT: u32 = 8;

impl ProgramTraits {
    /// The banks that the program demands. If that is not known: [`ENOUGH_BANKS_LIGHT`] for one that is
    /// known not to be memory-intensive, else [`ENOUGH_BANKS`].
    #[must_use]
    pub fn banks(&self) -> u32 {
        let light = self.mpki.is_some_and(|mpki| mpki <= MEMORY_INTENSIVE_MPKI);
        let enough = if light { ENOUGH_BANKS_LIGHT } else { ENOUGH_BANKS };
        self.demanded_banks.unwrap_or(enough)
    }
}

/// The colors that can be handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supply {
    /// Each color and its part of the cache, in ascending order of the colors.
    parts: Vec<(Color, u32)>,
    banks_per_color: u32,
}

impl Supply {
    /// So many colors of so many banks each, which share no part of a cache or all of it.
    #[must_use]
    pub fn new(colors: u32, banks_per_color: u32) -> Self {
        let parts = (0..colors).map(|color| (Color(color), 0)).collect();
        Self { parts, banks_per_color: banks_per_color.max(1) }
    }

    /// The colors of a map for pages of `1 << page_bits` bytes, beside a cache if one is given. A
    /// cache part is what pages share whose addresses agree in what chooses both bank and set: bits 13
    /// to 15 on the paper's machine (section 3.2).
    #[must_use]
    pub fn of_map(map: &AddressMap, page_bits: u32, cache: Option<&CacheGeometry>) -> Self {
        let coloring = map.coloring(page_bits);
        let ways = map.interleave.map_or(1, |interleave| interleave.channels);
        let banks = ways << map.span().dimension();
        let supply = Self::new(coloring.colors(), banks / coloring.colors());
        match cache {
            Some(cache) => supply.beside(&coloring, &Coloring::of_cache(cache, page_bits)),
            None => supply,
        }
    }

    /// The same colors, those of `coloring`, beside a cache with these colors.
    #[must_use]
    pub fn beside(self, coloring: &Coloring, cache: &Coloring) -> Self {
        let common = coloring.span().intersection(cache.span());
        let common = Coloring::of_span(&common, coloring.page_bits(), coloring.offset());
        let part = |(color, _): (Color, u32)| (color, coloring.part(color, &common).0);
        Self { parts: self.parts.into_iter().map(part).collect(), ..self }
    }

    /// What is left when some colors have been handed out.
    #[must_use]
    pub fn without(&self, taken: &ColorSet) -> Self {
        let left = self.parts.iter().filter(|(color, _)| !taken.contains(*color));
        Self { parts: left.copied().collect(), ..self.clone() }
    }

    /// The number of colors.
    #[must_use]
    pub fn colors(&self) -> u32 {
        self.parts.len() as u32
    }

    /// Banks of one color.
    #[must_use]
    pub fn banks_per_color(&self) -> u32 {
        self.banks_per_color
    }

    /// The colors in the order in which they are handed out.
    fn in_order(&self, cache: CacheUse) -> Vec<Color> {
        let mut colors = self.parts.clone();
        match cache {
            CacheUse::Balance => colors.sort_by_key(|(_, part)| *part),
            CacheUse::Keep => {
                // Round after round through the parts: the how-many-eth of its part each color is.
                let mut seen = std::collections::BTreeMap::new();
                let mut round = |part: u32| {
                    let count = seen.entry(part).or_insert(0u32);
                    *count += 1;
                    *count
                };
                let rounds: Vec<u32> = colors.iter().map(|(_, part)| round(*part)).collect();
                let mut ranked: Vec<_> = rounds.into_iter().zip(colors).collect();
                ranked.sort_by_key(|(round, (_, part))| (*round, *part));
                colors = ranked.into_iter().map(|(_, color)| color).collect();
            }
        }
        colors.into_iter().map(|(color, _)| color).collect()
    }
}

/// What is to become of the cache where bank colors choose parts of it too (B4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// A program keeps as many parts of the cache as it has colors for: banks are kept apart, the
    /// cache stays shared.
    #[default]
    Keep,
    /// A program is given as few parts as its colors fill: the cache is divided as the banks are, and
    /// only what is left over of a part is shared.
    Balance,
}

impl CacheUse {
    /// Both, by the name that users write.
    pub const ALL: [(&'static str, Self); 2] = [("keep", Self::Keep), ("balance", Self::Balance)];

    /// The one that is called `name`.
    ///
    /// # Errors
    /// If there is none; with the nearest.
    pub fn named(name: &str) -> Result<Self, Refusal> {
        let known = Self::ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, cache)| *cache).ok_or_else(|| {
            let names = Self::ALL.iter().map(|(name, _)| *name);
            Refusal::new(format!("unknown use of the cache `{name}`"), suggestion(name, names))
        })
    }
}

/// One row of the table of assignment policies.
#[derive(Clone, Copy, Debug)]
pub struct AssignmentEntry {
    /// What the user writes.
    pub name: &'static str,
    /// One line for `--help`.
    pub summary: &'static str,
    /// Where it is described.
    pub reference: &'static str,
    /// Colors for each program, at least one; together at most what there is. There are no more
    /// programs than colors.
    counts: fn(&[ProgramTraits], &Supply) -> Vec<u32>,
}

/// Every policy, in the order in which help lists it.
pub const ASSIGNMENTS: &[AssignmentEntry] = &[
    AssignmentEntry {
        name: "uniform",
        summary: "as many colors for each program, whatever it is",
        reference: "bpm sections 4.2 and 5.1",
        counts: uniform::counts,
    },
    AssignmentEntry {
        name: "demand",
        summary: "the banks that each program demands; what is left goes to those who gain",
        reference: "bpm Fig. 1: 16 banks are enough",
        counts: demand::counts,
    },
    AssignmentEntry {
        name: "intensity",
        summary: "half of an even share for each program, the rest by memory intensity",
        reference: "bpm section 3.1.1: other policies by counters",
        counts: intensity::counts,
    },
];

/// The names of all assignment policies, in the order of the table.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    ASSIGNMENTS.iter().map(|entry| entry.name)
}

/// A policy that assigns colors.
#[derive(Clone, Copy, Debug)]
pub struct ColorAssignment(&'static AssignmentEntry);

impl ColorAssignment {
    /// The policy of this name.
    ///
    /// # Errors
    /// If there is none; with the nearest.
    pub fn named(name: &str) -> Result<Self, Refusal> {
        ASSIGNMENTS.iter().find(|entry| entry.name == name).map(Self).ok_or_else(|| {
            let reason = format!("unknown color assignment `{name}`");
            Refusal::new(reason, suggestion(name, names()))
        })
    }

    /// Its row of the table.
    #[must_use]
    pub fn entry(&self) -> &'static AssignmentEntry {
        self.0
    }

    /// The colors of each program, in the order of the programs; no two share one.
    ///
    /// # Errors
    /// If there are more programs than colors.
    pub fn assign(
        &self,
        programs: &[ProgramTraits],
        supply: &Supply,
        cache: CacheUse,
    ) -> Result<Vec<ColorSet>, Refusal> {
        let (wanted, there) = (programs.len(), supply.colors());
        if wanted > there as usize {
            return Err(Refusal::new(
                format!("{wanted} programs cannot have colors of their own: there are {there}"),
                "leave programs that hardly use memory without colors, or run fewer at a time",
            ));
        }
        if programs.is_empty() {
            return Ok(Vec::new());
        }
        let mut colors = supply.in_order(cache).into_iter();
        let counts = (self.0.counts)(programs, supply);
        Ok(counts.into_iter().map(|count| colors.by_ref().take(count as usize).collect()).collect())
    }
}
