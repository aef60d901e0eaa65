//! Measurement of pairs without the effects of their single addresses.
//!
//! Raw latencies barely show a row conflict: most of their variance belongs to single addresses,
//! and bursts slow many measurements in a row. So every target is read with each address of a
//! *panel*, and the target's own cost, common to (nearly) all of them, is subtracted, like that of
//! a control pair. The cost of a panel address, common to most targets, is subtracted too. The
//! panel changes and the order is shuffled between passes, so that errors differ between passes,
//! and quantiles replace means, since conflicts and disturbances only ever slow a read.

use std::time::Duration;

use memweir_core::PhysAddr;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Progress, Refused, Step};
use crate::oracle::{LatencyOracle, Reach};

/// Rounds of one measurement: about 30 us.
const ROUNDS: u32 = 96;
/// Quantile that represents pairs without a conflict; up to half of the pairs may conflict.
const CENTER: f64 = 0.3;

/// The oracle, the budget, and the randomness of one detection.
pub(super) struct Probe<'a> {
    oracle: &'a mut dyn LatencyOracle,
    reach: Reach,
    pub(super) random: ChaCha8Rng,
    budget: Duration,
    measurements: u64,
    /// Smallest difference of two observed latencies, in cycles: the resolution of the clock.
    quantum: f64,
    seen: Vec<f64>,
    step: Step,
    observer: &'a mut dyn FnMut(Progress),
}

/// Latencies without the costs of both addresses, in cycles.
pub(super) struct Excess {
    panel: usize,
    values: Vec<f64>,
}

impl Excess {
    /// Returns the excess of target `target` with address `member` of the panel.
    pub(super) fn of(&self, target: usize, member: usize) -> f64 {
        self.values[target * self.panel + member]
    }
}

impl<'a> Probe<'a> {
    pub(super) fn new(
        oracle: &'a mut dyn LatencyOracle,
        budget: Duration,
        seed: u64,
        observer: &'a mut dyn FnMut(Progress),
    ) -> Self {
        let reach = oracle.reach().clone();
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self {
            oracle,
            reach,
            random,
            budget,
            measurements: 0,
            quantum: f64::INFINITY,
            seen: Vec::new(),
            step: Step::Threshold,
            observer,
        }
    }

    /// Attributes further measurements to `step`.
    pub(super) fn enter(&mut self, step: Step) {
        self.step = step;
    }

    pub(super) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Restricts measurements to fewer addresses.
    pub(super) fn restrict(&mut self, reach: Reach) {
        self.reach = reach;
    }

    pub(super) fn measurements(&self) -> u64 {
        self.measurements
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.oracle.elapsed()
    }

    /// Returns the share of the budget that is spent.
    pub(super) fn spent(&self) -> f64 {
        self.elapsed().as_secs_f64() / self.budget.as_secs_f64().max(1e-9)
    }

    /// Returns the clock's resolution as seen in single measurements, or zero while it is not
    /// visible.
    pub(super) fn quantum(&self) -> f64 {
        if self.quantum.is_finite() { self.quantum } else { 0.0 }
    }

    /// Creates a refusal at the present step.
    pub(super) fn refuse(&self, reason: impl Into<String>) -> Refused {
        Refused { step: self.step, reason: reason.into() }
    }

    /// Returns a random address of the reach.
    pub(super) fn anywhere(&mut self) -> PhysAddr {
        let number = self.random.random_range(0..self.reach.lines());
        self.reach.line(number)
    }

    pub(super) fn anywhere_times(&mut self, count: usize) -> Vec<PhysAddr> {
        (0..count).map(|_| self.anywhere()).collect()
    }

    /// Measures one latency, in cycles.
    pub(super) fn latency(
        &mut self,
        a: PhysAddr,
        b: PhysAddr,
        rounds: u32,
    ) -> Result<f64, Refused> {
        let latency = self.oracle.measure(a, b, rounds).map_err(|error| self.refuse(error.0))?;
        self.measurements += 1;
        Ok(latency.0)
    }

    /// Reports progress to the observer; returns an error if the budget is spent.
    pub(super) fn check_budget(&mut self) -> Result<(), Refused> {
        let spent = self.spent();
        (self.observer)(Progress { step: self.step, spent: spent.min(1.0) });
        if spent < 1.0 {
            return Ok(());
        }
        Err(self.refuse(format!("the budget of {:?} was spent (--budget)", self.budget)))
    }

    /// Measures every target with every address of the panel once. The first `references` targets
    /// are random addresses, so most of them conflict with nothing; they define the usual latency.
    pub(super) fn pass(
        &mut self,
        panel: &[PhysAddr],
        targets: &[PhysAddr],
        references: usize,
    ) -> Result<Excess, Refused> {
        self.check_budget()?;
        let mut order: Vec<usize> = (0..targets.len()).collect();
        order.shuffle(&mut self.random);
        let mut values = vec![0.0; targets.len() * panel.len()];
        for target in order {
            for (member, base) in panel.iter().enumerate() {
                let latency = self.latency(*base, targets[target], ROUNDS)?;
                values[target * panel.len() + member] = latency;
            }
        }
        self.look_at_clock(&values);
        let mut excess = Excess { panel: panel.len(), values };
        excess.subtract_costs(references);
        Ok(excess)
    }

