//! Bandwidth segments: what a job demands in one scheduling quantum, at fine intervals (iabw
//! section 2.2), with the transformations of section 2.3 (X4).
//!
//! Making the bus feel a segment is [`crate::hog`]'s business. The file form is text: a line
//! `memweir-segment 1`, a line `interval_ns N`, then one rate per line in bytes per second. Empty
//! lines and lines that begin with `#` say nothing.

use std::fmt::Write as _;

use memweir_core::input::InputError;
use memweir_core::profile::Profile;
use memweir_core::{BytesPerSec, Nanos};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::lines;

/// Fine intervals per segment: one scheduling quantum of 100 ms at 1 ms.
pub const INTERVALS: usize = 100;

/// The most intervals that a file may hold.
const MAX_INTERVALS: usize = 1_000_000;

const HEADER: &str = "memweir-segment 1";

/// The bandwidth that a job demands in consecutive fine intervals, `<a_1, ..., a_100>`.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    interval: Nanos,
    rates: Vec<BytesPerSec>,
}

/// What a synthetic segment looks like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Mean rate.
    pub mean: BytesPerSec,
    /// How far the rate swings about the mean: 0 is steady, 1 falls to nothing in between.
    pub burstiness: f64,
    /// The most that one core can demand; bursts are cut there and last longer instead.
    pub ceiling: BytesPerSec,
}

impl Segment {
    /// A segment of these rates, `interval` each.
    ///
    /// # Errors
    /// Refuses an interval of zero, no rates or more than a million, and rates that are negative
    /// or not finite.
    pub fn new(interval: Nanos, rates: Vec<BytesPerSec>) -> Result<Self, InputError> {
        let refuse = |reason: &str| Err(InputError::new("segment", reason));
        if interval == Nanos::ZERO || interval > Nanos::from_millis(60_000) {
            return refuse("an interval lasts from a nanosecond to a minute");
        }
        if rates.is_empty() || rates.len() > MAX_INTERVALS {
            return refuse("a segment has from one to a million intervals");
        }
        if rates.iter().any(|rate| !is_rate(*rate)) {
            return refuse("a rate is a finite number, zero or more");
        }
        Ok(Self { interval, rates })
    }

    /// Length of one interval.
    #[must_use]
    pub fn interval(&self) -> Nanos {
        self.interval
    }

    /// The rates, in order.
    #[must_use]
    pub fn rates(&self) -> &[BytesPerSec] {
        &self.rates
    }

    /// Length of the whole segment.
    #[must_use]
    pub fn duration(&self) -> Nanos {
        Nanos(self.interval.0 * self.rates.len() as u64)
    }

    /// The mean rate.
    #[must_use]
    pub fn mean(&self) -> BytesPerSec {
        self.rates.iter().copied().sum::<BytesPerSec>() / self.rates.len() as f64
    }

    /// The *degree* of fluctuation scaled by `y`: the distance of each rate from the mean times
    /// `y`. Where that would be less than nothing, the rate is zero, and the mean rises with it.
    #[must_use]
    pub fn with_degree(&self, y: f64) -> Self {
        let mean = self.mean();
        let scale = |rate: &BytesPerSec| (mean + (*rate - mean) * y).max(BytesPerSec::ZERO);
        Self { interval: self.interval, rates: self.rates.iter().map(scale).collect() }
    }

    /// The *period* of fluctuation scaled by `x`: every interval lasts `x` times as long, and
    /// HogSim repeats the segment more often in the same time. Never shorter than a nanosecond.
    #[must_use]
    pub fn with_period(&self, x: f64) -> Self {
        let interval = Nanos(((self.interval.as_f64() * x).round() as u64).max(1));
        Self { interval, rates: self.rates.clone() }
    }

