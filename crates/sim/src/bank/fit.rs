//! From how a program behaves to how it is made: the structure whose measured intensity, locality and
//! parallelism are those that were asked for.
//!
//! What a structure amounts to hangs on the machine: refresh closes rows, two streams meet in a bank,
//! the window decides how far misses overlap. So a structure is run alone on the machine, measured,
//! and corrected until it does what it should.

use memweir_core::Bytes;
use memweir_core::input::Refusal;

use super::synthetic::{MOST_STREAMS, Structure};

/// How a program behaves when it runs alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Characteristics {
    /// Misses of the last-level cache per 1,000 instructions, above zero.
    pub mpki: f64,
    /// Row-buffer locality: the share of the reads of memory that find their row open, 0 to 1.
    pub rbl: f64,
    /// Bank parallelism: the mean number of banks with an outstanding read while there is one, at
    /// least 1.
    pub blp: f64,
    /// The share of the traffic with memory that is writes, 0 to 0.5.
    pub write_share: f64,
    /// Memory that it goes through.
    pub footprint: Bytes,
}

/// What a structure was measured to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Misses per 1,000 instructions.
    pub mpki: f64,
    /// Row-buffer locality of the reads.
    pub rbl: f64,
    /// Bank parallelism.
    pub blp: f64,
}

/// How far measured values may be from those asked for: relative for intensity and parallelism,
/// absolute for locality.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Of the misses per 1,000 instructions, relative.
    pub mpki: f64,
    /// Of the locality, absolute.
    pub rbl: f64,
    /// Of the parallelism, relative.
    pub blp: f64,
}

/// What a fit is content with. Where a machine cannot do what is asked (one stream is in two banks at
/// a time if lines alternate between channels), the fit ends further away and says how far.
pub const TOLERANCE: Tolerance = Tolerance { mpki: 0.02, rbl: 0.01, blp: 0.04 };

/// A structure and what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The structure.
    pub structure: Structure,
    /// What was measured of it.
    pub measured: Measured,
    /// Whether that is within the tolerance.
    pub reached: bool,
}

/// Runs before a fit gives up.
const ROUNDS: u32 = 16;
/// Row-buffer localities below this are those of objects of some lines, not of arrays.
const OBJECTS: f64 = 0.7;
/// The lines of an object that are asked together.
const OBJECT_LINES: u32 = 8;
/// Misses per 1,000 instructions within a burst of a program that has fewer on average.
const BURST_INTENSITY: f64 = 20.0;

impl Measured {
    /// How far it is from `asked`, in tolerances: at most 1 is close enough.
    #[must_use]
    pub fn distance(&self, asked: &Characteristics, tolerance: &Tolerance) -> f64 {
        let relative = |measured: f64, asked: f64| (measured / asked - 1.0).abs();
        (relative(self.mpki, asked.mpki) / tolerance.mpki)
            .max((self.rbl - asked.rbl).abs() / tolerance.rbl)
            .max(relative(self.blp, asked.blp) / tolerance.blp)
    }
}

/// What is varied.
#[derive(Clone, Copy, Debug)]
struct Knobs {
    intensity: f64,
    /// Jumps per access.
    jumps: f64,
    /// Streams; below one, the share of the accesses of a single stream that need no other.
    parallelism: f64,
}

impl Knobs {
    /// Where the search begins.
    fn first(asked: &Characteristics) -> Self {
        Self {
            intensity: asked.mpki,
            jumps: (1.0 - asked.rbl).clamp(1e-6, 1.0),
            parallelism: asked.blp,
        }
    }

    fn structure(self, asked: &Characteristics, base: &Structure, together: u32) -> Structure {
        let stores = asked.write_share / (1.0 - asked.write_share);
        Structure {
            intensity: self.intensity,
            run: 1.0 / self.jumps,
            streams: self.parallelism.max(1.0),
            together,
            chained: (1.0 - self.parallelism).clamp(0.0, 1.0),
            burst_intensity: self.intensity.max(BURST_INTENSITY),
            stores: stores.clamp(0.0, 1.0),
            footprint: asked.footprint,
            ..base.clone()
        }
    }

    fn corrected(self, asked: &Characteristics, measured: &Measured) -> Self {
        let ratio = |asked: f64, measured: f64| (asked / measured.max(1e-6)).clamp(0.25, 4.0);
        // Above one bank the parallelism is what is beyond it.
        let beyond = |blp: f64| (blp - 1.0).max(0.0) + 0.05;
        let parallelism = if self.parallelism < 1.5 {
            self.parallelism * ratio(beyond(asked.blp), beyond(measured.blp)).sqrt()
        } else {
            self.parallelism * ratio(asked.blp, measured.blp)
        };
        Self {
            intensity: self.intensity * ratio(asked.mpki, measured.mpki),
            jumps: (self.jumps * ratio(1.0 - asked.rbl + 1e-4, 1.0 - measured.rbl + 1e-4))
                .clamp(1e-6, 1.0),
            parallelism: parallelism.clamp(0.0, MOST_STREAMS as f64),
        }
    }
}

impl Characteristics {
    /// The structure that behaves like this according to `measure`, which runs it alone. What the
    /// characteristics do not say (bursts, resident and shared data) is taken from `base`.
    ///
    /// # Errors
    /// Those of `measure`.
    pub fn fit(
        &self,
        base: &Structure,
        mut measure: impl FnMut(&Structure) -> Result<Measured, Refusal>,
    ) -> Result<Fitted, Refusal> {
        let mut best: Option<(f64, Fitted)> = None;
        // Objects whose lines are asked together take registers from the other streams: where that
        // leaves too few banks, the streams take turns line by line.
        let objects = (self.rbl < OBJECTS).then_some(base.together.max(OBJECT_LINES));
        for together in objects.into_iter().chain([base.together]) {
            let mut knobs = Knobs::first(self);
            for _ in 0..ROUNDS {
                let structure = knobs.structure(self, base, together);
                let measured = measure(&structure)?;
                let distance = measured.distance(self, &TOLERANCE);
                if best.as_ref().is_none_or(|(nearest, _)| distance < *nearest) {
                    let reached = distance <= 1.0;
                    best = Some((distance, Fitted { structure, measured, reached }));
                }
                if distance <= 1.0 {
                    break;
                }
                knobs = knobs.corrected(self, &measured);
            }
            if best.as_ref().is_some_and(|(_, fitted)| fitted.reached) {
                break;
            }
        }
        best.map(|(_, fitted)| fitted).ok_or_else(|| Refusal::new("nothing was measured", ""))
    }
}
