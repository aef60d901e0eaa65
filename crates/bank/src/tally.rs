//! Counters of each program while the machine runs.

use memweir_core::Direction;
use memweir_dram::intervals::Intervals;
use memweir_dram::request::{Completion, RowCounts, RowOutcome};

use crate::clock::Time;

/// Number of banks with outstanding reads of a program, over time.
#[derive(Clone, Debug, Default)]
pub struct Parallelism {
    /// Outstanding reads of each bank.
    outstanding: Vec<u16>,
    /// Number of banks with outstanding reads.
    banks: u64,
    since: Time,
    /// Femtoseconds with at least one outstanding read.
    busy: u64,
    /// Integral of the number of banks over time, in banks times femtoseconds.
    area: u128,
}

impl Parallelism {
    fn until(&mut self, now: Time) {
        let span = now.since(self.since).0;
        if self.banks > 0 {
            self.busy += span;
            self.area += u128::from(self.banks) * u128::from(span);
        }
        self.since = now;
    }

    /// Records that a read of `bank` was accepted.
    pub fn begin(&mut self, bank: usize, now: Time) {
        self.until(now);
        if bank >= self.outstanding.len() {
            self.outstanding.resize(bank + 1, 0);
        }
        self.outstanding[bank] += 1;
        self.banks += u64::from(self.outstanding[bank] == 1);
    }

    /// Records that a read of `bank` was answered.
    pub fn end(&mut self, bank: usize, now: Time) {
        self.until(now);
        self.outstanding[bank] -= 1;
        self.banks -= u64::from(self.outstanding[bank] == 0);
    }

    /// Returns the mean number of banks with an outstanding read while there was at least one;
    /// `None` if there never was.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.busy > 0).then(|| self.area as f64 / self.busy as f64)
    }

    /// Returns the time during which at least one read was outstanding.
    #[must_use]
    pub fn busy(&self) -> Time {
        Time(self.busy)
    }
}

/// Counters of one thread, up to the end of its instructions. Its work after that, while other
/// threads are still running, is not counted.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Loads and stores that looked up the shared cache, or read memory if there is none.
    pub llc_accesses: u64,
    /// Those that missed: each is a memory read, or waits for an in-flight read of the same line.
    pub llc_misses: u64,
    /// Reads that memory answered.
    pub reads: u64,
    /// Written-back lines that the program had brought into the caches.
    pub writes: u64,
    /// Row-buffer outcomes of the reads.
    pub read_rows: RowCounts,
    /// Row-buffer outcomes of the writes.
    pub write_rows: RowCounts,
    /// Row-buffer conflicts, by the thread that had opened the other row.
    pub blamed: Vec<u64>,
    /// Sum over the reads of the time from arrival at memory, before its queue, to their data, in
    /// femtoseconds.
    pub read_latency: u128,
    /// Banks with outstanding reads over time.
    pub parallelism: Parallelism,
    /// Time spent in page faults.
    pub faulting: Time,
    /// Its requests over time, if they are wanted.
    pub over_time: Option<Intervals>,
}

impl Tally {
    /// Counts a request of the measured instructions that was completed at `at`.
    pub fn completed(&mut self, at: Time, completion: &Completion, latency: Time) {
        if let Some(intervals) = &mut self.over_time {
            intervals.count(at.picos(), completion, latency.picos());
        }
        match completion.request.direction {
            Direction::Read => {
                self.reads += 1;
                self.read_rows.count(completion.outcome);
                self.read_latency += u128::from(latency.0);
            }
            Direction::Write => {
                self.writes += 1;
                self.write_rows.count(completion.outcome);
            }
        }
        if completion.outcome == RowOutcome::Conflict {
            // If it is unknown who opened the row, the requester itself is blamed.
            let by = usize::from(completion.blamed.unwrap_or(completion.request.source).0);
            if by >= self.blamed.len() {
                self.blamed.resize(by + 1, 0);
            }
            self.blamed[by] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::{Cycles, PhysAddr};
    use memweir_dram::request::{Request, Source};

    use super::*;

    #[test]
    fn conflicts_are_charged_to_the_thread_that_had_opened_the_row() {
        let completion = |direction, outcome, blamed: Option<u16>| Completion {
            request: Request { address: PhysAddr(0), direction, source: Source(1), tag: 0 },
            accepted: Cycles(0),
            done: Cycles(0),
            outcome,
            blamed: blamed.map(Source),
        };
        let (read, write) = (Direction::Read, Direction::Write);
        let mut tally = Tally::default();
        for (completion, latency) in [
            (completion(read, RowOutcome::Hit, None), 10),
            (completion(read, RowOutcome::Conflict, Some(3)), 20),
            (completion(read, RowOutcome::Conflict, None), 30),
            (completion(write, RowOutcome::Conflict, Some(0)), 0),
            (completion(write, RowOutcome::Conflict, Some(3)), 0),
        ] {
            tally.completed(Time(0), &completion, Time(latency));
        }
        // If nobody is to blame, the requester is.
        assert_eq!(tally.blamed, [1, 1, 0, 2]);
        assert_eq!((tally.reads, tally.writes, tally.read_latency), (3, 2, 60));
        assert_eq!((tally.read_rows.hits, tally.read_rows.conflicts), (1, 2));
        assert_eq!(tally.write_rows.conflicts, 2);
    }

    #[test]
    fn parallelism_counts_banks_not_requests() {
        let mut parallelism = Parallelism::default();
        // One bank for 10, two for 10, one for 10 with two requests, none for 70.
        parallelism.begin(3, Time(0));
        parallelism.begin(5, Time(10));
        parallelism.begin(3, Time(10));
        parallelism.end(5, Time(20));
        parallelism.end(3, Time(25));
        parallelism.end(3, Time(30));
        parallelism.begin(0, Time(100));
        assert_eq!(parallelism.mean(), Some(40.0 / 30.0));
        assert_eq!(parallelism.busy(), Time(30));
    }
}
