//! Time across clock domains: core and memory clocks of any ratio on one grid of femtoseconds.

use memweir_core::{Cycles, Picos};

/// An instant or a span in femtoseconds: fine enough for the ratio of any two clocks. The range is
/// five hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// An instant later than any other.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the span in seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-15
    }

    /// Returns the span in whole picoseconds, rounded down.
    #[must_use]
    pub const fn picos(self) -> Picos {
        Picos(self.0 / 1_000)
    }

    /// Returns the instant `span` later.
    #[must_use]
    pub const fn after(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Returns the span since `earlier`; zero if `earlier` is later than this instant.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl From<Picos> for Time {
    fn from(span: Picos) -> Self {
        Self(span.0 * 1_000)
    }
}

/// A clock with a fixed cycle length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    period: u64,
}

impl Clock {
    /// Creates a clock with cycles of `period`, at least one femtosecond.
    #[must_use]
    pub fn with_period(period: Time) -> Self {
        Self { period: period.0.max(1) }
    }

    /// Creates a clock of `frequency` gigahertz, rounded to whole femtoseconds per cycle.
    #[must_use]
    pub fn gigahertz(frequency: f64) -> Self {
        Self::with_period(Time((1e6 / frequency).round() as u64))
    }

    /// Creates a clock that makes `own` cycles while `other` makes `others`.
    #[must_use]
    pub fn ratio(other: Self, own: u64, others: u64) -> Self {
        Self::with_period(Time((other.period * others + own / 2) / own.max(1)))
    }

    /// Returns the length of a cycle.
    #[must_use]
    pub const fn period(self) -> Time {
        Time(self.period)
    }

    /// Returns the first cycle that begins at `time` or later.
    #[must_use]
    pub const fn first_from(self, time: Time) -> Cycles {
        Cycles(time.0.div_ceil(self.period))
    }

    /// Returns the instant at which a cycle begins.
    #[must_use]
    pub const fn start(self, cycle: Cycles) -> Time {
        Time(cycle.0.saturating_mul(self.period))
    }

    /// Returns the length of `cycles` cycles.
    #[must_use]
    pub const fn span(self, cycles: u64) -> Time {
        Time(self.period.saturating_mul(cycles))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_core_cycles_are_three_of_the_memory() {
        let memory = Clock::with_period(Picos(833).into());
        let core = Clock::ratio(memory, 8, 3);
        assert_eq!(core.period(), Time(312_375));
        assert_eq!(core.span(8), memory.span(3));
        assert_eq!(memory.first_from(Time(833_001)), Cycles(2));
        assert_eq!(memory.start(Cycles(2)), Time(1_666_000));
        assert_eq!(Clock::gigahertz(2.8).period(), Time(357_143));
    }
}
