//! Search for pairs that conflict: the cost of a conflict, and sets of addresses of one bank.
//!
//! A few bases are read with random addresses. Slow pairs are read again later, several times,
//! since disturbances come in bursts; those that stay slow form a separate group, or there is no
//! threshold. Sets must be cliques: their members conflict with each other, not only with the base,
//! or they are merely slow.

use memweir_core::PhysAddr;
use rand::seq::SliceRandom;

use super::probe::{Probe, lower_part, quantile};
use super::{Refused, Step};

/// Number of bases. One in five showed no conflicts under load.
const BASES: usize = 6;
/// Number of random addresses read with all bases per batch.
const BATCH: usize = 256;
/// Standard deviations by which a pair must exceed the usual latency to be read again, at first and
/// after that.
const FIRST: f64 = 2.4;
const AGAIN: f64 = 2.3;
/// Number of candidates that are read again together, so that time passes between two readings of
/// one.
const TOGETHER: usize = 192;
/// Number of random addresses among the candidates, as references for the usual latency.
const REFERENCES: usize = 48;
/// Number of passes whose median decides.
const PASSES: usize = 5;
/// Number of conflicts to find, half the number of candidates that a base may contribute, and the
/// fewest conflicts that suffice.
const WANTED: usize = 150;
const PER_BASE: usize = 60;
const FEWEST: usize = 72;
/// Share of the budget after which the search stops.
const SHARE: f64 = 0.75;
/// Fewest standard deviations of medians between both groups.
const APART: f64 = 5.0;
/// Largest share of the upper group that may lie between the groups.
const BETWEEN: f64 = 0.25;
/// Smallest share of pairs inside a set that must conflict.
const CLIQUE: f64 = 0.7;

/// Cost of a conflict, in cycles of excess.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Threshold {
    /// Excess above which a pair conflicts.
    pub(super) at: f64,
    /// Typical excess of conflicts: the 0.6-quantile of the slow group.
    pub(super) conflict: f64,
    /// Standard deviation of the medians of pairs without a conflict.
    pub(super) noise: f64,
}

/// Addresses that conflict with a base.
#[derive(Clone, Debug)]
struct BankSet {
    base: PhysAddr,
    members: Vec<PhysAddr>,
}

/// Result of the search.
#[derive(Clone, Debug)]
pub(super) struct Conflicts {
    pub(super) threshold: Threshold,
    /// Conflicting pairs from which functions are solved.
    pub(super) pairs: Vec<(PhysAddr, PhysAddr)>,
    /// Other conflicting pairs, held back to test the predictions of a map.
    pub(super) held: Vec<(PhysAddr, PhysAddr)>,
    /// Pairs tried per conflict found: near the number of banks, above it if conflicts are missed.
    pub(super) pairs_per_conflict: f64,
}

/// A slow pair.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    base: usize,
    address: PhysAddr,
    excess: f64,
}

struct Search {
    bases: Vec<PhysAddr>,
    tried: u64,
    queue: Vec<Candidate>,
    confirmed: Vec<Candidate>,
    usual: Vec<f64>,
}

/// Searches for conflicts.
pub(super) fn find(probe: &mut Probe<'_>) -> Result<Conflicts, Refused> {
    probe.enter(Step::Threshold);
    let bases = probe.anywhere_times(BASES);
    let mut search =
        Search { bases, tried: 0, queue: Vec::new(), confirmed: Vec::new(), usual: Vec::new() };
    let mut threshold = Err("no pair stands out".to_owned());
    let spent_before = probe.spent();
    while probe.spent() < spent_before + SHARE {
        search.look(probe)?;
        if search.queue.len() >= TOGETHER || (search.tried == (BASES * BATCH) as u64) {
            search.confirm(probe)?;
            threshold = search.threshold(probe.quantum());
            if threshold.as_ref().is_ok_and(|threshold| search.enough(threshold)) {
                break;
            }
        }
    }
    let (tried, confirmed) = (search.tried, search.confirmed.len());
    let threshold = threshold.map_err(|reason| {
        probe.refuse(format!(
            "too few conflicts: {reason} ({confirmed} of {tried} pairs stayed slow)"
        ))
    })?;
    probe.enter(Step::Sets);
    let found = search.members(&threshold);
    let count: usize = found.iter().map(|set| set.members.len()).sum();
    if count < FEWEST {
        return Err(probe.refuse(format!(
            "too few conflicts: {count} among {tried} pairs, at least {FEWEST} are needed"
        )));
    }
    let sets = cliques(probe, &found, &threshold)?;
    let mut held: Vec<(PhysAddr, PhysAddr)> = Vec::new();
    for set in sets {
        held.extend(set.members.into_iter().map(|member| (set.base, member)));
    }
    held.shuffle(&mut probe.random);
    let pairs = held.split_off(held.len() / 3);
    let pairs_per_conflict = tried as f64 / count as f64;
    Ok(Conflicts { threshold, pairs, held, pairs_per_conflict })
}

