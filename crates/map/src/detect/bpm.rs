//! Algorithm 1 of bpm (section 3.3) as written.
//!
//! It flips one or two bits of an address and clusters latencies: a bit whose flip alone is slow is
//! a row bit (step 1); one that is slow together with a row bit is a column bit (step 2); two that
//! are slow together form an exclusive or (step 3); the rest are bank bits. So it assumes that no
//! function has more than two bits and that one of two is a row bit, and the clusters assume that
//! only banks and rows affect latencies. Where that holds, its map passes the same verification as
//! any other; where it does not, the map is refused.

use memweir_core::address_map::{Span, XorFunction};
use memweir_core::{LINE_BYTES, PhysAddr};

use super::model::{Model, Rows};
use super::probe::Probe;
use super::shape::Shape;
use super::solve::null_space;
use super::{Detection, Found, Options, Progress, Refused, Step};
use super::{conflicts, contiguous, split, verified};
use crate::oracle::LatencyOracle;

/// "Repeat at least 1000000 times."
const REPEATS: u32 = 1_000_000;
/// Two clusters must be further apart than this many times the mean width of both.
const APART: f64 = 4.0;

/// Runs Algorithm 1 and verifies its map.
pub fn detect(
    oracle: &mut dyn LatencyOracle,
    name: &str,
    options: &Options,
    observer: &mut dyn FnMut(Progress),
) -> Detection {
    super::search(oracle, options, observer, |probe| find(probe, name))
}

fn find(probe: &mut Probe<'_>, name: &str) -> Result<Found, Refused> {
    contiguous(probe)?;
    let model = algorithm_1(probe)?;
    // The algorithm has no threshold for single pairs; the verification needs one.
    let conflicts = conflicts::find(probe)?;
    verified(probe, &model, &conflicts, name)?.map_err(|refuted| refuted.refusal)
}

fn algorithm_1(probe: &mut Probe<'_>) -> Result<Model, Refused> {
    let known = Shape::PLAIN.known(probe.reach());
    let bits: Vec<u32> = XorFunction(known.bits).bits().map(u32::from).collect();

    probe.enter(Step::Rows);
    let single: Vec<u64> = bits.iter().map(|bit| 1 << bit).collect();
    let latencies = latencies(probe, &single)?;
    let Some(Clusters { slow, gap }) = two_clusters(&latencies, 0.0) else {
        return Err(probe.refuse("step 1: latencies of single bits form no two groups"));
    };
    // A smaller difference has another cause than a row miss.
    let least = gap / 2.0;
    let (row, remain) = split(&single, &slow);

    let partner = row[row.len() - 1];
    let with_row: Vec<u64> = remain.iter().map(|bit| bit | partner).collect();
    let latencies = self::latencies(probe, &with_row)?;
    let Some(Clusters { slow, .. }) = two_clusters(&latencies, least) else {
        return Err(probe.refuse("step 2: latencies with a row bit form no two groups"));
    };
    let (column, mut remain) = split(&remain, &slow);

    probe.enter(Step::Functions);
    let pairs: Vec<u64> = (0..remain.len())
        .flat_map(|u| (0..u).map(move |v| (u, v)))
        .map(|(u, v)| remain[u] | remain[v])
        .collect();
    let latencies = self::latencies(probe, &pairs)?;
    // "Clustered into one or two groups": with one, no exclusive or is employed.
    let slow = two_clusters(&latencies, least)
        .map_or_else(|| vec![false; pairs.len()], |clusters| clusters.slow);
    let (xors, _) = split(&pairs, &slow);
    let used = xors.iter().fold(0, |used, xor| used | xor);
    remain.retain(|bit| bit & used == 0);

    let banks: Span = xors.iter().chain(&remain).map(|mask| XorFunction(*mask)).collect();
    if banks.dimension() == 0 {
        return Err(probe.refuse("no bank bits are left"));
    }
    Ok(Model { shape: Shape::PLAIN, known, rows: Some(rows(&banks, &column, known.bits)), banks })
}

/// Returns the rows: the bits that the column bits leave. A pair of step 3 is slow because one of
/// its bits is a row bit.
fn rows(banks: &Span, column: &[u64], known: u64) -> Rows {
    let keep: Span = null_space(banks.basis().iter().map(|f| f.0), known).into_iter().collect();
    let columns = column.iter().map(|bit| XorFunction(*bit)).filter(|bit| keep.contains(*bit));
    Rows::new(columns.collect(), banks, known)
}

