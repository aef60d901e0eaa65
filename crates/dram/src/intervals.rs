//! Requests by the interval of time in which they were completed.

use std::ops::AddAssign;

use memweir_core::{Direction, Picos};

use crate::request::{Completion, RowCounts};

/// Requests that were completed in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Both, by the state in which they found their banks.
    pub rows: RowCounts,
    /// Sum of the reads' latencies.
    pub latency: Picos,
}

impl Interval {
    fn count(&mut self, completion: &Completion, latency: Picos) {
        match completion.request.direction {
            Direction::Read => {
                self.reads += 1;
                self.latency.0 += latency.0;
            }
            Direction::Write => self.writes += 1,
        }
        self.rows.count(completion.outcome);
    }

    /// Returns the mean latency of the reads in nanoseconds; `None` without reads.
    #[must_use]
    pub fn latency_ns(&self) -> Option<f64> {
        (self.reads > 0).then(|| self.latency.0 as f64 / 1e3 / self.reads as f64)
    }
}

impl AddAssign for Interval {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.rows = self.rows.and(other.rows);
        self.latency.0 += other.latency.0;
    }
}

/// The completed requests of one memory or program, interval by interval from time zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intervals {
    length: Picos,
    all: Vec<Interval>,
}

impl Intervals {
    /// Creates the record of a time without requests, in intervals of this length, at least one
    /// picosecond.
    #[must_use]
    pub fn new(length: Picos) -> Self {
        Self { length: Picos(length.0.max(1)), all: Vec::new() }
    }

    /// Returns the length of an interval.
    #[must_use]
    pub fn length(&self) -> Picos {
        self.length
    }

    /// Counts a request that was completed at `at`. The latency of a write does not count.
    pub fn count(&mut self, at: Picos, completion: &Completion, latency: Picos) {
        let index = (at.0 / self.length.0) as usize;
        if index >= self.all.len() {
            self.all.resize(index + 1, Interval::default());
        }
        self.all[index].count(completion, latency);
    }

    /// Returns start and length of each interval up to `end`, with its requests. The last may be
    /// shorter than the others, and has what was completed after `end`.
    pub fn until(&self, end: Picos) -> impl Iterator<Item = (Picos, Picos, Interval)> {
        let last = end.0.div_ceil(self.length.0).max(1) - 1;
        (0..=last).map(move |index| {
            let start = index * self.length.0;
            let mut requests = self.all.get(index as usize).copied().unwrap_or_default();
            if index == last {
                self.all.iter().skip(index as usize + 1).for_each(|late| requests += *late);
            }
            (Picos(start), Picos(self.length.0.min(end.0 - start)), requests)
        })
    }
}

/// Adds the requests of another record with intervals of the same length.
impl AddAssign<&Self> for Intervals {
    fn add_assign(&mut self, other: &Self) {
        debug_assert_eq!(self.length, other.length, "intervals are added one by one");
        if self.all.len() < other.all.len() {
            self.all.resize(other.all.len(), Interval::default());
        }
        for (own, others) in self.all.iter_mut().zip(&other.all) {
            *own += *others;
        }
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::{Cycles, PhysAddr};

    use super::*;
    use crate::request::{Request, RowOutcome, Source};

    fn completion(direction: Direction, outcome: RowOutcome) -> Completion {
        let request = Request { address: PhysAddr(0), direction, source: Source(0), tag: 0 };
        Completion { request, accepted: Cycles(0), done: Cycles(0), outcome, blamed: None }
    }

    #[test]
    fn requests_stand_in_the_interval_of_their_completion() {
        let mut intervals = Intervals::new(Picos(100));
        let read = |outcome| completion(Direction::Read, outcome);
        intervals.count(Picos(0), &read(RowOutcome::Miss), Picos(30));
        intervals.count(Picos(99), &read(RowOutcome::Hit), Picos(10));
        intervals.count(Picos(100), &completion(Direction::Write, RowOutcome::Conflict), Picos(5));
        let mut others = Intervals::new(Picos(100));
        others.count(Picos(230), &read(RowOutcome::Hit), Picos(40));
        intervals += &others;

        let rows: Vec<_> = intervals.until(Picos(250)).collect();
        let spans: Vec<_> = rows.iter().map(|(start, length, _)| (start.0, length.0)).collect();
        assert_eq!(spans, [(0, 100), (100, 100), (200, 50)]);
        let [first, second, third] = [rows[0].2, rows[1].2, rows[2].2];
        assert_eq!((first.reads, first.rows.hits, first.rows.misses), (2, 1, 1));
        assert_eq!((first.latency_ns(), first.rows.hit_rate()), (Some(0.02), Some(0.5)));
        assert_eq!((second.writes, second.rows.conflicts, second.latency_ns()), (1, 1, None));
        assert_eq!((third.rows.total(), third.rows.hit_rate()), (1, Some(1.0)));
    }

    #[test]
    fn the_last_interval_has_what_was_completed_after_the_end() {
        let mut intervals = Intervals::new(Picos(100));
        intervals.count(Picos(310), &completion(Direction::Write, RowOutcome::Hit), Picos(0));
        let rows: Vec<_> = intervals.until(Picos(200)).collect();
        assert_eq!(rows.iter().map(|(.., requests)| requests.writes).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(Intervals::new(Picos(100)).until(Picos(0)).count(), 1);
    }
}