impl Search {
    /// Reads random addresses with all bases, and queues the slow ones as candidates.
    fn look(&mut self, probe: &mut Probe<'_>) -> Result<(), Refused> {
        let targets = probe.anywhere_times(BATCH);
        let excess = probe.pass(&self.bases, &targets, BATCH)?;
        self.tried += (BATCH * BASES) as u64;
        for base in 0..BASES {
            let values: Vec<f64> = (0..BATCH).map(|target| excess.of(target, base)).collect();
            let limit = stands_out(&values, FIRST, probe.quantum());
            let kept = self.confirmed.iter().chain(&self.queue).filter(|c| c.base == base).count();
            let stand_out = values.iter().zip(&targets).filter(|(excess, _)| **excess > limit);
            let candidate = |(_, address): (&f64, &PhysAddr)| Candidate {
                base,
                address: *address,
                excess: 0.0,
            };
            self.queue.extend(stand_out.map(candidate).take((2 * PER_BASE).saturating_sub(kept)));
        }
        Ok(())
    }

    /// Reads the candidates again, twice to drop most, and then often enough for a median.
    fn confirm(&mut self, probe: &mut Probe<'_>) -> Result<(), Refused> {
        let references = probe.anywhere_times(REFERENCES);
        for passes in [1, 1, PASSES] {
            let candidates = std::mem::take(&mut self.queue);
            let targets: Vec<PhysAddr> =
                references.iter().copied().chain(candidates.iter().map(|c| c.address)).collect();
            let excess = probe.passes(&self.bases, &targets, REFERENCES, 2, passes)?;
            let usual = || (0..REFERENCES).flat_map(|i| (0..BASES).map(move |base| (i, base)));
            let values: Vec<f64> = usual().map(|(i, base)| excess.of(i, base)).collect();
            let limit = stands_out(&values, AGAIN, probe.quantum() / passes as f64);
            self.queue = candidates
                .into_iter()
                .enumerate()
                .map(|(i, c)| Candidate { excess: excess.of(REFERENCES + i, c.base), ..c })
                .filter(|candidate| candidate.excess > limit)
                .collect();
            if passes == PASSES {
                self.usual.extend(values);
            }
        }
        self.confirmed.append(&mut self.queue);
        Ok(())
    }

    /// Returns the threshold between two groups, or the reason why there are none: confirmed pairs
    /// must lie around one excess, far above the usual, with few pairs between.
    fn threshold(&self, quantum: f64) -> Result<Threshold, String> {
        let (center, sd) = lower_part(&self.usual);
        let noise = sd.max(quantum / 12f64.sqrt()).max(1.0);
        let mut upper: Vec<f64> = self.confirmed.iter().map(|c| c.excess - center).collect();
        upper.retain(|excess| *excess > 3.0 * noise);
        if upper.len() < FEWEST / 6 {
            return Err("no group of slow pairs".to_owned());
        }
        // From the upper half of the group: pairs between the groups are never more than half of
        // it.
        let conflict = quantile(&mut upper, 0.6);
        if conflict < APART * noise || conflict < 1.5 * quantum {
            return Err(format!(
                "slow pairs stand out by {conflict:.0} cycles, with a noise of {noise:.0}"
            ));
        }
        let between = upper.iter().filter(|e| (0.35..0.6).contains(&(**e / conflict))).count();
        if between as f64 > BETWEEN * upper.len() as f64 {
            return Err(format!("{between} of {} slow pairs lie between the groups", upper.len()));
        }
        Ok(Threshold { at: center + 0.55 * conflict, conflict, noise })
    }

    fn members(&self, threshold: &Threshold) -> Vec<BankSet> {
        let set = |(number, base): (usize, &PhysAddr)| {
            let of_base = self.confirmed.iter().filter(|c| c.base == number);
            let mut members: Vec<PhysAddr> =
                of_base.filter(|c| c.excess > threshold.at).map(|c| c.address).collect();
            members.sort();
            members.dedup();
            BankSet { base: *base, members }
        };
        self.bases.iter().enumerate().map(set).collect()
    }

