//! A program's memory behavior along its own unhindered execution.
//!
//! `memweir profile` records a [`Profile`]; `run --meter declared` and the simulator follow it. The
//! profile store, not the profile, records its origin.

use serde::{Deserialize, Serialize};

use crate::counts::Counts;
use crate::units::{BytesPerSec, Nanos};

/// Counts per interval of native time, from the start of the program to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Length of one interval of native CPU time; more than zero.
    pub interval: Nanos,
    /// Counts of each interval. The last one may be shorter than the others.
    pub intervals: Vec<Counts>,
    /// CPU time of the whole program when it ran alone.
    pub cpu_time: Nanos,
    /// Wall-clock time of the whole program when it ran alone.
    pub wall_time: Nanos,
}

impl Profile {
    /// Creates the profile of a steady program: the same rate for `cpu_time`, as declared in jobs
    /// files.
    #[must_use]
    pub fn steady(cpu_time: Nanos, total: Counts) -> Self {
        Self {
            interval: Nanos(cpu_time.0.max(1)),
            intervals: vec![total],
            cpu_time,
            wall_time: cpu_time,
        }
    }

    /// Returns the sum over all intervals.
    #[must_use]
    pub fn total(&self) -> Counts {
        self.intervals.iter().fold(Counts::default(), |sum, counts| sum + *counts)
    }

    /// Returns the mean bandwidth over the CPU time, the `B_j` of iabw eq. (8).
    #[must_use]
    pub fn mean_bandwidth(&self) -> BytesPerSec {
        self.total().bandwidth(self.cpu_time)
    }

    /// Returns the highest bandwidth of any interval.
    #[must_use]
    pub fn peak_bandwidth(&self) -> BytesPerSec {
        (0..self.intervals.len())
            .map(|i| self.intervals[i].bandwidth(self.span_of(i)))
            .fold(BytesPerSec::ZERO, BytesPerSec::max)
    }

    /// Returns the counts between the CPU times `from` and `to` of the run; intervals at both ends
    /// count in proportion. Past the end of the recording the counts are zero.
    #[must_use]
    pub fn between(&self, from: Nanos, to: Nanos) -> Counts {
        let mut sum = Counts::default().figures();
        let first = (from.0 / self.interval.0) as usize;
        for index in first..self.intervals.len() {
            let start = index as u64 * self.interval.0;
            if start >= to.0 {
                break;
            }
            let span = self.span_of(index).0;
            let end = (start + span).min(to.0);
            let share = end.saturating_sub(start.max(from.0)) as f64 / span.max(1) as f64;
            for (sum, figure) in sum.iter_mut().zip(self.intervals[index].figures()) {
                *sum += figure * share;
            }
        }
        Counts::from_figures(sum)
    }

    /// Returns the same recording in intervals `factor` times as long (at least one).
    #[must_use]
    pub fn coarser(&self, factor: usize) -> Self {
        let intervals = self
            .intervals
            .chunks(factor.max(1))
            .map(|chunk| chunk.iter().fold(Counts::default(), |sum, counts| sum + *counts))
            .collect();
        Self { interval: Nanos(self.interval.0 * factor.max(1) as u64), intervals, ..*self }
    }

    /// Returns the length of interval `index`; the last one ends with the program.
    #[must_use]
    pub fn span_of(&self, index: usize) -> Nanos {
        let start = index as u64 * self.interval.0;
        Nanos(self.interval.0.min(self.cpu_time.0.saturating_sub(start)).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Lines;

    fn lines(reads: u64) -> Counts {
        Counts { instructions: 10 * reads, reads: Lines(reads), ..Counts::default() }
    }

    fn sample() -> Profile {
        Profile {
            interval: Nanos(100),
            intervals: vec![lines(10), lines(30), lines(5)],
            cpu_time: Nanos(250),
            wall_time: Nanos(300),
        }
    }

    #[test]
    fn between_takes_shares_of_the_intervals_at_both_ends() {
        let profile = sample();
        assert_eq!(profile.between(Nanos(0), Nanos(100)), lines(10));
        // Half of the first, half of the second.
        assert_eq!(profile.between(Nanos(50), Nanos(150)), lines(20));
        // The last interval is 50 ns long: its first half is a half of its lines.
        assert_eq!(profile.between(Nanos(200), Nanos(225)).reads, Lines(3));
        assert_eq!(profile.between(Nanos(250), Nanos(900)), Counts::default());
        assert_eq!(profile.between(Nanos(0), Nanos(900)), profile.total());
    }

    #[test]
    fn peak_uses_the_length_of_the_short_last_interval() {
        // 30 lines in 100 ns, against 5 in 50.
        let expected = Lines(30).over(Nanos(100));
        assert_eq!(sample().peak_bandwidth(), expected);
    }

    #[test]
    fn no_span_is_zero() {
        assert_eq!(Profile::steady(Nanos(0), lines(1)).interval, Nanos(1));
        assert_eq!(Profile::steady(Nanos(9), lines(1)).interval, Nanos(9));
        // The program ended where the last interval began.
        let ended = Profile { cpu_time: Nanos(200), ..sample() };
        assert_eq!([0, 1, 2].map(|index| ended.span_of(index)), [Nanos(100), Nanos(100), Nanos(1)]);
        assert_eq!(ended.mean_bandwidth(), Lines(45).over(Nanos(200)));
    }

    #[test]
    fn coarser_keeps_the_total() {
        assert_eq!(sample().coarser(0), sample());
        let coarse = sample().coarser(2);
        assert_eq!(coarse.intervals, vec![lines(40), lines(5)]);
        assert_eq!(coarse.interval, Nanos(200));
        assert_eq!(coarse.total(), sample().total());
    }
}
