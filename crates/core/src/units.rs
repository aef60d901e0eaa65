//! Units as types, so that a rate cannot be added to a latency.
//!
//! Memory traffic is counted in *transactions* of one 64-byte cache line ([`Lines`]); rates are
//! bytes per second ([`BytesPerSec`]), and the unit of the papers, transactions per microsecond
//! ([`TransPerMicro`]), is one conversion away. iabw's own transactions are 128 bytes long
//! (section 2.1); figures quoted from it are converted where they are quoted.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Bytes moved by one memory transaction.
pub const LINE_BYTES: u64 = 64;

/// Size of a base page, the smallest that an operating system moves.
pub const PAGE: Bytes = Bytes(4096);

macro_rules! integer_unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);

            /// Returns the difference, or zero if `other` is larger (counters that were reset).
            #[must_use]
            pub fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// Returns the value as a float, for ratios and plots.
            #[must_use]
            pub fn as_f64(self) -> f64 {
                self.0 as f64
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
                values.fold(Self::ZERO, Add::add)
            }
        }
    };
}

macro_rules! float_unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub f64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0.0);
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
                values.fold(Self::ZERO, Add::add)
            }
        }
    };
}

/// Limit on bandwidths in input, in bytes per second: more than any memory carries, so a larger
/// figure is a mistake of unit.
pub const ABSURD_BANDWIDTH: f64 = 1e14;

integer_unit! {
    /// A span of time in nanoseconds.
    Nanos
}
integer_unit! {
    /// An amount of memory in bytes.
    Bytes
}
integer_unit! {
    /// Memory transactions: cache lines of [`LINE_BYTES`] moved between the last-level cache and
    /// memory.
    Lines
}

integer_unit! {
    /// A latency in picoseconds, since latencies of memory media have fractions of a nanosecond.
    Picos
}

/// A physical byte address.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct PhysAddr(pub u64);

impl fmt::Display for PhysAddr {
    /// `0x1f40`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

integer_unit! {
    /// A span of time, or an instant, in cycles of a clock that the context names.
    Cycles
}

impl Picos {
    /// Returns a latency of `ns` nanoseconds.
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// Returns the quotient of this and `other`; not finite if `other` is zero.
    #[must_use]
    pub fn ratio(self, other: Self) -> f64 {
        self.as_f64() / other.as_f64()
    }
}

impl Nanos {
    /// One millisecond, the fine interval of iabw section 2.2.
    pub const MILLI: Self = Self(1_000_000);

    /// Returns a span of `ms` milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// Returns a span of `s` seconds; negative values and NaN become zero, values out of range
    /// (infinity included) the longest span.
    #[must_use]
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9).round() as u64)
    }

    /// Returns the span in seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the span in milliseconds.
    #[must_use]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

impl Lines {
    /// Returns the bytes that these transactions moved.
    #[must_use]
    pub fn bytes(self) -> Bytes {
        Bytes(self.0 * LINE_BYTES)
    }

    /// Returns the rate of this many transactions in `span`; zero for an empty span.
    #[must_use]
    pub fn over(self, span: Nanos) -> BytesPerSec {
        self.bytes().over(span)
    }
}

impl Bytes {
    /// Returns the rate of this many bytes in `span`; zero for an empty span.
    #[must_use]
    pub fn over(self, span: Nanos) -> BytesPerSec {
        if span == Nanos::ZERO {
            return BytesPerSec::ZERO;
        }
        BytesPerSec(self.0 as f64 / span.as_secs_f64())
    }
}

impl fmt::Display for Bytes {
    /// Formats with binary prefixes, as usual for cache and memory sizes: `32 MiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut value, mut unit) = (self.0 as f64, 0);
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        // From 1023.95 on, one digit would show 1024.0 of the smaller unit.
        while value >= 1023.95 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        if value.fract() == 0.0 {
            write!(f, "{value:.0} {}", UNITS[unit])
        } else {
            write!(f, "{value:.1} {}", UNITS[unit])
        }
    }
}

float_unit! {
    /// A memory traffic rate in bytes per second.
    BytesPerSec
}

/// A memory traffic rate in bus transactions per microsecond, the BTR of iabw (one transaction is
/// one 64-byte line here, 128 bytes in the paper).
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TransPerMicro(pub f64);

impl BytesPerSec {
    /// Returns a rate of `gb` gigabytes (10^9 bytes) per second.
    #[must_use]
    pub const fn from_gb(gb: f64) -> Self {
        Self(gb * 1e9)
    }

    /// Returns the rate in gigabytes (10^9 bytes) per second.
    #[must_use]
    pub fn as_gb(self) -> f64 {
        self.0 / 1e9
    }

    /// Returns the smaller of two rates.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    /// Returns the larger of two rates.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    /// Returns the distance between two rates, `|a - b|`, as in iabw eq. (2).
    #[must_use]
    pub fn distance(self, other: Self) -> Self {
        Self((self.0 - other.0).abs())
    }
}

impl From<BytesPerSec> for TransPerMicro {
    fn from(rate: BytesPerSec) -> Self {
        Self(rate.0 / LINE_BYTES as f64 / 1e6)
    }
}

impl From<TransPerMicro> for BytesPerSec {
    fn from(rate: TransPerMicro) -> Self {
        Self(rate.0 * LINE_BYTES as f64 * 1e6)
    }
}

