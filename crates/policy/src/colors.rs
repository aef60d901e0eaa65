//! Assignment of page colors to programs (bpm section 3), shared by the simulated operating system
//! and `memweir color plan`.
//!
//! An assignment policy decides how many colors each program gets ([`ASSIGNMENTS`]); [`CacheUse`]
//! decides which ones. No two programs share a color.
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

use std::fmt;

use memweir_core::BytesPerSec;
use memweir_core::address_map::{AddressMap, Color, ColorSet, Coloring};
use memweir_core::cache::CacheGeometry;
use memweir_core::input::Refusal;
use memweir_core::names::choose;

/// Known traits of a program. Any of them may be missing; each policy states its defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProgramTraits {
    /// Misses of the last-level cache per 1,000 instructions.
    pub mpki: Option<f64>,
    /// Share of the misses that find their row open when the program runs alone, 0 to 1.
    pub row_buffer_locality: Option<f64>,
    /// Mean number of banks that are busy for the program while at least one is.
    pub bank_parallelism: Option<f64>,
    /// Bandwidth of the program when it runs alone.
    pub bandwidth: Option<BytesPerSec>,
    /// Number of banks beyond which the program is no faster.
    pub demanded_banks: Option<u32>,
}

/// A program with more misses per 1,000 instructions is memory-intensive (bpm section 4.2).
pub const MEMORY_INTENSIVE_MPKI: f64 = 1.0;

/// Number of banks with which every program of bpm Fig. 1 reaches 90 % of its best (B5).
pub const ENOUGH_BANKS: u32 = 16;

/// Number of banks that are enough for a program that is not memory-intensive: the lower end of the
/// 8 to 16 of bpm section 1.
pub const ENOUGH_BANKS_LIGHT: u32 = 8;

impl ProgramTraits {
    /// Returns the banks that the program demands. If that is not known: [`ENOUGH_BANKS_LIGHT`] for
    /// a program that is known not to be memory-intensive, else [`ENOUGH_BANKS`].
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
    /// Returns a supply of `colors` colors with `banks_per_color` banks each, all in the same cache
    /// part.
    #[must_use]
    pub fn new(colors: u32, banks_per_color: u32) -> Self {
        let parts = (0..colors).map(|color| (Color(color), 0)).collect();
        Self { parts, banks_per_color: banks_per_color.max(1) }
    }

    /// Returns the colors of a map for pages of `1 << page_bits` bytes, with their parts of `cache`
    /// if one is given. Pages share a cache part if their addresses agree in the bits that choose
    /// both bank and set: bits 13 to 15 on the paper's machine (section 3.2).
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

    /// Returns the same colors, which are those of `coloring`, with their parts of a cache that has
    /// the colors `cache`.
    #[must_use]
    pub fn beside(self, coloring: &Coloring, cache: &Coloring) -> Self {
        let common = coloring.span().intersection(cache.span());
        let common = Coloring::of_span(&common, coloring.page_bits(), coloring.offset());
        let part = |(color, _): (Color, u32)| (color, coloring.part(color, &common).0);
        Self { parts: self.parts.into_iter().map(part).collect(), ..self }
    }

    /// Returns the supply without the colors in `taken`.
    #[must_use]
    pub fn without(&self, taken: &ColorSet) -> Self {
        let left = self.parts.iter().filter(|(color, _)| !taken.contains(*color));
        Self { parts: left.copied().collect(), ..self.clone() }
    }

    /// Returns the number of colors.
    #[must_use]
    pub fn colors(&self) -> u32 {
        self.parts.len() as u32
    }

    /// Returns each color and its part of the cache, in ascending order of the colors.
    #[must_use]
    pub fn parts(&self) -> &[(Color, u32)] {
        &self.parts
    }

    /// Returns the number of banks of one color.
    #[must_use]
    pub fn banks_per_color(&self) -> u32 {
        self.banks_per_color
    }

    /// Returns the colors in the order in which they are handed out.
    fn in_order(&self, cache: CacheUse) -> Vec<Color> {
        let mut colors = self.parts.clone();
        match cache {
            CacheUse::Balance => colors.sort_by_key(|(_, part)| *part),
            CacheUse::Keep => {
                // Take one color of each part per round; a color's round is its rank within its
                // part.
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

/// Use of the cache where bank colors also choose parts of the cache (B4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// A program's colors are spread over as many cache parts as possible: banks are partitioned,
    /// the cache stays shared.
    #[default]
    Keep,
    /// A program's colors fill as few cache parts as possible: the cache is partitioned along with
    /// the banks, and two programs share a part only if one of them does not fill it.
    Balance,
}

memweir_core::named! { pub CacheUse, "use of the cache": Keep = "keep", Balance = "balance" }

/// One row of the table of assignment policies.
#[derive(Clone, Copy)]
pub struct AssignmentEntry {
    /// Name that users write.
    pub name: &'static str,
    /// One line for `--help`.
    pub summary: &'static str,
    /// Source that describes the policy.
    pub reference: &'static str,
    /// Returns the number of colors of each program: at least one each, and in total at most the
    /// supply. There are no more programs than colors.
    counts: fn(&[ProgramTraits], &Supply) -> Vec<u32>,
}

/// All policies, in the order in which help lists them.
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

/// Returns the names of all assignment policies, in the order of the table.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    ASSIGNMENTS.iter().map(|entry| entry.name)
}

/// A policy that assigns colors.
#[derive(Clone, Copy)]
pub struct ColorAssignment(&'static AssignmentEntry);

/// The name alone: keys of results are hashes of what `Debug` writes, and the address of a function
/// is another one in each process.
impl fmt::Debug for ColorAssignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColorAssignment({})", self.0.name)
    }
}

impl ColorAssignment {
    /// Returns the policy called `name`.
    ///
    /// # Errors
    /// If there is none; the error suggests the nearest name.
    pub fn named(name: &str) -> Result<Self, Refusal> {
        choose("color assignment", name, ASSIGNMENTS.iter().map(|entry| (entry.name, Self(entry))))
    }

    /// Returns the policy's row of the table.
    #[must_use]
    pub fn entry(&self) -> &'static AssignmentEntry {
        self.0
    }

    /// Returns the colors of each program, in the order of the programs; no two share one.
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
