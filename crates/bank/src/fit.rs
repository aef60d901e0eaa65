//! Fits the structure of a synthetic program so that its measured intensity, locality and
//! parallelism match given characteristics.
//!
//! The behavior of a structure depends on the machine: refresh closes rows, two streams meet in a
//! bank, the window limits the overlap of misses. So each structure is run alone on the machine,
//! measured, and corrected until it matches.

use memweir_core::Bytes;
use memweir_core::input::Refusal;

use crate::synthetic::{MOST_STREAMS, Structure};

/// Behavior of a program that runs alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Characteristics {
    /// Misses of the last-level cache per 1,000 instructions, above zero.
    pub mpki: f64,
    /// Row-buffer locality: share of memory reads that are row-buffer hits, 0 to 1.
    pub rbl: f64,
    /// Bank-level parallelism: mean number of banks with an outstanding read, over the time in
    /// which there is one; at least 1.
    pub blp: f64,
    /// Share of writes in the memory traffic, 0 to 0.5.
    pub write_share: f64,
    /// Memory that the program covers.
    pub footprint: Bytes,
}

/// Measured behavior of a structure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Misses per 1,000 instructions.
    pub mpki: f64,
    /// Row-buffer locality of the reads.
    pub rbl: f64,
    /// Bank-level parallelism.
    pub blp: f64,
}

/// Deviations of measured from requested values at which a fit stops: relative for intensity and
/// parallelism, absolute for locality. Some requests cannot be met on a machine: if lines alternate
/// between channels, one stream keeps two banks busy. The fit then ends outside the tolerance and
/// reports the measured values.
const MPKI_TOLERANCE: f64 = 0.02;
const RBL_TOLERANCE: f64 = 0.01;
const BLP_TOLERANCE: f64 = 0.04;

/// A structure and its measured behavior.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The structure.
    pub structure: Structure,
    /// The measured behavior.
    pub measured: Measured,
    /// True if the measured behavior is within the tolerance.
    pub reached: bool,
}

/// Runs before a fit gives up.
const ROUNDS: u32 = 16;
/// Row-buffer localities below this come from objects of a few lines, not from arrays.
const OBJECTS: f64 = 0.7;
/// Lines of an object that are requested together.
const OBJECT_LINES: u32 = 8;
/// Minimum number of misses per 1,000 instructions within a burst.
const BURST_INTENSITY: f64 = 20.0;

impl Measured {
    /// Returns the distance from `asked` in units of the tolerance; at most 1 is within it.
    fn distance(&self, asked: &Characteristics) -> f64 {
        let relative = |measured: f64, asked: f64| (measured / asked - 1.0).abs();
        (relative(self.mpki, asked.mpki) / MPKI_TOLERANCE)
            .max((self.rbl - asked.rbl).abs() / RBL_TOLERANCE)
            .max(relative(self.blp, asked.blp) / BLP_TOLERANCE)
    }
}

/// The parameters that the search varies.
#[derive(Clone, Copy, Debug)]
struct Knobs {
    intensity: f64,
    /// Jumps per access.
    jumps: f64,
    /// Number of streams; below one, the share of a single stream's accesses that are not chained.
    parallelism: f64,
}

impl Knobs {
    /// Returns the start of the search.
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
        // Parallelism beyond the first bank.
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
    /// Finds the structure that behaves like this according to `measure`, which runs it alone.
    /// Properties that characteristics do not cover (bursts, resident and shared data) come from
    /// `base`.
    ///
    /// # Errors
    /// If `measure` fails.
    pub fn fit(
        &self,
        base: &Structure,
        mut measure: impl FnMut(&Structure) -> Result<Measured, Refusal>,
    ) -> Result<Fitted, Refusal> {
        let mut best: Option<(f64, Fitted)> = None;
        // Objects whose lines are requested together take MSHRs from the other streams. Where that
        // leaves too few banks, the streams alternate line by line.
        let objects = (self.rbl < OBJECTS).then_some(base.together.max(OBJECT_LINES));
        for together in objects.into_iter().chain([base.together]) {
            let mut knobs = Knobs::first(self);
            for _ in 0..ROUNDS {
                let structure = knobs.structure(self, base, together);
                let measured = measure(&structure)?;
                let distance = measured.distance(self);
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

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Characteristics = Characteristics {
        mpki: 10.0,
        rbl: 0.75,
        blp: 2.0,
        write_share: 0.2,
        footprint: Bytes(1 << 20),
    };

    #[test]
    fn the_farthest_property_decides_in_units_of_its_tolerance() {
        let distance = |mpki, rbl, blp| Measured { mpki, rbl, blp }.distance(&ASKED);
        for (found, wanted) in [
            (distance(10.0, 0.75, 2.0), 0.0),
            (distance(9.6, 0.75, 2.0), 2.0),
            (distance(10.2, 0.72, 2.0), 3.0),
            (distance(10.0, 0.76, 1.68), 4.0),
        ] {
            assert!((found - wanted).abs() < 1e-9, "{found} {wanted}");
        }
    }

    #[test]
    fn a_structure_follows_from_what_is_asked_and_searched() {
        let knobs = Knobs { intensity: 5.0, jumps: 0.25, parallelism: 0.4 };
        let found = knobs.structure(&ASKED, &Structure::default(), 3);
        assert_eq!((found.intensity, found.run, found.together), (5.0, 4.0, 3));
        // A single stream, of which 0.6 of the accesses wait for the one before; a fourth as many
        // writes as reads.
        assert_eq!((found.streams, found.chained, found.stores), (1.0, 0.6, 0.25));
        assert_eq!((found.burst_intensity, found.footprint), (20.0, ASKED.footprint));
        let knobs = Knobs { intensity: 50.0, parallelism: 3.5, ..knobs };
        let found = knobs.structure(&ASKED, &Structure::default(), 1);
        assert_eq!((found.streams, found.chained, found.burst_intensity), (3.5, 0.0, 50.0));
    }

    #[test]
    fn a_correction_goes_by_what_is_missing() {
        let knobs = Knobs { intensity: 8.0, jumps: 0.2, parallelism: 2.0 };
        // Twice the misses, half the jumps, and four thirds of the parallelism are wanted.
        let measured = Measured { mpki: 5.0, rbl: 0.5 - 1e-4, blp: 1.5 };
        let found = knobs.corrected(&ASKED, &measured);
        assert!((found.intensity - 16.0).abs() < 1e-9, "{found:?}");
        assert!((found.jumps - 0.2 * 0.2501 / 0.5002).abs() < 1e-9, "{found:?}");
        assert!((found.parallelism - 8.0 / 3.0).abs() < 1e-9, "{found:?}");
        // Below 1.5, the root of what is missing beyond the first bank: 1.05 over 0.55, and at
        // most four times as much.
        let few = Knobs { parallelism: 1.0, ..knobs };
        let found = few.corrected(&ASKED, &measured);
        assert!((found.parallelism - (1.05_f64 / 0.55).sqrt()).abs() < 1e-9, "{found:?}");
        let found = few.corrected(&ASKED, &Measured { blp: 1.0, mpki: 1.0, ..measured });
        assert!((found.parallelism - 2.0).abs() < 1e-9, "{found:?}");
        assert!((found.intensity - 32.0).abs() < 1e-9, "{found:?}");
    }
}
