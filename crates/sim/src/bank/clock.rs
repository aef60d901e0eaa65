//! Time between clock domains: core and memory clocks in any ratio on one grid of femtoseconds.

use memweir_core::{Cycles, Picos};

/// An instant or a span in femtoseconds: fine enough for the ratio of any two clocks, and five hours
/// long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Later than everything.
    pub const NEVER: Self = Self(u64::MAX);

    /// A span of this many seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-15
    }

    /// The span in nanoseconds.
    #[must_use]
    pub fn as_nanos_f64(self) -> f64 {
        self.0 as f64 * 1e-6
    }

    /// The instant `span` later.
    #[must_use]
    pub const fn after(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The span since an earlier instant; nothing since a later one.
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

/// A clock: the length of its cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    period: u64,
}

impl Clock {
    /// A clock with cycles of `period`, at least one femtosecond.
    #[must_use]
    pub fn with_period(period: Time) -> Self {
        Self { period: period.0.max(1) }
    }

    /// A clock of so many gigahertz, to the next femtosecond.
    #[must_use]
    pub fn gigahertz(frequency: f64) -> Self {
        Self::with_period(Time((1e6 / frequency).round() as u64))
    }

    /// A clock that makes `own` cycles while `other` makes `others`.
    #[must_use]
    pub fn ratio(other: Self, own: u64, others: u64) -> Self {
        Self::with_period(Time((other.period * others + own / 2) / own.max(1)))
    }

    /// The length of a cycle.
    #[must_use]
    pub const fn period(self) -> Time {
        Time(self.period)
    }

    /// Cycles per second.
    #[must_use]
    pub fn frequency(self) -> f64 {
        1e15 / self.period as f64
    }

    /// The first cycle that begins at `time` or later.
    #[must_use]
    pub const fn first_from(self, time: Time) -> Cycles {
        Cycles(time.0.div_ceil(self.period))
    }

    /// When a cycle begins.
    #[must_use]
    pub const fn start(self, cycle: Cycles) -> Time {
        Time(cycle.0.saturating_mul(self.period))
    }

    /// The length of so many cycles.
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
