//! Bandwidth segments as programs: Hog and HogSim on the flow engine, and the courses of the
//! catalog's programs at fine intervals.

use std::sync::Arc;

use memweir_core::segment::Segment;
use memweir_core::{BytesPerSec, Nanos};
use memweir_flow::{Demand, Flow, Program, Span};

use super::beside::CLOCK;

/// A Hog: one demand for ever (iabw Fig. 1a).
pub(super) fn hog(rate: BytesPerSec, ceiling: BytesPerSec) -> Arc<Program> {
    let spans = vec![Span { length: Nanos::from_millis(1000), demand: demand(rate, ceiling) }];
    Arc::new(Program { name: "hog".to_owned(), spans })
}

/// A HogSim: a segment again and again (iabw Fig. 3a). Equal neighbors are one span.
pub(super) fn hogsim(segment: &Segment, ceiling: BytesPerSec) -> Arc<Program> {
    let mut spans: Vec<Span> = Vec::with_capacity(segment.rates().len());
    for rate in segment.rates() {
        let demand = demand(*rate, ceiling);
        match spans.last_mut() {
            Some(last) if last.demand == demand => last.length += segment.interval(),
            _ => spans.push(Span { length: segment.interval(), demand }),
        }
    }
    Arc::new(Program { name: "hogsim".to_owned(), spans })
}

/// Reads at this rate; the rest of the time the core does something else.
fn demand(rate: BytesPerSec, ceiling: BytesPerSec) -> Demand {
    let mut demand = Demand { instructions: CLOCK, ..Demand::default() };
    demand.flows[0] = Flow { reads: rate, ..Flow::default() };
    demand.stall = (rate.0 / ceiling.0).min(1.0);
    demand
}

/// Demand of a program on all memories in consecutive intervals of its unhindered progress,
/// starting over until there are `count`.
pub(super) fn course(program: &Program, interval: Nanos, count: usize) -> Vec<BytesPerSec> {
    let mut spans = program.spans.iter().cycle();
    let (mut left, mut rate) = (0, BytesPerSec::ZERO);
    let mut course = Vec::with_capacity(count);
    for _ in 0..count {
        let (mut missing, mut bytes) = (interval.0, 0.0);
        while missing > 0 {
            if left == 0 {
                let Some(span) = spans.next() else { return course };
                left = span.length.0;
                rate = span.demand.flows.iter().map(|flow| flow.reads + flow.writes).sum();
            }
            let part = left.min(missing);
            bytes += rate.0 * part as f64;
            left -= part;
            missing -= part;
        }
        course.push(BytesPerSec(bytes / interval.as_f64()));
    }
    course
}

/// The segment with every rate moved by the same amount so that the mean becomes `mean`, the
/// "shifting up or down" of iabw section 2.2. Rates stay between nothing and the ceiling, so the
/// shift grows until the mean is met.
pub(super) fn shifted(segment: &Segment, mean: BytesPerSec, ceiling: BytesPerSec) -> Segment {
    let at = |shift: f64| {
        let rates =
            segment.rates().iter().map(|rate| BytesPerSec((rate.0 + shift).clamp(0.0, ceiling.0)));
        Segment::new(segment.interval(), rates.collect()).unwrap_or_else(|_| segment.clone())
    };
    // The mean is a monotone function of the shift.
    let (mut low, mut high) = (-ceiling.0, ceiling.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if at(middle).mean() < mean { low = middle } else { high = middle }
    }
    at((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(rates: &[f64]) -> Segment {
        Segment::new(Nanos::MILLI, rates.iter().copied().map(BytesPerSec).collect()).unwrap()
    }

    #[test]
    fn a_shift_moves_every_rate_within_the_bounds() {
        let moved = shifted(&segment(&[1.0, 3.0]), BytesPerSec(4.0), BytesPerSec(10.0));
        let rates: Vec<f64> = moved.rates().iter().map(|rate| rate.0).collect();
        assert!((rates[0] - 3.0).abs() < 1e-9 && (rates[1] - 5.0).abs() < 1e-9, "{rates:?}");
        // At a mean of 0.5 the lower rate is cut at nothing, so the higher one is 1.
        let cut = shifted(&segment(&[1.0, 3.0]), BytesPerSec(0.5), BytesPerSec(10.0));
        let rates: Vec<f64> = cut.rates().iter().map(|rate| rate.0).collect();
        assert!(rates[0] < 1e-9 && (rates[1] - 1.0).abs() < 1e-9, "{rates:?}");
    }

    #[test]
    fn a_course_averages_within_intervals_and_goes_round() {
        let program = hogsim(&segment(&[2.0, 4.0, 9.0]), BytesPerSec(10.0));
        let course = course(&program, Nanos(2_000_000), 3);
        assert_eq!(course, [3.0, 5.5, 6.5].map(BytesPerSec));
    }

    #[test]
    fn equal_neighbors_are_one_span() {
        let program = hogsim(&segment(&[2.0, 2.0, 5.0]), BytesPerSec(10.0));
        let lengths: Vec<u64> = program.spans.iter().map(|span| span.length.0).collect();
        assert_eq!(lengths, [2_000_000, 1_000_000]);
        assert_eq!(program.spans[1].demand.stall, 0.5);
    }
}
