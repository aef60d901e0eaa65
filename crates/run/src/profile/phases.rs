//! The phases of a program, as iabw section 4.2 tells them apart: quanta whose instruction-pointer
//! vectors are near to each other are one phase. Where the meter samples no instruction pointers,
//! quanta of nearly the same bandwidth are.

use memweir_core::profile::Profile;
use memweir_core::{BytesPerSec, Lines, Nanos};
use memweir_policy::predictor::{DEFAULT_THRESHOLD, InstructionPointerVector};

use super::timing::{Slice, bounds};
use super::types::PhaseReport;

/// The scheduling quantum, in which the paper looks for phases.
const QUANTUM: Nanos = Nanos::from_millis(100);

/// Quanta that even a short program is cut into, so that its phases show.
const LEAST_QUANTA: u64 = 50;

/// Bandwidths nearer to each other than this share of the program's peak are the same: twice the
/// 5 % within which iabw section 5.6 calls a quantum predicted.
const SAME_RATE: f64 = 0.1;

/// One quantum of the profile.
#[derive(Clone, Debug)]
struct Quantum {
    start: Nanos,
    span: Nanos,
    lines: Lines,
    vector: Option<InstructionPointerVector>,
}

impl Quantum {
    fn rate(&self) -> BytesPerSec {
        self.lines.over(self.span)
    }
}

/// The phases of a program, the longest first.
pub(super) fn find(profile: &Profile, slices: &[Slice]) -> Vec<PhaseReport> {
    let quanta = quanta(profile, slices);
    let peak = quanta.iter().map(Quantum::rate).fold(BytesPerSec::ZERO, BytesPerSec::max);
    let mut phases: Vec<(&Quantum, PhaseReport)> = Vec::new();
    let mut previous = None;
    for quantum in &quanta {
        let nearest = phases
            .iter()
            .map(|(first, _)| distance(first, quantum, peak))
            .enumerate()
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .filter(|(_, distance)| *distance < 1.0);
        let index = nearest.map_or(phases.len(), |(index, _)| index);
        if index == phases.len() {
            let first_s = quantum.start.as_secs_f64();
            let phase = PhaseReport { share: 0.0, bandwidth_mean: 0.0, first_s, visits: 0 };
            phases.push((quantum, phase));
        }
        let phase = &mut phases[index].1;
        // Seconds and bytes until the end, when they become shares and rates.
        phase.share += quantum.span.as_secs_f64();
        phase.bandwidth_mean += quantum.lines.bytes().as_f64();
        phase.visits += u64::from(previous != Some(index));
        previous = Some(index);
    }
    let total = profile.cpu_time.as_secs_f64();
    let mut reports: Vec<_> = phases.into_iter().map(|(_, phase)| phase).collect();
    for phase in &mut reports {
        phase.bandwidth_mean /= phase.share;
        phase.share = (phase.share / total).min(1.0);
    }
    reports.sort_by(|a, b| b.share.total_cmp(&a.share));
    reports
}

/// Returns the distance between two quanta; below 1 they are of the same phase.
fn distance(a: &Quantum, b: &Quantum, peak: BytesPerSec) -> f64 {
    match (&a.vector, &b.vector) {
        (Some(a), Some(b)) => a.distance(b) / DEFAULT_THRESHOLD,
        (None, None) if peak > BytesPerSec::ZERO => {
            a.rate().distance(b.rate()).0 / (SAME_RATE * peak.0)
        }
        (None, None) => 0.0,
        // A quantum in which no sample was taken is unlike one in which some were.
        _ => f64::INFINITY,
    }
}

