//! Timing parameters in cycles, and the conversion of time spans into cycles.

use memweir_core::{Cycles, Picos};

/// Rounding of a time span to cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Up to the next whole cycle (DDR3).
    Up,
    /// Up, except that an excess of up to 2.6 % of a cycle is dropped, because clock periods are
    /// given in rounded picoseconds (DDR4: `trunc((1000 t / tCK + 974) / 1000)`).
    Ddr4,
    /// Up, after the span is shortened by 0.3 % (DDR5: `trunc(0.997 t / tCK + 1)`).
    Ddr5,
}

memweir_core::named! { pub Rounding, "way of rounding": Up = "up", Ddr4 = "ddr4", Ddr5 = "ddr5" }

impl Rounding {
    /// Returns the cycles of `clock` that `span` takes.
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
    /// Returns the value of a parameter, for example `tRCD`, if the device has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Cycles> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Iterates over the parameters in the order of the family.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Cycles)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    pub(super) fn push(&mut self, name: &str, value: Cycles) {
        self.0.push((name.to_owned(), value));
    }
}
