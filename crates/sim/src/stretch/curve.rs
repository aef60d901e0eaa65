//! A service curve from the other side: how busy a resource is when it stretches by so much.

use crate::service::GrowthPoint;

/// Latency over utilization, ascending, from an idle resource to a saturated one.
///
/// Above the last point's stretch the resource is saturated: any stretch goes with utilization 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curve {
    /// From utilization 0 to 1; at least two.
    points: Vec<GrowthPoint>,
}

impl Curve {
    /// The curve through these points, flat beyond the first and the last.
    pub(crate) fn new(growth: &[GrowthPoint]) -> Self {
        let first = GrowthPoint { utilization: 0.0, stretch: 1.0 };
        let mut points = vec![first];
        points.extend(growth.iter().filter(|point| point.utilization > 0.0));
        let last = points[points.len() - 1];
        if last.utilization < 1.0 {
            points.push(GrowthPoint { utilization: 1.0, ..last });
        }
        Self { points }
    }

    /// The stretch from which on the resource is saturated.
    pub(crate) fn saturated(&self) -> f64 {
        self.points[self.points.len() - 1].stretch
    }

    /// Whether the resource is as fast as unloaded until it saturates.
    pub(crate) fn is_flat(&self) -> bool {
        self.saturated() <= 1.0
    }

    /// The pieces of the curve, in ascending order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (GrowthPoint, GrowthPoint)> + '_ {
        self.points.windows(2).map(|pair| (pair[0], pair[1]))
    }
}
