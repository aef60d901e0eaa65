//! `phase`: program phases by instruction-pointer vectors, and a Markov predictor over them.

use memweir_core::BytesPerSec;

use super::{Last, Predictor, Sample};

/// The similarity threshold `T_S` of iabw Table 2.
pub const DEFAULT_THRESHOLD: f64 = 0.4;

/// Highest number of phases per job, which bounds its memory. A program with more phases forgets
/// the one that was seen least recently.
pub const MAX_PHASES: usize = 32;

/// Weight of the newest measurement in a phase's bandwidth: half. A phase whose bandwidth drifts
/// with its data is followed within a few visits, and one odd quantum does not stand alone.
const NEWEST_WEIGHT: f64 = 0.5;

/// Distribution of a quantum's execution over the regions of a program's code (iabw section 4.2):
/// samples of the instruction pointer per region, normalized to the sum one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstructionPointerVector {
    shares: Vec<f64>,
}

impl InstructionPointerVector {
    /// Returns the vector of these samples; `None` if there are none.
    #[must_use]
    pub fn new(samples: &[u32]) -> Option<Self> {
        let mut vector = Self::default();
        vector.refill(samples).then_some(vector)
    }

    /// Replaces the contents by the vector of other samples; returns false, with no change, if
    /// there are none.
    fn refill(&mut self, samples: &[u32]) -> bool {
        let total: u64 = samples.iter().map(|count| u64::from(*count)).sum();
        if total == 0 {
            return false;
        }
        self.shares.clear();
        self.shares.extend(samples.iter().map(|count| f64::from(*count) / total as f64));
        true
    }

    /// Returns the Manhattan distance: 0 for equal distributions, 2 for disjoint ones. Regions that
    /// only one of the two vectors has count as empty in the other.
    #[must_use]
    pub fn distance(&self, other: &Self) -> f64 {
        let (shorter, longer) = if self.shares.len() <= other.shares.len() {
            (&self.shares, &other.shares)
        } else {
            (&other.shares, &self.shares)
        };
        let (common, rest) = longer.split_at(shorter.len());
        let differing: f64 = shorter.iter().zip(common).map(|(a, b)| (a - b).abs()).sum();
        differing + rest.iter().sum::<f64>()
    }
}

/// A state of the Markov predictor.
#[derive(Clone, Debug)]
struct Phase {
    /// Vector of the first quantum of the phase, with which later quanta are compared. It is fixed,
    /// so that two phases cannot drift into each other.
    representative: InstructionPointerVector,
    /// Bandwidth of the job in this phase; absent until measured on an unsaturated bus.
    bandwidth: Option<BytesPerSec>,
    /// Number of the last quantum in which the job was in this phase.
    last_seen: u64,
}

/// Predicts the bandwidth of the phase that most often followed the present one. Falls back to the
/// last value if no phase has followed yet, or if that phase's bandwidth was never measured.
///
/// Among phases that followed equally often, the present one is preferred, then the one with the
/// lowest index, which is the oldest one until phases are replaced.
#[derive(Clone, Debug)]
pub struct Phases {
    threshold: f64,
    phases: Vec<Phase>,
    /// `transitions[from][to]`: number of times that phase `to` came in the job's next quantum
    /// after `from`.
    transitions: Vec<Vec<u32>>,
    current: Option<usize>,
    quantum: u64,
    last: Last,
    scratch: InstructionPointerVector,
}

impl Phases {
    /// Creates a predictor; a vector belongs to a known phase if its distance is below `threshold`.
    #[must_use]
    pub fn new(threshold: f64) -> Self {
        Self {
            threshold,
            phases: Vec::new(),
            transitions: Vec::new(),
            current: None,
            quantum: 0,
            last: Last::default(),
            scratch: InstructionPointerVector::default(),
        }
    }

    /// Returns the number of distinct phases in memory.
    #[must_use]
    pub fn count(&self) -> usize {
        self.phases.len()
    }

    /// Returns the phase of the vector in `scratch`: the nearest known one, or a new one.
    fn classify(&mut self) -> usize {
        let distances =
            self.phases.iter().map(|phase| phase.representative.distance(&self.scratch));
        match distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((nearest, distance)) if distance < self.threshold => nearest,
            _ => self.new_phase(),
        }
    }

    fn new_phase(&mut self) -> usize {
        let phase = Phase {
            representative: self.scratch.clone(),
            bandwidth: None,
            last_seen: self.quantum,
        };
        if self.phases.len() < MAX_PHASES {
            self.phases.push(phase);
            for row in &mut self.transitions {
                row.push(0);
            }
            self.transitions.push(vec![0; self.phases.len()]);
            return self.phases.len() - 1;
        }
        // The present phase was seen most recently, so it is never replaced.
        let oldest = (0..MAX_PHASES).min_by_key(|index| self.phases[*index].last_seen).unwrap_or(0);
        self.phases[oldest] = phase;
        self.transitions[oldest].fill(0);
        for row in &mut self.transitions {
            row[oldest] = 0;
        }
        oldest
    }

    /// Returns the phase that most often followed the present one.
    fn next(&self) -> Option<usize> {
        let current = self.current?;
        let row = &self.transitions[current];
        let most = *row.iter().max()?;
        if most == 0 {
            None
        } else if row[current] == most {
            Some(current)
        } else {
            row.iter().position(|count| *count == most)
        }
    }
}

