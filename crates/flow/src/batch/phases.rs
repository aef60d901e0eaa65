//! Samples of the instruction pointer, synthesized for the predictor `phase`.
//!
//! Synthetic programs declare the part of their code that a span executes: the span's samples fall
//! into the region of that part. For others, spans with the same demand are taken to be the same
//! code: each span's samples fall into the regions of its bandwidth and of its instruction rate, in
//! proportion to the progress. A span between two levels is shared by their regions, so that a
//! program that hovers about their border does not seem to change phase.

use memweir_core::BytesPerSec;

use crate::engine::Reading;
use crate::program::Program;
use crate::workload::requirement::rate;

/// Levels of bandwidth, up to the peak of one core, and as many of instruction rate. A shift of the
/// bandwidth by one seventeenth of that peak moves a vector by 0.4, the paper's threshold.
const LEVELS: usize = 8;

/// The instruction rate of the highest level: one core at 4 GHz with one instruction per cycle.
const HIGHEST_RATE: f64 = 4e9;

/// Parts of the code that are distinguished; further ones share their regions.
const PARTS: usize = 16;

/// Progress in nanoseconds per sample: fine enough that rounding does not matter.
const PER_SAMPLE: f64 = 1_000.0;

/// Returns the samples per code region of a program between two readings.
pub(super) fn instruction_pointers(
    program: &Program,
    core_peak: BytesPerSec,
    before: &Reading,
    after: &Reading,
) -> Vec<u32> {
    let mut regions = [0.0; PARTS + 2 * LEVELS];
    let (mut at, to) = (before.at, after.at);
    loop {
        let span = &program.spans[at.span];
        let last = (at.lap, at.span) == (to.lap, to.span);
        let end = if last { to.into } else { span.length.as_f64() };
        let (parts, levels) = regions.split_at_mut(PARTS);
        let (rates, bandwidths) = levels.split_at_mut(LEVELS);
        match span.demand.code.checked_sub(1) {
            Some(part) => parts[part as usize % PARTS] += end - at.into,
            None => {
                share(bandwidths, rate(&span.demand).0 / core_peak.0, end - at.into);
                share(rates, span.demand.instructions / HIGHEST_RATE, end - at.into);
            }
        }
        if last {
            return regions.map(|progress| (progress / PER_SAMPLE).round() as u32).to_vec();
        }
        (at.into, at.span) = (0.0, at.span + 1);
        if at.span == program.spans.len() {
            (at.span, at.lap) = (0, at.lap + 1);
        }
    }
}

/// Shares progress between the two levels nearest to a value from 0 to 1.
fn share(levels: &mut [f64], value: f64, progress: f64) {
    let place = value.clamp(0.0, 1.0) * (levels.len() - 1) as f64;
    let upper = place.fract();
    levels[place as usize] += progress * (1.0 - upper);
    if upper > 0.0 {
        levels[place as usize + 1] += progress * upper;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Point;
    use crate::program::{Demand, Flow, Span};
    use memweir_core::Nanos;
    use memweir_policy::predictor::InstructionPointerVector;

    fn steady(gb: f64) -> Span {
        let mut demand = Demand { instructions: 2e9, stall: 0.5, ..Demand::default() };
        demand.flows[0] = Flow { reads: BytesPerSec::from_gb(gb), ..Flow::default() };
        Span { length: Nanos::from_millis(1), demand }
    }

    fn vector(program: &Program, from: usize, to: usize) -> InstructionPointerVector {
        let at =
            |span: usize| Reading { at: Point { lap: 0, span, into: 0.0 }, ..Reading::default() };
        let peak = BytesPerSec::from_gb(14.0);
        let samples = instruction_pointers(program, peak, &at(from), &at(to));
        InstructionPointerVector::new(&samples).expect("samples")
    }

    #[test]
    fn vectors_differ_by_how_far_the_bandwidth_moves() {
        // 7 levels of 2 GB/s each: from 3 to 4 GB/s, half of every bandwidth sample moves to the
        // next level.
        let spans = [3.0, 4.0, 9.0, 9.0].map(steady).to_vec();
        let program = Program { name: "phases".to_owned(), spans };
        let phases = [0, 1, 2].map(|span| vector(&program, span, span + 1));
        assert!((phases[0].distance(&phases[1]) - 0.5).abs() < 1e-9);
        // Half of all samples are of the instruction rate, which stays the same.
        assert!((phases[0].distance(&phases[2]) - 1.0).abs() < 1e-9);
        assert_eq!(phases[0].distance(&vector(&program, 0, 1)), 0.0);
    }

    #[test]
    fn a_program_that_tells_its_code_keeps_its_phase_while_it_fluctuates() {
        let part = |gb, code| {
            let span = steady(gb);
            Span { demand: Demand { code, ..span.demand }, ..span }
        };
        let spans = vec![part(3.0, 1), part(12.0, 1), part(3.0, 2), part(3.0, 0)];
        let program = Program { name: "parts".to_owned(), spans };
        let parts = [0, 1, 2].map(|span| vector(&program, span, span + 1));
        assert_eq!(parts[0].distance(&parts[1]), 0.0);
        assert_eq!(parts[0].distance(&parts[2]), 2.0);
    }
}
