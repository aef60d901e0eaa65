//! Estimating the count that an event would have if it had been on a counter all the time.
//!
//! When more events are open than the CPU has counters, the kernel lets them take turns and reports
//! for how long each was enabled and for how long it ran. Usually the whole count is multiplied by
//! enabled / running. Here each span between two readings is scaled by itself: the estimate never
//! decreases, and a quantum in which the event had its turn is not changed by one in which it had
//! not.

use std::fmt;

/// The kernel's counts for one event, cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RawCount {
    /// Events counted.
    pub(super) count: u64,
    /// Nanoseconds for which the event was enabled while its task ran.
    pub(super) enabled: u64,
    /// Nanoseconds of those for which it was on a counter.
    pub(super) running: u64,
}

impl RawCount {
    /// Returns the trouble with an event of these counts that users should know of, if any.
    pub(super) fn trouble(self) -> Option<Trouble> {
        let Self { enabled, running, .. } = self;
        if running == 0 {
            return (enabled > STARVED_AFTER).then_some(Trouble::Starved);
        }
        (enabled as f64 > running as f64 * TOLD_ABOVE).then_some(Trouble::Shared)
    }
}

/// Something about an event that users should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It took turns with others, so counts are estimates.
    Shared,
    /// It was never on a counter.
    Starved,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => {
                "shares its hardware counter with others; its counts are scaled up from the \
                 time for which it ran, and estimates from here on"
            }
            Self::Starved => {
                "never got a hardware counter and reads zero; another program (the NMI \
                 watchdog, a profiler) may hold them all"
            }
        })
    }
}

/// Estimates above this multiple of the raw count are reported to the user.
const TOLD_ABOVE: f64 = 1.05;

/// An event is called starved after this many nanoseconds.
const STARVED_AFTER: u64 = 10_000_000;

/// The running estimate of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scaled {
    last: RawCount,
    estimate: u64,
}

impl Scaled {
    /// Takes a reading in and returns the estimate since the start.
    ///
    /// A span in which the event never ran adds nothing, as its count is unknown. Readings that go
    /// backwards add nothing either.
    pub(super) fn update(&mut self, now: RawCount) -> u64 {
        let count = now.count.saturating_sub(self.last.count);
        let enabled = now.enabled.saturating_sub(self.last.enabled);
        let running = now.running.saturating_sub(self.last.running);
        let scaled = if running == 0 || running >= enabled {
            u128::from(count)
        } else {
            u128::from(count) * u128::from(enabled) / u128::from(running)
        };
        self.estimate = self.estimate.saturating_add(u64::try_from(scaled).unwrap_or(u64::MAX));
        self.last = now;
        self.estimate
    }

    /// Returns the trouble with the estimate that users should know of, if any.
    #[must_use]
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.last.trouble()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raw(count: u64, enabled: u64, running: u64) -> RawCount {
        RawCount { count, enabled, running }
    }

    #[test]
    fn an_event_that_always_ran_is_taken_as_it_is() {
        let mut scaled = Scaled::default();
        assert_eq!(scaled.update(raw(10, 100, 100)), 10);
        assert_eq!(scaled.update(raw(35, 200, 200)), 35);
        assert_eq!(scaled.trouble(), None);
    }

    #[test]
    fn each_span_is_scaled_by_itself() {
        let mut scaled = Scaled::default();
        // 10 in a quarter of the time: 40.
        assert_eq!(scaled.update(raw(10, 400, 100)), 40);
        assert_eq!(scaled.trouble(), Some(Trouble::Shared));
        // Then 5 in the whole of the next 100 ns. Lifetime scaling would say 15 * 500 / 200 = 37,
        // less than before.
        assert_eq!(scaled.update(raw(15, 500, 200)), 45);
    }

    #[test]
    fn an_event_that_never_ran_counts_nothing_and_says_so() {
        let mut scaled = Scaled::default();
        assert_eq!(scaled.update(raw(0, 1000, 0)), 0);
        assert_eq!(scaled.trouble(), None);
        assert_eq!(scaled.update(raw(0, STARVED_AFTER + 1, 0)), 0);
        assert_eq!(scaled.trouble(), Some(Trouble::Starved));
        // A job that has not called exec yet has no time at all.
        assert_eq!(Scaled::default().update(RawCount::default()), 0);
    }

    #[test]
    fn the_largest_counts_do_not_overflow() {
        let mut scaled = Scaled::default();
        assert_eq!(scaled.update(raw(u64::MAX, u64::MAX, 1)), u64::MAX);
        assert_eq!(scaled.update(raw(0, 0, 0)), u64::MAX);
    }

    proptest! {
        #[test]
        fn estimates_never_decrease_and_never_fall_short(
            spans in prop::collection::vec((0u64..1 << 40, 0u64..1 << 40, 0.0f64..1.0), 1..20)
        ) {
            let (mut scaled, mut total, mut previous) = (Scaled::default(), RawCount::default(), 0);
            for (count, enabled, share) in spans {
                total.count += count;
                total.enabled += enabled;
                total.running += (enabled as f64 * share) as u64;
                let estimate = scaled.update(total);
                prop_assert!(estimate >= previous);
                prop_assert!(estimate >= total.count);
                previous = estimate;
            }
        }
    }
}
