//! Memory media as a task sees them: DRAM and slower memories, local and remote.
//!
//! A machine has at most [`MAX_MEDIA`] of them, numbered by [`MediumId`] in the order of its
//! [`Media`]. The first is the local DRAM: traffic that a meter cannot attribute counts as that.
//! The simulator, not this module, models the bandwidth of a medium.

pub mod data;

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use crate::units::{Lines, Picos};

/// Number of media that one machine can have, including the local DRAM: enough for two kinds of
/// memory on the local and on a remote node.
pub const MAX_MEDIA: usize = 4;

/// Number of a medium in the order of [`Media`]; less than [`MAX_MEDIA`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MediumId(u8);

impl MediumId {
    /// The local DRAM, the first medium of every machine.
    pub const LOCAL_DRAM: Self = Self(0);

    /// Every number that a medium can have.
    pub const ALL: [Self; MAX_MEDIA] = [Self(0), Self(1), Self(2), Self(3)];

    /// Returns the medium with this number; `None` from [`MAX_MEDIA`] on.
    #[must_use]
    pub fn new(number: usize) -> Option<Self> {
        Self::ALL.get(number).copied()
    }

    /// Returns the number, as an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Kind of a medium, as distinguished by hmmsched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediumKind {
    /// DRAM on a memory bus.
    Dram,
    /// Byte-addressable memory slower than DRAM: PRAM, STT-RAM, or memory behind CXL.
    Nvm,
}

crate::named! { pub MediumKind, "kind of memory": Dram = "dram", Nvm = "nvm" }

/// Distance of a medium from the core that accesses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distance {
    /// On the node of the core.
    Local,
    /// On another node.
    Remote,
}

/// One medium, with its latencies as seen by the cores (hmmsched Table I; those of a remote medium
/// include the link).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Medium {
    /// Name for people: `dram`, `pram`, `cxl`.
    pub name: String,
    /// Kind of memory.
    pub kind: MediumKind,
    /// Distance from the cores.
    pub distance: Distance,
    /// Latency of a read; more than zero.
    pub read_latency: Picos,
    /// Latency of a write; more than zero.
    pub write_latency: Picos,
}

impl Medium {
    /// Creates a medium with these latencies of a read and of a write.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        kind: MediumKind,
        distance: Distance,
        [read_latency, write_latency]: [Picos; 2],
    ) -> Self {
        Self { name: name.into(), kind, distance, read_latency, write_latency }
    }
}

/// The media of a machine: at least one, and the first is local DRAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Medium>")]
pub struct Media(Vec<Medium>);

impl TryFrom<Vec<Medium>> for Media {
    type Error = MediaError;

    fn try_from(media: Vec<Medium>) -> Result<Self, MediaError> {
        Self::new(media)
    }
}

/// Error for an invalid list of media.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// The list is empty, or the first medium is something else.
    #[error("the first medium must be local DRAM: the others are measured by it")]
    NoLocalDram,
    /// There are more than [`MAX_MEDIA`].
    #[error("{0} media, where a machine has at most {MAX_MEDIA}")]
    TooMany(usize),
    /// Two media share a name.
    #[error("two media are called `{0}`")]
    Duplicate(String),
    /// A latency is zero.
    #[error("the latencies of `{0}` must be more than zero")]
    NoLatency(String),
}

impl Media {
    /// Creates a machine with these media.
    ///
    /// # Errors
    /// If the first is not local DRAM, there are too many, two share a name, or one has no latency.
    pub fn new(media: Vec<Medium>) -> Result<Self, MediaError> {
        match media.first() {
            Some(first) if (first.kind, first.distance) == (MediumKind::Dram, Distance::Local) => {}
            _ => return Err(MediaError::NoLocalDram),
        }
        if media.len() > MAX_MEDIA {
            return Err(MediaError::TooMany(media.len()));
        }
        for (number, medium) in media.iter().enumerate() {
            if medium.read_latency == Picos::ZERO || medium.write_latency == Picos::ZERO {
                return Err(MediaError::NoLatency(medium.name.clone()));
            }
            if media[..number].iter().any(|other| other.name == medium.name) {
                return Err(MediaError::Duplicate(medium.name.clone()));
            }
        }
        Ok(Self(media))
    }

