//! A profile from a scheduled run: the readings of a job at the ends of its quanta.
//!
//! The run is not a run alone, but its counts lie along CPU time, which stands still while the job
//! is blocked; beside others it takes more CPU time than alone.

use memweir_core::profile::Profile;
use memweir_core::{Counts, Nanos};
use memweir_policy::Observation;

use super::SHORTEST_INTERVAL;
use super::timing::{NativeTime, Slice, lay_on_time};

/// Slices beyond which pairs of them are merged, so that a job of weeks takes no more memory than
/// one of minutes.
const MAX_SLICES: usize = 8192;

/// Readings of one job from its start on.
#[derive(Clone, Debug)]
pub struct Observed {
    slices: Vec<Slice>,
    /// Readings in a full slice.
    per_slice: u32,
    /// Readings in the last slice.
    in_last: u32,
    cpu_time: Nanos,
    /// True once a reading had no counts or no CPU time.
    has_gaps: bool,
}

impl Default for Observed {
    fn default() -> Self {
        let (slices, cpu_time) = (Vec::new(), Nanos::ZERO);
        Self { slices, per_slice: 1, in_last: 0, cpu_time, has_gaps: false }
    }
}

impl Observed {
    /// Adds a reading.
    pub fn add(&mut self, observation: &Observation) {
        let Some((counts, cpu_time)) = observation.counts.zip(observation.cpu_time) else {
            self.has_gaps = true;
            return;
        };
        self.cpu_time += cpu_time;
        let weight = cpu_time.as_f64();
        match self.slices.last_mut() {
            Some(last) if self.in_last < self.per_slice => {
                last.counts += counts;
                last.weight += weight;
                self.in_last += 1;
            }
            _ => {
                self.slices.push(Slice { counts, weight, instruction_pointers: Vec::new() });
                self.in_last = 1;
            }
        }
        if self.slices.len() > MAX_SLICES {
            self.merge();
        }
    }

    fn merge(&mut self) {
        let pair = |pair: &[Slice]| Slice {
            counts: pair.iter().fold(Counts::default(), |sum, slice| sum + slice.counts),
            weight: pair.iter().map(|slice| slice.weight).sum(),
            instruction_pointers: Vec::new(),
        };
        let is_single = self.slices.len() % 2 == 1;
        self.slices = self.slices.chunks(2).map(pair).collect();
        self.in_last += if is_single { 0 } else { self.per_slice };
        self.per_slice *= 2;
    }

    /// Returns the profile of a job that had cores for `wall`; `None` if it used no CPU time, or
    /// some of it was not counted.
    #[must_use]
    pub fn profile(&self, wall: Nanos) -> Option<Profile> {
        if self.has_gaps || self.cpu_time == Nanos::ZERO {
            return None;
        }
        let interval = Nanos(self.cpu_time.0 / self.slices.len() as u64).max(SHORTEST_INTERVAL);
        let time = NativeTime { cpu: self.cpu_time, wall };
        Some(lay_on_time(&self.slices, time, interval))
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::{JobId, Lines};

    use super::*;

    fn reading(cpu_ms: u64, reads: u64) -> Observation {
        let counts = Counts::new(0, Lines(reads), Lines(0));
        Observation::new(JobId(1), Nanos::from_millis(cpu_ms), Some(counts))
    }

    #[test]
    fn readings_become_intervals_of_cpu_time() {
        let mut observed = Observed::default();
        for (cpu, reads) in [(100, 10), (0, 0), (200, 60), (100, 5)] {
            observed.add(&reading(cpu, reads));
        }
        let profile = observed.profile(Nanos::from_millis(450)).unwrap();
        assert_eq!(
            (profile.cpu_time, profile.wall_time),
            (Nanos::from_millis(400), Nanos::from_millis(450),)
        );
        let reads: Vec<u64> = profile.intervals.iter().map(|counts| counts.reads.0).collect();
        assert_eq!(reads, [10, 30, 30, 5]);
    }

    #[test]
    fn a_run_with_gaps_or_without_cpu_time_is_no_profile() {
        let mut observed = Observed::default();
        assert_eq!(observed.profile(Nanos::MILLI), None);
        observed.add(&reading(100, 1));
        assert!(observed.profile(Nanos::MILLI).is_some());
        for gap in [
            Observation { counts: None, ..reading(100, 1) },
            Observation { cpu_time: None, ..reading(100, 1) },
        ] {
            let mut with_gap = observed.clone();
            with_gap.add(&gap);
            assert_eq!(with_gap.profile(Nanos::MILLI), None);
        }
    }

    #[test]
    fn a_long_run_is_merged_and_loses_nothing() {
        let mut observed = Observed::default();
        let readings = MAX_SLICES as u64 * 5 + 3;
        (0..readings).for_each(|number| observed.add(&reading(1, number)));
        assert!(observed.slices.len() <= MAX_SLICES);
        let profile = observed.profile(Nanos::MILLI).unwrap();
        assert_eq!(profile.total().reads.0, readings * (readings - 1) / 2);
        assert_eq!(profile.cpu_time, Nanos::from_millis(readings));
    }
}