    fn enough(&self, threshold: &Threshold) -> bool {
        let sizes: Vec<usize> =
            self.members(threshold).iter().map(|set| set.members.len()).collect();
        sizes.iter().sum::<usize>() >= WANTED
            && sizes.iter().filter(|size| **size >= WANTED / 15).count() >= 2
    }
}

/// Returns the limit above which a pair exceeds these by `times` standard deviations.
fn stands_out(values: &[f64], times: f64, quantum: f64) -> f64 {
    let (center, sd) = lower_part(values);
    center + times * sd.max(0.5 * quantum)
}

/// Returns the sets without members that do not conflict with the others of their set.
fn cliques(
    probe: &mut Probe<'_>,
    found: &[BankSet],
    threshold: &Threshold,
) -> Result<Vec<BankSet>, Refused> {
    const JUDGES: usize = 3;
    let (mut pairs, mut conflicts) = (0, 0);
    let mut sets = Vec::new();
    for set in found.iter().filter(|set| set.members.len() > JUDGES) {
        let judges = &set.members[..JUDGES];
        let targets: Vec<PhysAddr> = probe
            .anywhere_times(REFERENCES)
            .into_iter()
            .chain(set.members.iter().copied())
            .collect();
        let excess = probe.passes(judges, &targets, REFERENCES, 4, PASSES)?;
        let mut members = Vec::new();
        for (i, member) in set.members.iter().enumerate() {
            let others = (0..JUDGES).filter(|judge| *judge != i);
            let verdicts: Vec<bool> =
                others.map(|judge| excess.of(REFERENCES + i, judge) > threshold.at).collect();
            let agree = verdicts.iter().filter(|conflict| **conflict).count();
            (pairs, conflicts) = (pairs + verdicts.len(), conflicts + agree);
            // Two members of the same row do not conflict, so one judge may disagree.
            if 2 * agree >= verdicts.len() {
                members.push(*member);
            }
        }
        sets.push(BankSet { base: set.base, members });
    }
    let left: usize = sets.iter().map(|set| set.members.len()).sum();
    if left < FEWEST || (conflicts as f64) < CLIQUE * pairs as f64 {
        return Err(probe.refuse(format!(
            "the sets are no cliques, so what is slow is not a bank: {conflicts} of {pairs} pairs \
             inside them conflict"
        )));
    }
    Ok(sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the threshold between usual pairs and slow ones of these excesses.
    fn threshold(slow: &[(usize, f64)], quantum: f64) -> Result<Threshold, String> {
        let candidate = |excess: f64| Candidate { base: 0, address: PhysAddr(0), excess };
        let slow = slow.iter().flat_map(|(count, excess)| vec![candidate(*excess); *count]);
        // Evenly from 0 to 10: a twentieth lies below 0.5, three tenths below 3.
        let usual = (0..=100).map(|i| f64::from(i) / 10.0).collect();
        let confirmed = slow.collect();
        Search { bases: Vec::new(), tried: 0, queue: Vec::new(), confirmed, usual }
            .threshold(quantum)
    }

    #[test]
    fn a_threshold_lies_between_two_groups_that_are_far_apart() {
        // 2.5 between the two quantiles, which are 1.121 standard deviations apart.
        let (noise, center) = (2.5 / 1.121, 3.0 + 0.524 * 2.5 / 1.121);
        let found = threshold(&[(12, center + 100.0)], 0.0).unwrap();
        assert!((found.at - center - 55.0).abs() < 1e-9, "{found:?}");
        assert!((found.conflict - 100.0).abs() < 1e-9 && (found.noise - noise).abs() < 1e-9);
        // Four of sixteen may lie between.
        assert!(threshold(&[(12, center + 100.0), (4, center + 45.0)], 0.0).is_ok());
        let refusals = [
            (vec![(11, 104.0), (99, 10.0)], 0.0, "no group of slow pairs"),
            // Five times the noise are 11.2 cycles.
            (vec![(12, center + 11.0)], 0.0, "stand out by 11 cycles, with a noise of 2"),
            (vec![(12, center + 100.0)], 70.0, "stand out by 100 cycles, with a noise of 20"),
            (vec![(12, center + 100.0), (5, center + 45.0)], 0.0, "5 of 17 slow pairs lie between"),
        ];
        for (slow, quantum, reason) in refusals {
            let refusal = threshold(&slow, quantum).unwrap_err();
            assert!(refusal.contains(reason), "{reason}: {refusal}");
        }
    }
}