    /// Returns a machine with only DRAM, with the latency of hmmsched Table I.
    #[must_use]
    pub fn dram_only() -> Self {
        let latencies = [Picos::from_nanos(25); 2];
        Self(vec![Medium::new("dram", MediumKind::Dram, Distance::Local, latencies)])
    }

    /// Returns the media in order, each with its number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (MediumId, &Medium)> + Clone {
        MediumId::ALL.into_iter().zip(&self.0)
    }

    /// Returns the number of media; at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is always a local DRAM")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the medium with this number, if the machine has it.
    #[must_use]
    pub fn get(&self, id: MediumId) -> Option<&Medium> {
        self.0.get(id.index())
    }

    /// Returns the number of the medium with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<MediumId> {
        self.iter().find(|(_, medium)| medium.name == name).map(|(id, _)| id)
    }

    /// Returns the read latency over the local DRAM's read latency, the gamma of hmmsched Table
    /// III. One for a number that the machine does not have.
    #[must_use]
    pub fn gamma(&self, id: MediumId) -> f64 {
        self.get(id).map_or(1.0, |medium| medium.read_latency.ratio(self.0[0].read_latency))
    }

    /// Returns the write latency over the local DRAM's read latency, the delta of hmmsched Table
    /// III. One for a number that the machine does not have.
    #[must_use]
    pub fn delta(&self, id: MediumId) -> f64 {
        self.get(id).map_or(1.0, |medium| medium.write_latency.ratio(self.0[0].read_latency))
    }
}

impl Default for Media {
    fn default() -> Self {
        Self::dram_only()
    }
}

/// Memory transactions with one medium, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Lines read.
    pub reads: Lines,
    /// Lines written.
    pub writes: Lines,
}

impl Traffic {
    /// Returns the transactions in both directions.
    #[must_use]
    pub fn lines(&self) -> Lines {
        self.reads + self.writes
    }

    /// Returns the traffic since `earlier`. A counter that went backwards counts as zero.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
        }
    }
}

impl Add for Traffic {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { reads: self.reads + other.reads, writes: self.writes + other.writes }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medium(name: &str, kind: MediumKind, read: u64, write: u64) -> Medium {
        Medium::new(name, kind, Distance::Local, [read, write].map(Picos))
    }

    #[test]
    fn gamma_and_delta_of_table_i() {
        let media = Media::new(vec![
            medium("dram", MediumKind::Dram, 25_000, 25_000),
            medium("stt-ram", MediumKind::Nvm, 29_500, 95_000),
            medium("pram", MediumKind::Nvm, 67_500, 215_000),
        ])
        .unwrap();
        let ratios = |name| {
            let id = media.find(name).unwrap();
            (media.gamma(id), media.delta(id))
        };
        assert_eq!(ratios("dram"), (1.0, 1.0));
        assert_eq!(ratios("stt-ram"), (1.18, 3.8));
        assert_eq!(ratios("pram"), (2.7, 8.6));
        assert_eq!(media.gamma(MediumId::new(3).unwrap()), 1.0);
        assert_eq!(media.find("cxl"), None);
    }

    #[test]
    fn lists_that_cannot_be_a_machine_are_refused() {
        let dram = medium("dram", MediumKind::Dram, 1, 1);
        assert_eq!(Media::new(vec![]), Err(MediaError::NoLocalDram));
        let remote = Medium { distance: Distance::Remote, ..dram.clone() };
        assert_eq!(Media::new(vec![remote]), Err(MediaError::NoLocalDram));
        let pram = medium("pram", MediumKind::Nvm, 3, 0);
        assert_eq!(
            Media::new(vec![dram.clone(), pram]),
            Err(MediaError::NoLatency("pram".to_owned()))
        );
        assert_eq!(
            Media::new(vec![dram.clone(), dram.clone()]),
            Err(MediaError::Duplicate("dram".to_owned()))
        );
        let named = |n: usize| Medium { name: n.to_string(), ..dram.clone() };
        assert_eq!(Media::new((0..5).map(named).collect()), Err(MediaError::TooMany(5)));
    }
}
