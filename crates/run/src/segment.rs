//! Segments in files, and synthetic ones. [`memweir_core::segment`] defines a segment.
//!
//! [`crate::hog`] puts the load of a segment on the bus. The file form is text: a line
//! `memweir-segment 1`, a line `interval_ns N`, then one rate per line in bytes per second. Empty
//! lines and lines that begin with `#` are ignored.

use std::fmt::Write as _;

use memweir_core::input::InputError;
use memweir_core::segment::is_rate;
pub use memweir_core::segment::{INTERVALS, Segment};
use memweir_core::{BytesPerSec, Nanos};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::lines::{self, Head};

const HEAD: Head = Head {
    header: "memweir-segment 1",
    file: "segment file",
    key: "interval_ns",
    value: "a whole number",
};

/// Parameters of a synthetic segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Mean rate.
    pub mean: BytesPerSec,
    /// Swing of the rate about the mean: 0 is steady, 1 falls to zero in between.
    pub burstiness: f64,
    /// The most that one core can demand; bursts are cut there and last longer instead.
    pub ceiling: BytesPerSec,
}

/// A segment of bursts of 1 to 10 intervals in random order. The mean is that of the shape,
/// at most its ceiling; the same seed makes the same segment.
///
/// # Panics
/// If both are infinite.
#[must_use]
pub fn synthetic(shape: &Shape, seed: u64) -> Segment {
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
    let mut segment = Segment::new(Nanos::MILLI, rates)
        .unwrap_or_else(|error| panic!("no finite rate was asked for: {error}"));
    let actual = segment.mean();
    if actual > BytesPerSec::ZERO {
        // The number of busy intervals is whole: level the rest out.
        segment = segment.scaled(mean.0 / actual.0);
    }
    segment
}

/// Reads the text of a segment file; `source_name` stands in messages.
///
/// # Errors
/// If it is not a segment file; the error has the line.
pub fn parse(text: &str, source_name: &str) -> Result<Segment, InputError> {
    let mut lines = lines::content(text);
    let refuse = |line: usize, reason: String| InputError::new(source_name, reason).line(line);
    let (line, interval) = HEAD.take(&mut lines, source_name)?;
    let interval = interval
        .parse()
        .map_err(|_| refuse(line, format!("`{interval}` is no whole number")).key("interval_ns"))?;
    let mut rates = Vec::new();
    for (line, text) in lines {
        let rate = text.parse().ok().map(BytesPerSec).filter(|rate| is_rate(*rate));
        rates.push(
            rate.ok_or_else(|| refuse(line, format!("`{text}` is no rate in bytes per second")))?,
        );
    }
    Segment::new(Nanos(interval), rates).map_err(|error| InputError::new(source_name, error.reason))
}

/// The text of the segment's file.
#[must_use]
pub fn to_text(segment: &Segment) -> String {
    let mut text = format!("{}\n{} {}\n", HEAD.header, HEAD.key, segment.interval().0);
    for rate in segment.rates() {
        let _ = writeln!(text, "{}", rate.0);
    }
    text
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
