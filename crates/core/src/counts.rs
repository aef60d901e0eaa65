//! Counts that a meter delivers for a job.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use crate::medium::{MAX_MEDIA, MediumId, Traffic};
use crate::units::{BytesPerSec, Lines, Nanos};

/// Number of figures of one [`Counts`]: instructions, and two directions each for the total and for
/// every medium except the local DRAM.
const FIGURES: usize = 1 + 2 * MAX_MEDIA;

/// Events of one job, over some span or since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions retired; zero if the meter cannot count them.
    pub instructions: u64,
    /// Lines read from memory (demand and prefetch fills as far as the meter sees them).
    pub reads: Lines,
    /// Lines written back to memory; zero if the meter counts only reads.
    pub writes: Lines,
    /// Part of these reads and writes that did not go to the local DRAM; empty if the meter does
    /// not distinguish media.
    #[serde(default, skip_serializing_if = "Elsewhere::is_empty")]
    pub elsewhere: Elsewhere,
}

/// Memory transactions with each medium but the local DRAM, in the order of
/// [`Media`](crate::Media).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Elsewhere([Traffic; MAX_MEDIA - 1]);

impl Elsewhere {
    /// Returns true if all counts are zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the sum over the media.
    #[must_use]
    pub fn total(&self) -> Traffic {
        self.0.into_iter().fold(Traffic::default(), Traffic::add)
    }
}

impl Counts {
    /// Creates counts of a meter that does not distinguish media.
    #[must_use]
    pub fn new(instructions: u64, reads: Lines, writes: Lines) -> Self {
        Self { instructions, reads, writes, elsewhere: Elsewhere::default() }
    }

    /// Creates counts with this traffic with each medium, in the order of [`Media`](crate::Media).
    #[must_use]
    pub fn by_medium(instructions: u64, traffic: [Traffic; MAX_MEDIA]) -> Self {
        let [local, elsewhere @ ..] = traffic;
        let elsewhere = Elsewhere(elsewhere);
        let total = local + elsewhere.total();
        Self { instructions, reads: total.reads, writes: total.writes, elsewhere }
    }

    /// Returns the traffic with one medium. The local DRAM has the traffic that did not go
    /// elsewhere.
    #[must_use]
    pub fn traffic(&self, medium: MediumId) -> Traffic {
        match medium.index().checked_sub(1) {
            Some(other) => self.elsewhere.0[other],
            None => {
                Traffic { reads: self.reads, writes: self.writes }.since(&self.elsewhere.total())
            }
        }
    }

    /// Returns every figure times `factor`, rounded: a share of an interval, or of the time for
    /// which a counter ran.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self::from_figures(self.figures().map(|figure| figure * factor))
    }

    /// Returns all figures in a row, for sums of shares that are rounded once.
    pub(crate) fn figures(&self) -> [f64; FIGURES] {
        let mut figures = [self.instructions as f64, self.reads.as_f64(), self.writes.as_f64()]
            .into_iter()
            .chain(self.elsewhere.0.iter().flat_map(|t| [t.reads.as_f64(), t.writes.as_f64()]));
        std::array::from_fn(|_| figures.next().unwrap_or(0.0))
    }

    /// Returns the counts with these [`figures`](Self::figures), rounded.
    pub(crate) fn from_figures(figures: [f64; FIGURES]) -> Self {
        let figures = figures.map(|figure| figure.round() as u64);
        let traffic =
            |at: usize| Traffic { reads: Lines(figures[at]), writes: Lines(figures[at + 1]) };
        let total = traffic(1);
        Self {
            instructions: figures[0],
            reads: total.reads,
            writes: total.writes,
            elsewhere: Elsewhere(std::array::from_fn(|medium| traffic(3 + 2 * medium))),
        }
    }

    /// Returns the memory transactions in both directions.
    #[must_use]
    pub fn lines(&self) -> Lines {
        self.reads + self.writes
    }

    /// Returns the bandwidth of these transactions over `span`.
    #[must_use]
    pub fn bandwidth(&self, span: Nanos) -> BytesPerSec {
        self.lines().over(span)
    }

    /// Returns the counts since `earlier`. A counter that went backwards counts as zero.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            instructions: self.instructions.saturating_sub(earlier.instructions),
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            elsewhere: Elsewhere(std::array::from_fn(|medium| {
                self.elsewhere.0[medium].since(&earlier.elsewhere.0[medium])
            })),
        }
    }
}

impl Add for Counts {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            instructions: self.instructions + other.instructions,
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            elsewhere: Elsewhere(std::array::from_fn(|medium| {
                self.elsewhere.0[medium] + other.elsewhere.0[medium]
            })),
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(reads: u64, writes: u64) -> Traffic {
        Traffic { reads: Lines(reads), writes: Lines(writes) }
    }

    #[test]
    fn what_did_not_go_elsewhere_went_to_the_local_dram() {
        let media = [traffic(10, 1), traffic(20, 2), traffic(0, 0), traffic(40, 4)];
        let counts = Counts::by_medium(5, media);
        assert_eq!((counts.reads, counts.writes), (Lines(70), Lines(7)));
        assert_eq!(MediumId::ALL.map(|medium| counts.traffic(medium)), media);
        let twice = counts + counts;
        assert_eq!(twice.traffic(MediumId::ALL[3]), traffic(80, 8));
        assert_eq!(twice.since(&counts), counts);
        let untold = Counts { reads: Lines(9), ..Counts::default() };
        assert_eq!(untold.traffic(MediumId::LOCAL_DRAM), traffic(9, 0));
    }
}