fn quanta(profile: &Profile, slices: &[Slice]) -> Vec<Quantum> {
    let wanted = QUANTUM.0.min(profile.cpu_time.0 / LEAST_QUANTA).max(profile.interval.0);
    let coarse = profile.coarser((wanted / profile.interval.0).max(1) as usize);
    let mut samples: Vec<Vec<u32>> = vec![Vec::new(); coarse.intervals.len()];
    for (slice, (start, end)) in slices.iter().zip(bounds(slices, profile.cpu_time.0)) {
        let middle = ((start + end) / 2.0) as u64;
        let index = (middle / coarse.interval.0) as usize;
        let Some(sum) = samples.get_mut(index) else { continue };
        if sum.len() < slice.instruction_pointers.len() {
            sum.resize(slice.instruction_pointers.len(), 0);
        }
        for (sum, count) in sum.iter_mut().zip(&slice.instruction_pointers) {
            *sum = sum.saturating_add(*count);
        }
    }
    (0..coarse.intervals.len())
        .map(|index| Quantum {
            start: Nanos(index as u64 * coarse.interval.0),
            span: coarse.span_of(index),
            lines: coarse.intervals[index].lines(),
            vector: InstructionPointerVector::new(&samples[index]),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use memweir_core::Counts;
    use proptest::prelude::*;

    use super::super::timing::{NativeTime, lay_on_time};
    use super::*;

    const LOOP_A: [u32; 3] = [90, 10, 0];
    const LOOP_B: [u32; 3] = [0, 0, 50];

    /// One slice of 100 ms per pair of reads and samples.
    fn program(slices: &[(u64, &[u32])]) -> (Profile, Vec<Slice>) {
        let slices: Vec<_> = slices
            .iter()
            .map(|(reads, samples)| Slice {
                counts: Counts::new(1, Lines(*reads), Lines(0)),
                weight: 1.0,
                instruction_pointers: samples.to_vec(),
            })
            .collect();
        let cpu = Nanos(100_000_000 * slices.len() as u64);
        let time = NativeTime { cpu, wall: cpu };
        (lay_on_time(&slices, time, Nanos::from_millis(100)), slices)
    }

    #[test]
    fn quanta_in_the_same_code_are_one_phase() {
        let (profile, slices) =
            program(&[(1000, &LOOP_A), (4000, &LOOP_B), (3000, &LOOP_A), (2000, &LOOP_A)]);
        let phases = find(&profile, &slices);
        assert_eq!(phases.len(), 2);
        // 6,000 lines in 300 ms, entered at the start and after B.
        assert!((phases[0].share - 0.75).abs() < 1e-12);
        assert!((phases[0].bandwidth_mean - 6000.0 * 64.0 / 0.3).abs() < 1e-3);
        assert_eq!((phases[0].first_s, phases[0].visits), (0.0, 2));
        assert!((phases[1].bandwidth_mean - 4000.0 * 64.0 / 0.1).abs() < 1e-3);
        assert_eq!((phases[1].first_s, phases[1].visits), (0.1, 1));
    }

    #[test]
    fn without_samples_quanta_of_nearly_the_same_bandwidth_are() {
        // The peak is 10,000 lines: 10,000 and 9,100 are the same, 9,000 is not.
        let (profile, slices) = program(&[(10_000, &[]), (9_100, &[]), (0, &[]), (5, &[])]);
        let phases = find(&profile, &slices);
        assert_eq!(phases.iter().map(|phase| phase.visits).collect::<Vec<_>>(), [1, 1]);
        let (profile, slices) = program(&[(10_000, &[]), (9_000, &[])]);
        assert_eq!(find(&profile, &slices).len(), 2);
    }

    #[test]
    fn a_program_that_never_reaches_memory_has_one_phase() {
        let (profile, slices) = program(&[(0, &[]), (0, &[]), (0, &[])]);
        let phases = find(&profile, &slices);
        assert_eq!(phases.len(), 1);
        assert_eq!((phases[0].share, phases[0].bandwidth_mean), (1.0, 0.0));
    }

    proptest! {
        #[test]
        fn shares_add_up_to_the_whole_and_rates_to_the_traffic(
            rows in prop::collection::vec(
                (0_u64..100_000, prop::collection::vec(0_u32..9, 0..4)),
                1..80,
            ),
        ) {
            let rows: Vec<_> = rows.iter().map(|(reads, ips)| (*reads, ips.as_slice())).collect();
            let (profile, slices) = program(&rows);
            let phases = find(&profile, &slices);
            let share: f64 = phases.iter().map(|phase| phase.share).sum();
            prop_assert!((share - 1.0).abs() < 1e-9);
            let seconds = profile.cpu_time.as_secs_f64();
            let bytes: f64 =
                phases.iter().map(|phase| phase.bandwidth_mean * phase.share * seconds).sum();
            let expected = profile.total().lines().bytes().as_f64();
            prop_assert!((bytes - expected).abs() <= 1e-6 * expected.max(1.0));
        }
    }
}
