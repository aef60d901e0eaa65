//! Times of single pages, as histograms.

use memweir_abi::preload::page::{BUCKETS, PageCounters, Timed};
use serde::Serialize;

/// One range of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The shortest time of the range, in nanoseconds.
    pub from_ns: u64,
    /// The end of the range.
    pub to_ns: u64,
    /// Number of times in the range.
    pub count: u64,
}

/// Times of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// Number of times.
    pub count: u64,
    /// End of the range that holds the median, in nanoseconds; `None` if there are no times.
    pub median_below_ns: Option<u64>,
    /// 99 of 100 times are below this.
    pub p99_below_ns: Option<u64>,
    /// The ranges that hold any times.
    pub buckets: Vec<Bucket>,
}

impl Histogram {
    /// Returns the times of one kind.
    #[must_use]
    pub fn of(counters: &PageCounters, timed: Timed) -> Self {
        let counts = counters.histogram(timed);
        let start = |bucket: usize| if bucket == 0 { 0 } else { 1 << bucket };
        // The last holds everything longer.
        let end = |bucket: usize| if bucket + 1 == BUCKETS { u64::MAX } else { 1 << (bucket + 1) };
        let count = counts.iter().sum();
        let below = |per_cent: u64| {
            let mut seen = 0;
            let reached = counts.iter().position(|more| {
                seen += more;
                seen > 0 && seen * 100 >= count * per_cent
            });
            reached.map(end)
        };
        let buckets = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Self {
            count,
            median_below_ns: below(50),
            p99_below_ns: below(99),
            buckets: buckets
                .map(|(i, count)| Bucket { from_ns: start(i), to_ns: end(i), count: *count })
                .collect(),
        }
    }

    /// Returns all kinds by name, without those that were never timed.
    #[must_use]
    pub fn all(counters: &PageCounters) -> Vec<(&'static str, Self)> {
        let timed = Timed::ALL.iter().map(|(name, timed)| (*name, Self::of(counters, *timed)));
        timed.filter(|(_, histogram)| histogram.count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use memweir_abi::preload::page::{PAGE_COUNTERS_BYTES, timed_word};

    use super::*;

    #[test]
    fn the_middle_is_where_half_of_them_are() {
        let mut words = vec![0u64; PAGE_COUNTERS_BYTES / 8];
        for (bucket, count) in [(0, 1), (10, 98), (20, 1)] {
            words[timed_word(Timed::Upgrade, bucket)] = count;
        }
        let content: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let counters = PageCounters::of(&content);
        let histogram = Histogram::of(&counters, Timed::Upgrade);
        assert_eq!(histogram.count, 100);
        assert_eq!(histogram.median_below_ns, Some(2048));
        assert_eq!(histogram.p99_below_ns, Some(2048));
        let bucket = |from_ns, to_ns, count| Bucket { from_ns, to_ns, count };
        assert_eq!(
            histogram.buckets,
            [bucket(0, 2, 1), bucket(1024, 2048, 98), bucket(1 << 20, 2 << 20, 1)]
        );
        assert_eq!(Histogram::of(&counters, Timed::Copy).median_below_ns, None);
        assert_eq!(Histogram::all(&counters).len(), 1);
    }
}