impl AddAssign for BytesPerSec {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl SubAssign for BytesPerSec {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Div<f64> for BytesPerSec {
    type Output = Self;
    fn div(self, divisor: f64) -> Self {
        Self(self.0 / divisor)
    }
}

impl fmt::Display for BytesPerSec {
    /// Formats with decimal prefixes, as usual for bandwidth: `22.4 GB/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each limit is the least rate that would show 1000 of the smaller unit.
        let magnitude = self.0.abs();
        if magnitude >= 999.95e6 {
            write!(f, "{:.1} GB/s", self.0 / 1e9)
        } else if magnitude >= 999.95e3 {
            write!(f, "{:.1} MB/s", self.0 / 1e6)
        } else if magnitude >= 999.5 {
            write!(f, "{:.1} kB/s", self.0 / 1e3)
        } else {
            write!(f, "{:.0} B/s", self.0)
        }
    }
}

float_unit! {
    /// A power in watts.
    Watts
}
float_unit! {
    /// An energy in joules.
    Joules
}
float_unit! {
    /// A span of time in seconds, for fractions of a nanosecond.
    Seconds
}

impl Watts {
    /// Returns a power of `mw` milliwatts.
    #[must_use]
    pub const fn from_milli(mw: f64) -> Self {
        Self(mw * 1e-3)
    }
}

impl Seconds {
    /// Returns a span of `ns` nanoseconds.
    #[must_use]
    pub const fn from_nanos(ns: f64) -> Self {
        Self(ns * 1e-9)
    }
}

impl Mul<Seconds> for Watts {
    type Output = Joules;
    fn mul(self, span: Seconds) -> Joules {
        Joules(self.0 * span.0)
    }
}

impl fmt::Display for Joules {
    /// `17.6 J`, `2.15 µJ`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each limit is the least energy that would show 1000 of the smaller unit.
        let (factor, unit) = match self.0.abs() {
            0.0 => return f.write_str("0 J"),
            joules if joules < 999.5e-9 => (1e9, "nJ"),
            joules if joules < 999.5e-6 => (1e6, "µJ"),
            joules if joules < 999.5e-3 => (1e3, "mJ"),
            _ => (1.0, "J"),
        };
        let value = self.0 * factor;
        let digits = usize::from(value.abs() < 99.95) + usize::from(value.abs() < 9.995);
        write!(f, "{value:.digits$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_transaction_per_microsecond_is_64_megabytes_per_second() {
        assert_eq!(BytesPerSec::from(TransPerMicro(1.0)), BytesPerSec(64e6));
        assert_eq!(TransPerMicro::from(BytesPerSec(64e6)), TransPerMicro(1.0));
    }

    #[test]
    fn lines_over_time_is_a_rate() {
        // 1000 lines of 64 B in 1 ms: 64,000 B / 0.001 s.
        assert_eq!(Lines(1000).over(Nanos::MILLI), BytesPerSec(64e6));
        assert_eq!(Lines(1000).over(Nanos::ZERO), BytesPerSec::ZERO);
    }

    #[test]
    fn sizes_and_rates_print_with_their_customary_prefixes() {
        assert_eq!(Bytes(32 << 20).to_string(), "32 MiB");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
        assert_eq!(
            [1023, 1024, (1 << 20) - 1, 3 << 50].map(|n| Bytes(n).to_string()),
            ["1023 B", "1 KiB", "1.0 MiB", "3072 TiB"]
        );
        assert_eq!(BytesPerSec(22.4e9).to_string(), "22.4 GB/s");
        let rates = [0.0, 999.0, 1e3, 1e6, -2.5e6, 1e9].map(|rate| BytesPerSec(rate).to_string());
        assert_eq!(rates, ["0 B/s", "999 B/s", "1.0 kB/s", "1.0 MB/s", "-2.5 MB/s", "1.0 GB/s"]);
        let below = [999.4, 999.6, 999.94e3, 999.96e3, 999.96e6];
        let below = below.map(|rate| BytesPerSec(rate).to_string());
        assert_eq!(below, ["999 B/s", "1.0 kB/s", "999.9 kB/s", "1.0 MB/s", "1.0 GB/s"]);
    }

    #[test]
    fn energies_print_with_three_digits() {
        let written = |joules: &[f64]| -> Vec<String> {
            joules.iter().map(|joules| Joules(*joules).to_string()).collect()
        };
        assert_eq!(
            written(&[150.0, 100.0, 17.64, 10.0, 1.0]),
            ["150 J", "100 J", "17.6 J", "10.0 J", "1.00 J"]
        );
        assert_eq!(written(&[0.15, -0.0215, 1e-3]), ["150 mJ", "-21.5 mJ", "1.00 mJ"]);
        assert_eq!(written(&[2.15e-6, 1e-6, 3e-9, 0.0]), ["2.15 µJ", "1.00 µJ", "3.00 nJ", "0 J"]);
        assert_eq!(written(&[0.9996, 9.996, 99.96]), ["1.00 J", "10.0 J", "100 J"]);
        assert_eq!(written(&[999.6e-6, 999.6e-9]), ["1.00 mJ", "1.00 µJ"]);
        assert_eq!(written(&[f64::NAN, f64::INFINITY]), ["NaN J", "inf J"]);
        assert_eq!(Watts(2.0) * Seconds(3.0), Joules(6.0));
    }

    #[test]
    fn rates_are_added_and_subtracted() {
        let mut rate = BytesPerSec(5.0);
        rate += BytesPerSec(2.0);
        rate -= BytesPerSec(3.0);
        assert_eq!(rate, BytesPerSec(4.0));
    }

    #[test]
    fn seconds_that_are_no_time_become_zero() {
        assert_eq!(Nanos::from_secs_f64(-1.0), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(f64::NAN), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(1.5), Nanos(1_500_000_000));
        assert_eq!(Nanos::from_secs_f64(1.6e-9), Nanos(2));
    }
}