    /// Every rate times `factor`, the "shift" with which Fig. 3(c) varies the demand.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let rates = self.rates.iter().map(|rate| *rate * factor).collect();
        Self { interval: self.interval, rates }
    }

    /// How often the rate crosses its mean.
    #[must_use]
    pub fn crossings(&self) -> usize {
        let mean = self.mean();
        let sides: Vec<bool> =
            self.rates.iter().filter(|rate| **rate != mean).map(|rate| *rate > mean).collect();
        sides.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    /// The *period* of fluctuation: the mean time between two crossings of the mean. None for a
    /// segment that crosses it never.
    #[must_use]
    pub fn fluctuation_period(&self) -> Option<Nanos> {
        let crossings = self.crossings() as u64;
        (crossings > 0).then(|| Nanos(self.duration().0 / crossings))
    }

    /// The regular counterpart (Fig. 4d): it swings between the highest and the lowest rate of
    /// this segment, each for one fluctuation period. A segment that never crosses its mean is
    /// regular already.
    #[must_use]
    pub fn regular(&self) -> Self {
        let Some(period) = self.fluctuation_period() else { return self.clone() };
        let run = (period.0 as f64 / self.interval.as_f64()).round().max(1.0) as usize;
        let high = self.rates.iter().copied().fold(BytesPerSec::ZERO, BytesPerSec::max);
        let low = self.rates.iter().copied().fold(high, BytesPerSec::min);
        let rates = (0..self.rates.len())
            .map(|index| if (index / run).is_multiple_of(2) { high } else { low })
            .collect();
        Self { interval: self.interval, rates }
    }

    /// The whole quanta of a recorded program, 100 intervals each.
    ///
    /// # Errors
    /// Refuses profiles at another interval than 1 ms, and profiles shorter than a quantum.
    pub fn extract(profile: &Profile) -> Result<Vec<Self>, InputError> {
        if profile.interval != Nanos::MILLI {
            return Err(InputError::new(
                "profile",
                format!(
                    "segments have intervals of 1 ms, this one has {} ms",
                    profile.interval.as_millis_f64()
                ),
            ));
        }
        let rates: Vec<_> = (0..profile.intervals.len())
            .map(|index| profile.intervals[index].bandwidth(profile.span_of(index)))
            .collect();
        let segments: Vec<_> = rates
            .chunks_exact(INTERVALS)
            .map(|rates| Self { interval: profile.interval, rates: rates.to_vec() })
            .collect();
        if segments.is_empty() {
            return Err(InputError::new("profile", "the program ended within its first quantum"));
        }
        Ok(segments)
    }

    /// A segment of bursts of 1 to 10 intervals in random order. The mean is that of the shape,
    /// at most its ceiling; the same seed makes the same segment.
    #[must_use]
    pub fn synthetic(shape: &Shape, seed: u64) -> Self {
        let ceiling = shape.ceiling.max(BytesPerSec::ZERO);
        let mean = shape.mean.max(BytesPerSec::ZERO).min(ceiling);
        let swing = shape.burstiness.clamp(0.0, 1.0);
        let low = mean * (1.0 - swing);
        let high = (mean * (1.0 + swing)).min(ceiling);
        let share = if high > low { (mean - low).0 / (high - low).0 } else { 0.0 };
        let busy = (share * INTERVALS as f64).round() as usize;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut bursts = split(busy, &mut rng);
        let mut pauses = split(INTERVALS - busy, &mut rng);
        bursts.shuffle(&mut rng);
        pauses.shuffle(&mut rng);
        let mut rates = Vec::with_capacity(INTERVALS);
        while rates.len() < INTERVALS {
            rates.extend(std::iter::repeat_n(high, bursts.pop().unwrap_or(0)));
            rates.extend(std::iter::repeat_n(low, pauses.pop().unwrap_or(0)));
        }
        let mut segment = Self { interval: Nanos::MILLI, rates };
        let actual = segment.mean();
        if actual > BytesPerSec::ZERO {
            // The number of busy intervals is whole: level the rest out.
            segment = segment.scaled(mean.0 / actual.0);
        }
        segment
    }

    /// Reads the text of a segment file; `source_name` stands in messages.
    pub fn parse(text: &str, source_name: &str) -> Result<Self, InputError> {
        let mut lines = lines::content(text);
        let refuse = |line: usize, reason: String| InputError::new(source_name, reason).line(line);
        lines::expect_header(&mut lines, HEADER, "segment file", source_name)?;
        let (line, interval) = lines
            .next()
            .and_then(|(number, line)| Some((number, line.strip_prefix("interval_ns ")?)))
            .ok_or_else(|| refuse(2, "`interval_ns` and a whole number must follow".to_owned()))?;
        let interval = interval.trim().parse().map_err(|_| {
            refuse(line, format!("`{interval}` is no whole number")).key("interval_ns")
        })?;
        let mut rates = Vec::new();
        for (line, text) in lines {
            let rate = text.parse().ok().map(BytesPerSec).filter(|rate| is_rate(*rate));
            rates.push(
                rate.ok_or_else(|| {
                    refuse(line, format!("`{text}` is no rate in bytes per second"))
                })?,
            );
        }
        Self::new(Nanos(interval), rates)
            .map_err(|error| InputError::new(source_name, error.reason))
    }

    /// The text of the segment's file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\ninterval_ns {}\n", self.interval.0);
        for rate in &self.rates {
            let _ = writeln!(text, "{}", rate.0);
        }
        text
    }
}

fn is_rate(rate: BytesPerSec) -> bool {
    rate.0.is_finite() && rate.0 >= 0.0
}

/// `total` as random whole numbers from 1 to 10.
fn split(total: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let (mut parts, mut left) = (Vec::new(), total);
    while left > 0 {
        let part = rng.random_range(1..=10_usize).min(left);
        parts.push(part);
        left -= part;
    }
    parts
}

#[cfg(test)]
mod tests;
