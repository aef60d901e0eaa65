//! Placement of a task's pages by a model of pages: those in DRAM are chosen by share, by address,
//! or by hotness (H8).

use memweir_core::Bytes;
use memweir_core::input::{InputError, Section, Value};
use memweir_flow::machine::Machine;
use memweir_flow::task::Placement;
use memweir_flow::workload::pages::{PagePolicy, Popularity};

use super::placement;
use super::workload::Source;

/// Keys of the table.
const KEYS: [&str; 6] = ["elsewhere", "dram_share", "by", "samples", "footprint_mib", "hotness"];

/// Default exponent of the distribution: that of most programs of the catalog, whose exponents are
/// estimates themselves.
pub(super) const DEFAULT_HOTNESS: f64 = 0.8;

/// Selection of a task's pages in DRAM.
#[derive(Clone, Debug, PartialEq)]
pub struct Pages {
    /// Distribution of its accesses over its pages; its seed is combined with the repetition's.
    popularity: Popularity,
    policy: PagePolicy,
    /// Index of the memory that holds the other pages.
    elsewhere: usize,
}

impl Pages {
    /// Returns the resulting placement, with pages and samples drawn from `seed`.
    #[must_use]
    pub fn placement(&self, seed: u64) -> Placement {
        Popularity { seed: self.popularity.seed ^ seed, ..self.popularity }
            .placement(self.policy, self.elsewhere)
    }
}

/// Reads `{ elsewhere = "pram", dram_share = 0.25, by = "hot", samples = 100000 }`.
pub(super) fn read(
    value: Value<'_>,
    machine: &Machine,
    source: &Source,
) -> Result<Pages, InputError> {
    let mut section = value.section()?;
    section.only(&KEYS)?;
    let elsewhere = section.require("elsewhere")?;
    let elsewhere = placement::memory(&elsewhere, elsewhere.string()?, machine)?;
    let dram_share = section.require("dram_share")?.number_in(0.0..=1.0, "share")?;
    let popularity = popularity(&mut section, source)?;
    let samples = section.map("samples", |v| v.whole_in(1..=100_000_000).map(|n| (v, n)))?;
    let dram = Bytes((popularity.footprint.as_f64() * dram_share).round() as u64);
    let hot = PagePolicy::HotPages { dram, samples: samples.as_ref().map(|(_, number)| *number) };
    let policies = [
        ("hot", hot),
        ("address", PagePolicy::AddressRange(dram)),
        ("share", PagePolicy::Share(dram_share)),
    ];
    let policy = section.map("by", |v| v.choose("way to choose pages", policies))?.unwrap_or(hot);
    if let Some((value, _)) = samples.filter(|_| policy != hot) {
        let help = "`by = \"hot\"`, or leave it out";
        return Err(value.refuse("only the hot pages are found by samples").help(help));
    }
    Ok(Pages { popularity, policy, elsewhere })
}

/// Returns the popularity of a program's pages: the values of the table, else those of the catalog.
fn popularity(section: &mut Section<'_>, source: &Source) -> Result<Popularity, InputError> {
    let known = match source {
        Source::Catalog { entry, .. } => Some(entry.popularity(0)),
        _ => None,
    };
    let footprint = section.map("footprint_mib", |v| v.number_in(0.01..=1e9, "size in MiB"))?;
    let hotness = section.map("hotness", |v| v.number_in(0.0..=10.0, "exponent"))?;
    let given = footprint.map(|mib| Bytes((mib * f64::from(1 << 20)).round() as u64));
    let Some(footprint) = given.or(known.map(|known| known.footprint)) else {
        return Err(section
            .refuse("`footprint_mib` is missing")
            .help("the catalog alone knows it"));
    };
    let heat = |of_catalog: Option<f64>| hotness.or(of_catalog).unwrap_or(DEFAULT_HOTNESS);
    Ok(Popularity {
        footprint,
        read_hotness: heat(known.map(|known| known.read_hotness)),
        write_hotness: heat(known.map(|known| known.write_hotness)),
        seed: known.map_or(0, |known| known.seed),
    })
}
