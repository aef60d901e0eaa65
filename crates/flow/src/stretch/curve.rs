//! A service curve in the form that the solver needs: the stretch of a resource at a busy share, of
//! which a known part is by writes.

use crate::service::{GrowthPoint, ServiceCurve};

/// Latency over utilization, ascending, from an idle resource to a saturated one.
///
/// Above [`saturated`](Self::saturated) the resource is saturated: any stretch goes with
/// utilization 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curve {
    /// In ascending order of the share of writes; at least one, and a single one stands for all.
    lines: Vec<Line>,
    /// The last stretch of the line that rises highest.
    saturated: f64,
}

/// Latency over utilization at one share of writes in the busy time.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    write_part: f64,
    /// From utilization 0 to 1; at least two.
    points: Vec<GrowthPoint>,
}

impl Line {
    /// Creates the line through these points, flat beyond the first and the last.
    fn new(write_part: f64, growth: &[GrowthPoint]) -> Self {
        let first = GrowthPoint { utilization: 0.0, stretch: 1.0 };
        let mut points = vec![first];
        points.extend(growth.iter().filter(|point| point.utilization > 0.0));
        let last = points[points.len() - 1];
        if last.utilization < 1.0 {
            points.push(GrowthPoint { utilization: 1.0, ..last });
        }
        Self { write_part, points }
    }

    fn last(&self) -> f64 {
        self.points[self.points.len() - 1].stretch
    }

    fn at(&self, utilization: f64) -> f64 {
        let next = self.points.partition_point(|point| point.utilization <= utilization);
        let Some(to) = self.points.get(next) else { return self.last() };
        let from = self.points[next - 1];
        let part = (utilization - from.utilization) / (to.utilization - from.utilization);
        from.stretch + part * (to.stretch - from.stretch)
    }
}

impl Curve {
    /// Returns the curve of a resource that is as fast as unloaded until it saturates.
    pub(crate) fn flat() -> Self {
        Self::of(vec![Line::new(0.0, &[])])
    }

    /// Returns the curve of a memory.
    pub(crate) fn new(service: &ServiceCurve) -> Self {
        let line = |line: &crate::service::GrowthLine| {
            Line::new(service.write_part(line.read_share), &line.points)
        };
        let lines: Vec<Line> = service.growth.lines.iter().rev().map(line).collect();
        if lines.is_empty() { Self::flat() } else { Self::of(lines) }
    }

    fn of(lines: Vec<Line>) -> Self {
        let saturated = lines.iter().map(Line::last).fold(1.0, f64::max);
        Self { lines, saturated }
    }

    /// Returns a curve that does not depend on the mix of reads and writes, and is nowhere above
    /// this one at any mix.
    pub(crate) fn least(&self) -> Self {
        if !self.minds_writes() {
            return self.clone();
        }
        let points = self.lines.iter().flat_map(|line| &line.points);
        let mut utilizations: Vec<f64> = points.map(|point| point.utilization).collect();
        utilizations.sort_by(f64::total_cmp);
        utilizations.dedup();
        // Between two of these all lines are straight, so that a chord is below their least. A line
        // may jump at one: its stretch is the one just before.
        let point = |utilization: f64| {
            let before = utilization.next_down().max(0.0);
            let stretch = self.lines.iter().map(|line| line.at(before)).fold(f64::MAX, f64::min);
            GrowthPoint { utilization, stretch }
        };
        let points = utilizations.into_iter().map(point).collect();
        Self::of(vec![Line { write_part: 0.0, points }])
    }

    /// Returns the stretch from which on the resource is saturated at any mix of reads and writes.
    pub(crate) fn saturated(&self) -> f64 {
        self.saturated
    }

    /// Returns true if the resource is as fast as unloaded until it saturates.
    pub(crate) fn is_flat(&self) -> bool {
        self.saturated() <= 1.0
    }

    /// Returns true if the share of writes matters.
    pub(crate) fn minds_writes(&self) -> bool {
        self.lines.len() > 1
    }

    /// Returns the pieces of a curve that does not depend on the share of writes, in ascending
    /// order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (GrowthPoint, GrowthPoint)> + '_ {
        self.lines[0].points.windows(2).map(|pair| (pair[0], pair[1]))
    }

    /// Returns the stretch at a utilization up to 1, of which `write_part` is by writes.
    pub(crate) fn stretch(&self, utilization: f64, write_part: f64) -> f64 {
        let next = self.lines.partition_point(|line| line.write_part <= write_part);
        let (Some(from), to) =
            (next.checked_sub(1).map(|before| &self.lines[before]), self.lines.get(next))
        else {
            return self.lines[0].at(utilization);
        };
        let Some(to) = to else { return from.at(utilization) };
        let part = (write_part - from.write_part) / (to.write_part - from.write_part);
        let (less, more) = (from.at(utilization), to.at(utilization));
        less + part * (more - less)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Growth, GrowthLine};
    use memweir_core::BytesPerSec;

    fn line(read_share: f64, points: &[(f64, f64)]) -> GrowthLine {
        let point = |(utilization, stretch): &(f64, f64)| GrowthPoint {
            utilization: *utilization,
            stretch: *stretch,
        };
        GrowthLine { read_share, points: points.iter().map(point).collect() }
    }

    #[test]
    fn growth_lies_between_the_measured_shares_by_the_time_of_writes() {
        let lines = vec![line(0.5, &[(0.4, 3.0)]), line(1.0, &[(0.5, 1.0), (0.9, 2.0)])];
        let mut service = ServiceCurve::flat(BytesPerSec(1e9));
        (service.write_cost, service.growth) = (3.0, Growth { lines });
        let curve = Curve::new(&service);
        assert!(curve.minds_writes() && !curve.is_flat());
        assert_eq!(curve.saturated(), 3.0);
        let close = |found: f64, expected: f64| (found - expected).abs() < 1e-12;
        // With all reads: 1 at half, 1.5 in the middle of the rise, 2 up to saturation.
        assert!(close(curve.stretch(0.7, 0.0), 1.5) && close(curve.stretch(1.0, 0.0), 2.0));
        // With half of the lines read, writes at three times the cost are 3/4 of the busy time.
        assert!(close(curve.stretch(0.2, 0.75), 2.0) && close(curve.stretch(1.0, 0.75), 3.0));
        // Halfway between, in time, and beyond the last share that is known.
        assert!(close(curve.stretch(0.7, 0.375), (1.5 + 3.0) / 2.0));
        assert!(close(curve.stretch(0.7, 0.9), 3.0));
        assert!(!Curve::flat().minds_writes() && Curve::flat().is_flat());
        // The least is 1 up to half, 1.5 in the middle of the rise, and 2 at the end.
        let least = curve.least();
        assert!(!least.minds_writes());
        let at = [0.2, 0.5, 0.7, 1.0].map(|utilization| least.stretch(utilization, 0.4));
        assert!(at.iter().zip([1.0, 1.0, 1.5, 2.0]).all(|(at, by)| close(*at, by)), "{at:?}");
    }
}
