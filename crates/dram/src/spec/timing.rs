//! Timing parameters in cycles, and how spans of time become cycles.

use memweir_core::{Cycles, Picos};

/// How a span of time becomes cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Up to the next whole cycle (DDR3).
    Up,
    /// Up, except that up to 2.6 % of a cycle is forgiven: clock periods are given in rounded
    /// picoseconds (DDR4: `trunc((1000 t / tCK + 974) / 1000)`).
    Ddr4,
    /// Up, after 0.3 % has been taken off (DDR5: `trunc(0.997 t / tCK + 1)`).
    Ddr5,
}

impl Rounding {
    /// Every way of rounding and its name in files.
    pub const ALL: [(&'static str, Self); 3] =
        [("up", Self::Up), ("ddr4", Self::Ddr4), ("ddr5", Self::Ddr5)];

    /// The cycles of `clock` that `span` takes.
    #[must_use]
    pub fn cycles(self, span: Picos, clock: Picos) -> Cycles {
        Cycles(match self {
            Self::Up => span.0.div_ceil(clock.0),
            Self::Ddr4 => (span.0 * 1000 / clock.0 + 974) / 1000,
            Self::Ddr5 if span.0 == 0 => 0,
            Self::Ddr5 => (span.0 * 997 / clock.0 + 1000) / 1000,
        })
    }
}

/// Timing parameters by name, in cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timing(Vec<(String, Cycles)>);

impl Timing {
    /// The value of the parameter called `name`, if the device gives it: `tRCD`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Cycles> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// The parameters in the order of the family.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Cycles)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    pub(super) fn push(&mut self, name: &str, value: Cycles) {
        self.0.push((name.to_owned(), value));
    }
}