    /// Returns medians over several passes, of every target with every address of `panel`; each
    /// pass extends the panel by other controls.
    pub(super) fn passes(
        &mut self,
        panel: &[PhysAddr],
        targets: &[PhysAddr],
        references: usize,
        controls: usize,
        times: usize,
    ) -> Result<Excess, Refused> {
        let mut all = Vec::with_capacity(times);
        for _ in 0..times {
            let controls = self.anywhere_times(controls);
            let with_controls: Vec<PhysAddr> = panel.iter().copied().chain(controls).collect();
            all.push(self.pass(&with_controls, targets, references)?);
        }
        let median = |i: usize| {
            let (target, member) = (i / panel.len(), i % panel.len());
            let mut values: Vec<f64> = all.iter().map(|pass| pass.of(target, member)).collect();
            quantile(&mut values, 0.5)
        };
        let values = (0..targets.len() * panel.len()).map(median).collect();
        Ok(Excess { panel: panel.len(), values })
    }

    fn look_at_clock(&mut self, values: &[f64]) {
        const ENOUGH: usize = 512;
        if self.seen.len() >= ENOUGH {
            return;
        }
        self.seen.extend(values.iter().take(ENOUGH));
        self.seen.sort_by(f64::total_cmp);
        let steps = self.seen.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 1e-6);
        self.quantum = steps.fold(f64::INFINITY, f64::min);
    }
}

impl Excess {
    /// Subtracts the costs of single addresses, of the panel and of the targets, from latencies.
    fn subtract_costs(&mut self, references: usize) {
        self.center(references);
        for row in self.values.chunks_mut(self.panel) {
            let usual = second_smallest(row);
            row.iter_mut().for_each(|value| *value -= usual);
        }
        self.center(references);
    }

    /// Subtracts the usual cost of each panel address, over the references.
    fn center(&mut self, references: usize) {
        for member in 0..self.panel {
            let mut usual: Vec<f64> = (0..references).map(|i| self.of(i, member)).collect();
            let center = quantile(&mut usual, CENTER);
            self.values.iter_mut().skip(member).step_by(self.panel).for_each(|v| *v -= center);
        }
    }
}

/// Returns a target's own cost, which all its readings share: the second smallest, since conflicts
/// slow a read, and one measurement may be too fast by accident.
fn second_smallest(row: &[f64]) -> f64 {
    let mut least = (f64::INFINITY, f64::INFINITY);
    for value in row {
        if *value < least.0 {
            least = (*value, least.0);
        } else if *value < least.1 {
            least.1 = *value;
        }
    }
    if least.1.is_finite() { least.1 } else { least.0 }
}

/// Returns the `share`-quantile of `values`; zero of none.
pub(super) fn quantile(values: &mut [f64], share: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let place = ((values.len() - 1) as f64 * share).round() as usize;
    *values.select_nth_unstable_by(place, f64::total_cmp).1
}

/// Returns center and standard deviation of values of which at most half are too large.
pub(super) fn lower_part(values: &[f64]) -> (f64, f64) {
    let mut values = values.to_vec();
    let (low, center) = (quantile(&mut values, 0.05), quantile(&mut values, CENTER));
    // Standard normal: 5 % lie below -1.645, 30 % below -0.524.
    let sd = (center - low) / (1.645 - 0.524);
    (center + 0.524 * sd, sd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_pairs_of_an_address_share_is_taken_off() {
        assert_eq!(second_smallest(&[7.0, 3.0, 9.0, 4.0]), 4.0);
        assert_eq!(second_smallest(&[5.0]), 5.0);
        // Rows: targets of cost 0, 10, 20; columns: a panel of cost 0, 100, 200.
        let latency = |target: usize, member: usize| (10 * target + 100 * member) as f64;
        let mut values: Vec<f64> = (0..9).map(|i| latency(i / 3, i % 3)).collect();
        values[5] += 91.0;
        let mut excess = Excess { panel: 3, values };
        excess.subtract_costs(3);
        assert_eq!(excess.values, [0.0, 0.0, 0.0, 0.0, 0.0, 91.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn the_lower_part_does_not_see_what_is_slow() {
        let noise = |i: usize| crate::synthetic::normal(crate::hash::scramble(i as u64));
        let mut values: Vec<f64> = (0..2000).map(noise).collect();
        values.extend((0..500).map(|i| 91.0 + noise(i)));
        let (center, sd) = lower_part(&values);
        assert!(center.abs() < 0.5 && (0.7..1.4).contains(&sd), "{center} {sd}");
    }
}
