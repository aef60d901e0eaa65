//! The classes of hmmsched section V-A-2: latency-sensitive and bandwidth-sensitive jobs.

/// A class of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Little traffic: the job is bound by the CPU.
    LatencySensitive,
    /// All other jobs.
    BandwidthSensitive,
}

impl Class {
    /// Returns the opposite class.
    pub(super) fn other(self) -> Self {
        match self {
            Self::LatencySensitive => Self::BandwidthSensitive,
            Self::BandwidthSensitive => Self::LatencySensitive,
        }
    }
}

/// Divides jobs into classes; reuses its buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    /// EBW and number of each job, partly ordered.
    order: Vec<(f64, usize)>,
    classes: Vec<Class>,
}

impl Classes {
    /// Classifies jobs by their EBW: in ascending order, the first `K` are latency-sensitive for
    /// the largest `K` with `EBW(1) + ... + EBW(K) < alpha TotalEBW`.
    pub(super) fn classify(&mut self, ebw: impl Iterator<Item = f64>, alpha: f64) -> &[Class] {
        self.order.clear();
        self.order.extend(ebw.zip(0..));
        self.classes.clear();
        self.classes.resize(self.order.len(), Class::BandwidthSensitive);
        let total: f64 = self.order.iter().map(|(ebw, _)| ebw).sum();
        let limit = alpha * total;
        let lowest = if limit > 0.0 { lowest_below(&mut self.order, limit) } else { 0 };
        for (_, job) in &self.order[..lowest] {
            self.classes[*job] = Class::LatencySensitive;
        }
        &self.classes
    }
}

/// Moves the lowest figures whose running sum stays below `limit` to the front and returns their
/// number. Bisection finds the border in linear time, where sorting would order both sides too.
fn lowest_below(figures: &mut [(f64, usize)], limit: f64) -> usize {
    let (mut low, mut high, mut sum) = (0, figures.len(), 0.0);
    while low < high {
        let middle = low + (high - low) / 2;
        figures[low..high]
            .select_nth_unstable_by(middle - low, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let half: f64 = figures[low..=middle].iter().map(|(figure, _)| figure).sum();
        if sum + half < limit {
            sum += half;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn latency_sensitive(ebw: &[f64], alpha: f64) -> Vec<usize> {
        let mut classes = Classes::default();
        let classes = classes.classify(ebw.iter().copied(), alpha);
        (0..ebw.len()).filter(|job| classes[*job] == Class::LatencySensitive).collect()
    }

    #[test]
    fn the_lowest_with_a_running_sum_below_the_threshold() {
        // In ascending order 1 2 3 4 10, running sums 1 3 6 10 20.
        let ebw = [10.0, 2.0, 4.0, 1.0, 3.0];
        assert_eq!(latency_sensitive(&ebw, 0.0), [0_usize; 0]);
        assert_eq!(latency_sensitive(&ebw, 0.1), [3]);
        // 6 is not below 0.3 x 20.
        assert_eq!(latency_sensitive(&ebw, 0.3), [1, 3]);
        assert_eq!(latency_sensitive(&ebw, 0.31), [1, 3, 4]);
        // The whole is never below the whole.
        assert_eq!(latency_sensitive(&ebw, 1.0), [1, 2, 3, 4]);
    }

    #[test]
    fn without_traffic_nobody_is_latency_sensitive() {
        assert_eq!(latency_sensitive(&[0.0; 4], 1.0), [0_usize; 0]);
        assert_eq!(latency_sensitive(&[], 0.5), [0_usize; 0]);
    }

    proptest! {
        #[test]
        fn the_classes_are_those_of_the_formula(
            // Whole numbers, whose sums are exact in any order.
            ebw in prop::collection::vec((0u32..50).prop_map(f64::from), 0..200),
            percent in 0u32..=100,
        ) {
            let alpha = f64::from(percent) / 100.0;
            let mut sorted: Vec<(f64, usize)> = ebw.iter().copied().zip(0..).collect();
            sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let total: f64 = ebw.iter().sum();
            let mut sum = 0.0;
            let below = |(ebw, _): &&(f64, usize)| {
                sum += ebw;
                sum < alpha * total
            };
            let mut expected: Vec<usize> = sorted.iter().take_while(below).map(|f| f.1).collect();
            expected.sort_unstable();
            prop_assert_eq!(latency_sensitive(&ebw, alpha), expected);
        }
    }
}