impl Predictor for Phases {
    fn observe(&mut self, sample: &Sample<'_>) {
        self.quantum += 1;
        self.last.observe(sample);
        if !self.scratch.refill(sample.instruction_pointers) {
            // After a gap in the samples, the next phase is no successor of the one before it.
            self.current = None;
            return;
        }
        let phase = self.classify();
        if let Some(previous) = self.current.replace(phase) {
            let count = &mut self.transitions[previous][phase];
            *count = count.saturating_add(1);
        }
        let phase = &mut self.phases[phase];
        phase.last_seen = self.quantum;
        if let Some(newest) = sample.bandwidth {
            phase.bandwidth =
                Some(phase.bandwidth.map_or(newest, |known| {
                    newest * NEWEST_WEIGHT + known * (1.0 - NEWEST_WEIGHT)
                }));
        }
    }

    fn predict(&self) -> Option<BytesPerSec> {
        self.next().and_then(|next| self.phases[next].bandwidth).or_else(|| self.last.predict())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOOP_A: [u32; 4] = [90, 10, 0, 0];
    const LOOP_B: [u32; 4] = [0, 0, 50, 50];

    fn feed(phases: &mut Phases, pointers: &[u32], bandwidth: Option<f64>) {
        phases.observe(&Sample {
            bandwidth: bandwidth.map(BytesPerSec),
            instruction_pointers: pointers,
            forecast: None,
        });
    }

    fn predicted(phases: &Phases) -> Option<f64> {
        phases.predict().map(|bandwidth| bandwidth.0)
    }

    #[test]
    fn vectors_are_normalized_and_compared_by_manhattan_distance() {
        let vector = |samples: &[u32]| InstructionPointerVector::new(samples).unwrap();
        // Shares 0.9 0.1 0 0 and 0.5 0.25 0.25 0: 0.4 + 0.15 + 0.25.
        let distance = vector(&[9, 1, 0, 0]).distance(&vector(&[200, 100, 100, 0]));
        assert!((distance - 0.8).abs() < 1e-12, "{distance}");
        assert_eq!(vector(&[1, 0]).distance(&vector(&[0, 7])), 2.0);
        assert_eq!(vector(&[3, 5]).distance(&vector(&[6, 10])), 0.0);
        // A region that one vector does not have is empty in it.
        assert_eq!(vector(&[1]).distance(&vector(&[1, 0, 1])), 1.0);
        assert_eq!(vector(&[1, 0, 1]).distance(&vector(&[1])), 1.0);
        assert_eq!(InstructionPointerVector::new(&[0, 0]), None);
        assert_eq!(InstructionPointerVector::new(&[]), None);
    }

    #[test]
    fn a_program_that_alternates_is_predicted_before_it_changes() {
        let mut phases = Phases::new(DEFAULT_THRESHOLD);
        feed(&mut phases, &LOOP_A, Some(8.0));
        assert_eq!(predicted(&phases), Some(8.0), "nothing has followed A: last value");
        feed(&mut phases, &LOOP_B, Some(2.0));
        assert_eq!(predicted(&phases), Some(2.0), "nothing has followed B: last value");
        feed(&mut phases, &LOOP_A, Some(8.0));
        assert_eq!(predicted(&phases), Some(2.0), "B follows A");
        feed(&mut phases, &LOOP_B, Some(2.0));
        assert_eq!(predicted(&phases), Some(8.0), "A follows B");
        assert_eq!(phases.count(), 2);
    }

    #[test]
    fn the_threshold_separates_phases() {
        // Shares 1 0 against 0.75 0.25: distance 0.5, exactly.
        for (threshold, count) in [(0.51, 1), (0.5, 2), (0.49, 2)] {
            let mut phases = Phases::new(threshold);
            feed(&mut phases, &[4, 0], Some(1.0));
            feed(&mut phases, &[3, 1], Some(1.0));
            assert_eq!(phases.count(), count, "{threshold}");
        }
    }

    #[test]
    fn a_phase_moves_half_way_to_what_is_measured_in_it() {
        let mut phases = Phases::new(DEFAULT_THRESHOLD);
        for bandwidth in [8.0, 4.0, 4.0] {
            feed(&mut phases, &LOOP_A, Some(bandwidth));
        }
        // 8, then (8 + 4) / 2 = 6, then (6 + 4) / 2.
        assert_eq!(predicted(&phases), Some(5.0));
    }

    #[test]
    fn saturated_quanta_teach_the_order_of_phases_but_no_bandwidth() {
        let mut phases = Phases::new(DEFAULT_THRESHOLD);
        feed(&mut phases, &LOOP_A, Some(8.0));
        feed(&mut phases, &LOOP_B, None);
        feed(&mut phases, &LOOP_A, Some(8.0));
        assert_eq!(predicted(&phases), Some(8.0), "B comes next, but was never measured");
        feed(&mut phases, &LOOP_B, Some(2.0));
        feed(&mut phases, &LOOP_A, None);
        assert_eq!(predicted(&phases), Some(2.0));
    }

    #[test]
    fn without_samples_it_is_the_last_value() {
        let mut phases = Phases::new(DEFAULT_THRESHOLD);
        assert_eq!(predicted(&phases), None);
        feed(&mut phases, &[], Some(3.0));
        assert_eq!(predicted(&phases), Some(3.0));
        feed(&mut phases, &LOOP_A, Some(8.0));
        feed(&mut phases, &[], Some(4.0));
        feed(&mut phases, &LOOP_B, Some(2.0));
        feed(&mut phases, &LOOP_A, Some(8.0));
        assert_eq!(predicted(&phases), Some(8.0), "the gap is no transition from A to B");
    }

    #[test]
    fn of_phases_that_followed_equally_often_the_present_one_is_preferred() {
        let mut phases = Phases::new(DEFAULT_THRESHOLD);
        for (pointers, bandwidth) in
            [(LOOP_A, 8.0), (LOOP_B, 2.0), (LOOP_B, 2.0), (LOOP_A, 8.0), (LOOP_B, 2.0)]
        {
            feed(&mut phases, &pointers, Some(bandwidth));
        }
        // B was followed by B once and by A once.
        assert_eq!(predicted(&phases), Some(2.0));
    }

    /// A quantum spent in one of more regions than there can be phases.
    fn region(index: usize) -> Vec<u32> {
        let mut pointers = vec![0; 3 * MAX_PHASES];
        pointers[index] = 1;
        pointers
    }

    #[test]
    fn the_number_of_phases_is_bounded_and_the_stalest_goes() {
        let mut phases = Phases::new(DEFAULT_THRESHOLD);
        for index in 0..3 * MAX_PHASES {
            feed(&mut phases, &region(index), Some(index as f64));
            // Nothing has followed it yet, whatever followed the phase whose place it took.
            assert_eq!(predicted(&phases), Some(index as f64));
        }
        assert_eq!(phases.count(), MAX_PHASES);
        // The newest are known still: going through them again makes no new phase, and the
        // transition learnt the first time predicts.
        let newest = 2 * MAX_PHASES;
        feed(&mut phases, &region(newest), Some(newest as f64));
        assert_eq!(predicted(&phases), Some((newest + 1) as f64));
    }

    #[test]
    fn what_led_to_a_forgotten_phase_does_not_lead_to_its_successor() {
        let mut phases = Phases::new(DEFAULT_THRESHOLD);
        // 1 is followed by 0 once, and by 2 once; 0 is the stalest when one phase too many comes.
        for index in [0, 1, 0, 1].into_iter().chain(2..=MAX_PHASES) {
            feed(&mut phases, &region(index), Some(index as f64));
        }
        feed(&mut phases, &region(1), Some(1.0));
        assert_eq!(predicted(&phases), Some(2.0));
    }

    proptest! {
        #[test]
        fn any_samples_are_taken(
            quanta in prop::collection::vec(
                (prop::collection::vec(0u32..=u32::MAX, 0..6), prop::option::of(0.0..1e11f64)),
                0..200,
            ),
        ) {
            let mut phases = Phases::new(DEFAULT_THRESHOLD);
            for (pointers, bandwidth) in &quanta {
                feed(&mut phases, pointers, *bandwidth);
                prop_assert!(phases.count() <= MAX_PHASES);
            }
            let measured = quanta.iter().filter_map(|(_, bandwidth)| *bandwidth);
            let measured: Vec<f64> = measured.collect();
            prop_assert_eq!(predicted(&phases).is_some(), !measured.is_empty());
            if let Some(predicted) = predicted(&phases) {
                let lowest = measured.iter().copied().fold(f64::INFINITY, f64::min);
                let highest = measured.iter().copied().fold(0.0, f64::max);
                prop_assert!((lowest..=highest).contains(&predicted));
            }
        }
    }
}
