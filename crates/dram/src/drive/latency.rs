//! Latency histogram in bounded memory: exact below 4,096 cycles, to a 2,048th above.

use std::ops::AddAssign;

use serde::Serialize;

/// Significant bits of a recorded latency.
const PRECISION: u32 = 12;

/// Latencies below this are exact.
#[cfg(test)]
const EXACT: u64 = 1 << PRECISION;

/// Steps per doubling of a latency in [`Latencies::buckets`].
const STEPS: u32 = 3;

/// Distribution of latencies. Count, sum and maximum are exact; percentiles are exact below 4,096
/// cycles and at most 0.05 % too high above.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

/// Number of latencies in a range of cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Shortest latency of the range.
    pub from: u64,
    /// Longest latency of the range.
    pub to: u64,
    /// Number of latencies.
    pub count: u64,
}

/// Returns the place of `value`, where each doubling above `1 << bits` has `1 << (bits - 1)`
/// places.
fn place(value: u64, bits: u32) -> usize {
    let shift = (64 - value.leading_zeros()).saturating_sub(bits);
    (u64::from(shift) << (bits - 1)) as usize + (value >> shift) as usize
}

/// Returns the least value of a place.
fn least(place: usize, bits: u32) -> u64 {
    let half = 1usize << (bits - 1);
    let shift = (place / half).saturating_sub(1);
    ((place - shift * half) as u64) << shift
}

impl Latencies {
    /// Records a latency in cycles.
    #[inline]
    pub fn record(&mut self, cycles: u64) {
        let place = place(cycles, PRECISION);
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.max = self.max.max(cycles);
        self.count += 1;
        self.sum += u128::from(cycles);
    }

    /// Returns the number of latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean; `None` if there are no latencies.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Returns the longest latency; `None` if there are none.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Returns the least latency that at least `share` of all (0 to 1) do not exceed: the nearest
    /// rank.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let rank = ((share * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let place = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some((least(place + 1, PRECISION) - 1).min(self.max))
    }

    /// Returns a histogram for people: exact up to 7 cycles, then four ranges per doubling; empty
    /// ranges are left out. The counts add up to [`count`](Self::count).
    #[must_use]
    pub fn buckets(&self) -> Vec<Bucket> {
        let mut buckets: Vec<Bucket> = Vec::new();
        for (index, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let coarse = place(least(index, PRECISION), STEPS);
            let from = least(coarse, STEPS);
            match buckets.last_mut() {
                Some(last) if last.from == from => last.count += count,
                _ => buckets.push(Bucket { from, to: least(coarse + 1, STEPS) - 1, count: *count }),
            }
        }
        buckets
    }
}

impl AddAssign<&Self> for Latencies {
    fn add_assign(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, others)| *own += others);
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Latencies {
        let mut latencies = Latencies::default();
        values.iter().for_each(|value| latencies.record(*value));
        latencies
    }

    #[test]
    fn small_latencies_are_exact() {
        let latencies = of(&[21, 38, 55, 21, 21, 38, 21, 21, 21, 4095]);
        assert_eq!(latencies.percentile(0.5), Some(21));
        assert_eq!(latencies.percentile(0.6), Some(21));
        assert_eq!(latencies.percentile(0.7), Some(38));
        assert_eq!(latencies.percentile(0.9), Some(55));
        assert_eq!(latencies.percentile(1.0), Some(4095));
        assert_eq!((latencies.mean(), latencies.max()), (Some(435.2), Some(4095)));
        let bucket = |from, to, count| Bucket { from, to, count };
        let wanted =
            [bucket(20, 23, 6), bucket(32, 39, 2), bucket(48, 55, 1), bucket(3584, 4095, 1)];
        assert_eq!(latencies.buckets(), wanted);
    }

    #[test]
    fn nothing_has_no_latency() {
        let none = Latencies::default();
        assert_eq!((none.mean(), none.max(), none.percentile(0.5)), (None, None, None));
        assert!(none.buckets().is_empty());
    }

    proptest! {
        #[test]
        fn places_are_in_order_and_hold_their_least_value(value: u64, bits in 2u32..14) {
            // The last place of all ends beyond the largest number.
            let value = value >> 1;
            let place = place(value, bits);
            prop_assert!(least(place, bits) <= value && value < least(place + 1, bits));
        }

        #[test]
        fn percentiles_are_those_of_the_sorted_latencies(
            mut values in prop::collection::vec(any::<u64>().prop_map(|v| v >> (v % 60)), 1..200),
            share in 0.0..=1.0f64,
        ) {
            values.iter_mut().for_each(|value| *value >>= 1);
            let latencies = of(&values);
            values.sort_unstable();
            let rank = ((f64::ceil(share * values.len() as f64)) as usize).max(1);
            let (exact, found) = (values[rank - 1], latencies.percentile(share).unwrap());
            prop_assert!(exact <= found && found - exact <= exact / 2048, "{} {}", exact, found);
            if exact < EXACT {
                prop_assert_eq!(exact, found);
            }
            let (first, second) = values.split_at(values.len() / 2);
            let mut both = of(first);
            both += &of(second);
            prop_assert_eq!(&both, &latencies);
            let counted: u64 = latencies.buckets().iter().map(|bucket| bucket.count).sum();
            prop_assert_eq!(counted, values.len() as u64);
        }
    }
}
