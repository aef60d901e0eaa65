//! Measurements of a driven memory.

use std::ops::AddAssign;

use memweir_core::Cycles;

use super::Latencies;
use crate::request::{Completion, RowCounts};
use crate::stats::Stats;

/// Measurements of a run. `rows` has all reads and writes, and every read is in `latencies`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Driven {
    /// Completed reads.
    pub reads: u64,
    /// Completed writes.
    pub writes: u64,
    /// Cycles of the driver's loop: one more than the cycle of the last completion.
    pub cycles: Cycles,
    /// The requests by the state in which they found their banks.
    pub rows: RowCounts,
    /// Latency of every read, from its acceptance (its due cycle if it is paced) to its last data
    /// beat.
    pub latencies: Latencies,
}

impl Driven {
    /// Returns the number of completed requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// Counts a completion, and its latency if it has one (a read).
    pub(super) fn count(&mut self, completion: &Completion, latency: Option<u64>) {
        match latency {
            Some(latency) => {
                self.reads += 1;
                self.latencies.record(latency);
            }
            None => self.writes += 1,
        }
        self.rows.count(completion.outcome);
        self.cycles = self.cycles.max(Cycles(completion.done.0 + 1));
    }

    /// Compares the sums with each other and with the counts of the memory.
    ///
    /// # Errors
    /// If two sums differ, which is a fault of this program; the results are then of no use.
    pub fn verify(&self, offered: u64, stats: &Stats) -> Result<(), String> {
        let pairs = [
            ("answered requests", self.requests(), "offered requests", offered),
            ("hits, misses and conflicts", self.rows.total(), "requests", self.requests()),
            ("latencies", self.latencies.count(), "reads", self.reads),
            ("reads", self.reads, "reads of the memory", stats.reads),
            ("writes", self.writes, "writes of the memory", stats.writes),
            ("row hits", self.rows.hits, "row hits of the memory", stats.row_hits),
            ("row misses", self.rows.misses, "row misses of the memory", stats.row_misses),
            (
                "row conflicts",
                self.rows.conflicts,
                "row conflicts of the memory",
                stats.row_conflicts,
            ),
        ];
        match pairs.into_iter().find(|(_, one, _, other)| one != other) {
            None => Ok(()),
            Some((what, one, than, other)) => {
                Err(format!("the sums do not agree: {one} {what}, {other} {than}"))
            }
        }
    }
}

/// Adds the measurements of a time that follows.
impl AddAssign<&Self> for Driven {
    fn add_assign(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.cycles.0 += other.cycles.0;
        self.rows = self.rows.and(other.rows);
        self.latencies += &other.latencies;
    }
}

/// Measurements of a memory, and of its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct DrivenParts {
    /// Requests that the memory accepted in this time, those on their way over a link included.
    pub accepted: u64,
    /// Measurements of the memory as a whole.
    pub whole: Driven,
    /// Measurements of each part, in cycles of the driver's clock; empty for one memory alone.
    pub parts: Vec<Driven>,
    /// Events that the memory, or each part, counted by itself.
    pub stats: Vec<Stats>,
    /// The same of the warm-up before, if there was one.
    pub warm_up: Option<Box<Self>>,
}

impl DrivenParts {
    /// Returns the cycle after the last one, counted from the start of the memory.
    #[must_use]
    pub fn end(&self) -> Cycles {
        let before = self.warm_up.as_ref().map_or(0, |before| before.whole.cycles.0);
        Cycles(before + self.whole.cycles.0)
    }

    /// Returns the events that all parts counted.
    #[must_use]
    pub fn all_stats(&self) -> Stats {
        let mut all = Stats::default();
        self.stats.iter().for_each(|part| all += *part);
        all
    }

    /// Compares the sums of all requests, those of the warm-up included, with each other and with
    /// the counts of the memory; see [`Driven::verify`].
    ///
    /// # Errors
    /// If two sums differ, which is a fault of this program; the results are then of no use.
    pub fn verify(&self, offered: u64) -> Result<(), String> {
        let mut all = self.clone();
        if let Some(before) = &self.warm_up {
            all.whole += &before.whole;
            all.parts.iter_mut().zip(&before.parts).for_each(|(part, before)| *part += before);
            all.stats.iter_mut().zip(&before.stats).for_each(|(part, before)| *part += *before);
        }
        all.whole.verify(offered, &all.all_stats())?;
        let mut parts = all.parts.iter().zip(&all.stats);
        parts.try_for_each(|(part, stats)| part.verify(part.requests(), stats))
    }
}
