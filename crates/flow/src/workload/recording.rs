//! Recordings of `memweir profile` as programs.
//!
//! This module does not read the Parquet files: `memweir_run::recording` reads them, refuses
//! invalid ones, and provides the [`Profile`]. The one check that only the simulator needs is here:
//! the recording must reach to the end of the program.

use memweir_core::profile::Profile;
use memweir_core::{BytesPerSec, Counts, MediumId, Nanos};

use crate::program::{Demand, Flow, Program, Span};

/// Refusal of a recording.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum RecordingError {
    /// The recording is empty.
    #[error("the recording has no intervals")]
    Empty,
    /// The recording ends before the program does.
    #[error(
        "the recording is truncated: its intervals end after {} s, the program took {} s",
        .recorded.as_secs_f64(), .cpu_time.as_secs_f64()
    )]
    Truncated {
        /// End of its intervals.
        recorded: Nanos,
        /// CPU time of the program.
        cpu_time: Nanos,
    },
}

impl Program {
    /// Creates the program of which `profile` is the recording, made while it ran alone.
    ///
    /// A recording has no stalls: a span's stall is taken to be its bandwidth over `core_peak`,
    /// which a core draws when it does nothing else. An interval with more bandwidth than that was
    /// recorded on a machine with faster cores, and takes longer here. Media that the meter
    /// distinguished stay separate, in the order of the machine's memories.
    ///
    /// # Errors
    /// If the recording is empty, or ends more than an interval before the program does.
    pub fn from_profile(
        name: impl Into<String>,
        profile: &Profile,
        core_peak: BytesPerSec,
    ) -> Result<Self, RecordingError> {
        if profile.intervals.is_empty() {
            return Err(RecordingError::Empty);
        }
        let recorded = Nanos(profile.interval.0.saturating_mul(profile.intervals.len() as u64));
        if recorded.0.saturating_add(profile.interval.0) <= profile.cpu_time.0 {
            return Err(RecordingError::Truncated { recorded, cpu_time: profile.cpu_time });
        }
        let mut spans: Vec<Span> = Vec::new();
        for (index, counts) in profile.intervals.iter().enumerate() {
            let recorded = profile.span_of(index);
            let stretch = (counts.bandwidth(recorded).0 / core_peak.0).max(1.0);
            let length = Nanos((recorded.0 as f64 * stretch).round() as u64);
            let demand = demand(counts, length, core_peak);
            match spans.last_mut() {
                Some(last) if last.demand == demand => last.length += length,
                _ => spans.push(Span { length, demand }),
            }
        }
        Ok(Self { name: name.into(), spans })
    }
}

fn demand(counts: &Counts, length: Nanos, core_peak: BytesPerSec) -> Demand {
    let flow = |medium: MediumId| {
        let traffic = counts.traffic(medium);
        Flow { reads: traffic.reads.over(length), writes: traffic.writes.over(length) }
    };
    Demand {
        instructions: counts.instructions as f64 / length.as_secs_f64(),
        flows: MediumId::ALL.map(flow),
        stall: (counts.bandwidth(length).0 / core_peak.0).min(1.0),
        code: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_core::{Lines, Traffic};

    fn profile(intervals: Vec<Counts>, cpu_time: u64) -> Profile {
        Profile {
            interval: Nanos::MILLI,
            intervals,
            cpu_time: Nanos(cpu_time),
            wall_time: Nanos(cpu_time),
        }
    }

    fn counts(reads: u64, writes: u64) -> Counts {
        Counts::new(1_000_000, Lines(reads), Lines(writes))
    }

    #[test]
    fn an_interval_is_a_span_of_its_rates() {
        // 10,000 and 5,000 lines in a millisecond: 640 and 320 MB/s.
        let profile = profile(vec![counts(10_000, 5_000), counts(0, 0)], 1_500_000);
        let program = Program::from_profile("p", &profile, BytesPerSec(1.92e9)).unwrap();
        assert_eq!(program.length(), Nanos(1_500_000));
        let demand = program.spans[0].demand;
        assert!((demand.flows[0].reads.0 - 640e6).abs() < 1.0);
        assert!((demand.flows[0].writes.0 - 320e6).abs() < 1.0);
        assert!((demand.stall - 0.5).abs() < 1e-9);
        assert!((demand.instructions - 1e9).abs() < 1.0);
        // The last interval is half as long as the others.
        assert_eq!(program.spans[1].length, Nanos(500_000));
        assert_eq!(program.spans[1].demand.stall, 0.0);
    }

    #[test]
    fn an_interval_beyond_the_peak_of_a_core_takes_longer() {
        // 15,000 lines in a millisecond are 960 MB/s.
        let profile = profile(vec![counts(10_000, 5_000)], 1_000_000);
        let program = Program::from_profile("p", &profile, BytesPerSec(240e6)).unwrap();
        assert_eq!(program.length(), Nanos(4_000_000));
        let demand = program.spans[0].demand;
        assert!((demand.flows[0].reads.0 - 160e6).abs() < 1.0);
        assert!((demand.instructions - 0.25e9).abs() < 1.0);
        assert_eq!(demand.stall, 1.0);
    }

    #[test]
    fn media_stay_apart_and_equal_intervals_become_one_span() {
        let traffic = |reads| Traffic { reads: Lines(reads), writes: Lines(1) };
        let counts = Counts::by_medium(9, [traffic(1), traffic(2), traffic(0), traffic(0)]);
        let program =
            Program::from_profile("p", &profile(vec![counts; 3], 3_000_000), BytesPerSec(1e9))
                .unwrap();
        assert_eq!(program.spans.len(), 1);
        let flows = program.spans[0].demand.flows;
        assert!((flows[1].reads.0 / flows[0].reads.0 - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_recording_that_ends_too_early_is_refused() {
        let truncated = profile(vec![counts(1, 1); 3], 9_000_000);
        let error = Program::from_profile("p", &truncated, BytesPerSec(1e9)).unwrap_err();
        let message = error.to_string();
        assert_eq!(
            message,
            "the recording is truncated: its intervals end after 0.003 s, the program took 0.009 s"
        );
        let empty = profile(Vec::new(), 0);
        assert_eq!(
            Program::from_profile("p", &empty, BytesPerSec(1e9)),
            Err(RecordingError::Empty)
        );
    }
}
