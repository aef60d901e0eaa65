//! Memory media as data files: the cost of a request, as latency for the requester and as occupancy
//! of the memory. The bandwidth of a memory is defined by the machine.

use super::{Distance, Media, Medium, MediumKind};
use crate::input::{Document, InputError, Refusal, Section, Value, shipped};
use crate::units::Picos;

/// Media that ship with memweir: their names and the texts of their files.
pub const MEDIA: [(&str, &str); 6] = [
    ("dram", include_str!("../../data/media/dram.toml")),
    ("stt-ram", include_str!("../../data/media/stt-ram.toml")),
    ("pram", include_str!("../../data/media/pram.toml")),
    ("ratio-1-1-3", include_str!("../../data/media/ratio-1-1-3.toml")),
    ("ratio-1-3-8", include_str!("../../data/media/ratio-1-3-8.toml")),
    ("cxl", include_str!("../../data/media/cxl.toml")),
];

/// Keys of a media file.
const KEYS: [&str; 8] = [
    "name",
    "kind",
    "read_latency_ns",
    "write_latency_ns",
    "dram_latency_ns",
    "read_cost",
    "write_cost",
    "source",
];

/// Data of a kind of memory. Latencies are relative to the DRAM of the same source: device and
/// load-to-use figures differ by a multiple, but their ratios do not.
#[derive(Clone, Debug, PartialEq)]
pub struct MediumData {
    /// Name for people: `pram`.
    pub name: String,
    /// Kind of memory.
    pub kind: MediumKind,
    /// Latency of a read; more than zero.
    pub read_latency: Picos,
    /// Latency of a write; more than zero.
    pub write_latency: Picos,
    /// Latency of the DRAM in the same source; more than zero.
    pub dram_latency: Picos,
    /// Time for which a line read occupies the memory, over that of a line of DRAM; more than zero.
    pub read_cost: f64,
    /// The same for a line written.
    pub write_cost: f64,
    /// Source of the figures.
    pub source: String,
}

impl MediumData {
    /// Returns the shipped medium with this name.
    ///
    /// # Errors
    /// If there is none; the error suggests the nearest name.
    pub fn shipped(name: &str) -> Result<Self, Refusal> {
        let text = shipped("medium", name, &MEDIA)?;
        Ok(Self::parse(name, text)
            .unwrap_or_else(|error| unreachable!("a shipped medium: {error}")))
    }

    /// Parses the text of a media file; `name` is its name in messages.
    ///
    /// # Errors
    /// If a value is invalid; the error has line, key and reason.
    pub fn parse(name: &str, text: &str) -> Result<Self, InputError> {
        let mut root = Document { name, text }.parse()?;
        root.only(&KEYS)?;
        Ok(Self {
            name: root.require("name")?.string()?.to_owned(),
            kind: root.require("kind")?.named()?,
            read_latency: latency(&root.require("read_latency_ns")?)?,
            write_latency: latency(&root.require("write_latency_ns")?)?,
            dram_latency: latency(&root.require("dram_latency_ns")?)?,
            read_cost: cost(&root.require("read_cost")?)?,
            write_cost: cost(&root.require("write_cost")?)?,
            source: source(&mut root)?,
        })
    }

    /// Returns the read and write latencies of this medium beside DRAM with the latency `dram`.
    #[must_use]
    pub fn latencies_beside(&self, dram: Picos) -> (Picos, Picos) {
        let beside = |latency: Picos| {
            Picos((dram.as_f64() * latency.ratio(self.dram_latency)).round().max(1.0) as u64)
        };
        (beside(self.read_latency), beside(self.write_latency))
    }
}

impl Media {
    /// Creates a machine with the shipped DRAM and `others` beside it, all on the node of the
    /// cores. The shipped DRAM among the others is skipped, because it is already there.
    ///
    /// # Errors
    /// If there are too many, or two share a name.
    pub fn with_dram(others: &[MediumData]) -> Result<Self, Refusal> {
        let latency = Self::dram_only().0[0].read_latency;
        let shipped = MediumData::shipped("dram")?;
        let others = others.iter().filter(|data| **data != shipped).map(|data| {
            let (read, write) = data.latencies_beside(latency);
            Medium::new(&data.name, data.kind, Distance::Local, [read, write])
        });
        Self::new(Self::dram_only().0.into_iter().chain(others).collect())
            .map_err(|error| Refusal::new(error.to_string(), "name each medium once"))
    }
}

/// Parses a latency in nanoseconds, from 0.001, the resolution of [`Picos`], to a millisecond.
///
/// # Errors
/// If the value is not such a number.
pub fn latency(value: &Value<'_>) -> Result<Picos, InputError> {
    let nanos = value.number_in(0.001..=1e6, "latency in nanoseconds")?;
    Ok(Picos((nanos * 1e3).round() as u64))
}

/// Parses the cost of a line over that of a line of DRAM, from 0.01 to 10,000.
///
/// # Errors
/// If the value is not such a number.
pub fn cost(value: &Value<'_>) -> Result<f64, InputError> {
    value.number_in(0.01..=1e4, "cost over that of a line of DRAM")
}

/// Parses the source of the figures, which is required.
///
/// # Errors
/// If it is missing or empty.
pub fn source(section: &mut Section<'_>) -> Result<String, InputError> {
    let value = section.require("source")?;
    let source = value.string()?.trim();
    if source.is_empty() {
        return Err(value
            .refuse("is empty")
            .help("say where the figures come from, or `estimated`"));
    }
    Ok(source.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::MediumId;

    #[test]
    fn media_beside_dram_keep_their_ratios() {
        let shipped = |name| MediumData::shipped(name).unwrap();
        let media = Media::with_dram(&[shipped("pram"), shipped("dram"), shipped("cxl")]).unwrap();
        let names: Vec<&str> = media.iter().map(|(_, medium)| medium.name.as_str()).collect();
        assert_eq!(names, ["dram", "pram", "cxl"]);
        let ratios = |number| {
            let id = MediumId::new(number).unwrap();
            (media.gamma(id), media.delta(id))
        };
        assert_eq!((ratios(0), ratios(1)), ((1.0, 1.0), (2.7, 8.6)));
        // 250 ns beside 100 ns of DRAM.
        assert_eq!(ratios(2), (2.5, 2.5));
        let twice = Media::with_dram(&[shipped("pram"), shipped("pram")]).unwrap_err();
        assert!(twice.reason.contains("two media are called `pram`"), "{twice:?}");
    }

    #[test]
    fn slower_dram_of_ones_own_stays_beside_the_shipped_one() {
        let far = MediumData {
            name: "far".to_owned(),
            read_latency: Picos::from_nanos(50),
            ..MediumData::shipped("dram").unwrap()
        };
        let media = Media::with_dram(std::slice::from_ref(&far)).unwrap();
        let id = media.find("far").unwrap();
        assert_eq!((media.len(), media.gamma(id), media.delta(id)), (2, 2.0, 1.0));
        let other = MediumData { name: "dram".to_owned(), ..far };
        let twice = Media::with_dram(&[other]).unwrap_err();
        assert!(twice.reason.contains("two media are called `dram`"), "{twice:?}");
    }
}
