//! Rests of the evictor, when nothing can be evicted.

/// Microseconds to rest at least.
const REST: u64 = 2_000;
/// Rests in a row after which the growth that ends a rest no longer doubles.
const MOST_RESTS: u32 = 16;

/// The present rest. Nothing is evicted until its time is over, or until there are more pages than
/// when it began by the growth that ends it. Each rest since the last eviction doubles that growth,
/// so that memory that cannot leave may grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rest {
    /// Time in microseconds.
    until: u64,
    up_to: usize,
    /// Rests since the last eviction.
    count: u32,
}

impl Rest {
    /// Rests from `now` for that many microseconds or the least time, with that many resident
    /// pages. `growth` is the number of further pages that ends the first rest.
    pub(super) fn begin(&mut self, now: u64, micros: u64, resident: usize, growth: usize) {
        self.until = now + micros.max(REST);
        self.up_to = resident + (growth << self.count);
        self.count = (self.count + 1).min(MOST_RESTS);
    }

    /// Records that pages were evicted.
    pub(super) fn forget(&mut self) {
        self.count = 0;
    }

    /// Returns true if the number of resident pages is too small to end the rest.
    pub(super) fn covers(&self, resident: usize) -> bool {
        resident <= self.up_to
    }

    /// Returns true if the time of the rest is not over.
    pub(super) fn lasts(&self, now: u64) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rest_bears_twice_the_growth_until_pages_leave() {
        let mut rest = Rest::default();
        assert!(!rest.lasts(0));
        rest.begin(100, 0, 1000, 8);
        assert!(rest.lasts(2099) && !rest.lasts(2100));
        assert!(rest.covers(1008) && !rest.covers(1009));
        rest.begin(3000, 50_000, 1000, 8);
        assert!(rest.lasts(52_999));
        assert!(rest.covers(1016) && !rest.covers(1017));
        rest.forget();
        rest.begin(60_000, 0, 1000, 8);
        assert!(!rest.covers(1009));
        (0..99).for_each(|_| rest.begin(60_000, 0, 0, 1));
        assert!(rest.covers(1 << MOST_RESTS) && !rest.covers((1 << MOST_RESTS) + 1));
    }
}