/// Returns the latency of a pair that differs in these bits, for each: "the other bits are
/// identical".
fn latencies(probe: &mut Probe<'_>, differences: &[u64]) -> Result<Vec<f64>, Refused> {
    let mut latencies = Vec::with_capacity(differences.len());
    for difference in differences {
        probe.check_budget()?;
        let pair = pair(probe, *difference).ok_or_else(|| {
            let bits = XorFunction(*difference);
            probe.refuse(format!("no two addresses that differ in bits {bits} can be measured"))
        })?;
        latencies.push(probe.latency(pair.0, pair.1, REPEATS)?);
    }
    Ok(latencies)
}

/// Finds a pair with "one's x bit is 0, and another's x bit is 1"; for two bits, both differ.
fn pair(probe: &mut Probe<'_>, difference: u64) -> Option<(PhysAddr, PhysAddr)> {
    const ATTEMPTS: usize = 256;
    (0..ATTEMPTS).find_map(|_| {
        let zeros = PhysAddr(probe.anywhere().0 & !difference & !(LINE_BYTES - 1));
        let ones = PhysAddr(zeros.0 | difference);
        let reach = probe.reach();
        (reach.contains(zeros) && reach.contains(ones)).then_some((zeros, ones))
    })
}

/// Two groups of latencies.
#[derive(Debug, PartialEq)]
struct Clusters {
    /// For each latency, true if it belongs to the higher group.
    slow: Vec<bool>,
    /// Distance of the means.
    gap: f64,
}

/// Splits latencies into two clusters at the cut with the least variance within them. `None` if
/// their means differ by no more than `least`, or by too little relative to their width.
fn two_clusters(latencies: &[f64], least: f64) -> Option<Clusters> {
    let mut sorted = latencies.to_vec();
    sorted.sort_by(f64::total_cmp);
    let spread = |part: &[f64]| {
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        (mean, part.iter().map(|value| (value - mean).powi(2)).sum::<f64>())
    };
    let within = |cut: &usize| spread(&sorted[..*cut]).1 + spread(&sorted[*cut..]).1;
    let cut = (1..sorted.len()).min_by(|a, b| within(a).total_cmp(&within(b)))?;
    let (low, high) = (spread(&sorted[..cut]).0, spread(&sorted[cut..]).0);
    let width = (within(&cut) / sorted.len() as f64).sqrt();
    let gap = high - low;
    if gap <= least.max(APART * width.max(f64::EPSILON)) {
        return None;
    }
    let limit = (sorted[cut - 1] + sorted[cut]) / 2.0;
    let slow = latencies.iter().map(|latency| *latency > limit).collect();
    Some(Clusters { slow, gap })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::detect::tests::published;
    use crate::synthetic::{Noise, Synthetic};

    fn run(id: &str) -> Detection {
        let mut oracle = Synthetic::new(&published(id), Noise::QUIET, 7);
        let options = Options { seed: 7, budget: Duration::from_secs(3600) };
        detect(&mut oracle, "found", &options, &mut |_| {})
    }

    #[test]
    fn clusters() {
        let clusters = two_clusters(&[540.0, 631.0, 541.0, 629.0], 0.0).unwrap();
        assert_eq!(clusters.slow, [false, true, false, true]);
        assert_eq!(clusters.gap, 89.5);
        assert_eq!(two_clusters(&[540.0, 631.0, 541.0, 629.0], 90.0), None);
        assert_eq!(two_clusters(&[540.0, 541.0, 542.0, 543.0, 544.0, 545.0], 0.0), None);
        assert_eq!(two_clusters(&[540.0], 0.0), None);
    }

    #[test]
    fn finds_the_maps_that_it_was_made_for() {
        for id in ["bpm-i7-860", "palloc-w3530", "palloc-e3-1230", "ramses-sandy-c1d1r2"] {
            let found = run(id).verdict.unwrap_or_else(|e| panic!("{id}: {e}"));
            assert_eq!(found.map.span(), published(id).span(), "{id}");
        }
    }

    #[test]
    fn refuses_what_it_gets_wrong() {
        for id in ["zenhammer-amd_zen_3-1r4bg4b-samsung", "rhohammer-readme-5f", "dramapp-9900x"] {
            let refused = run(id).verdict.unwrap_err();
            assert!(refused.step != Step::Threshold, "{id}: {refused}");
        }
    }
}
