//! Figures for the speed model that follow from the measured points of a calibration.

use std::collections::BTreeMap;

use memweir_core::BytesPerSec;
use memweir_linux::hog::Kernel;

use super::{HogPoint, Peak, Platform, StreamPoint};

/// Hogs of a point of the Hog curve.
const HOGS: f64 = 2.0;

/// Least part of the loss that a point has to show, and least number of such points, for the loss
/// to be measured. Fewer are at the mercy of what else the host does.
const LEAST_SHOWN: f64 = 0.05;
const LEAST_POINTS: usize = 5;

/// Returns the median; of an even number of values the mean of the middle two. Zero for none.
pub(crate) fn median(rates: &[BytesPerSec]) -> BytesPerSec {
    let mut rates = rates.to_vec();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    match rates.len() {
        0 => BytesPerSec::ZERO,
        n if n.is_multiple_of(2) => (rates[n / 2 - 1] + rates[n / 2]) / 2.0,
        n => rates[n / 2],
    }
}

/// Returns what unthrottled hogs of a kernel reached, every repeat, by the number of instances.
pub(crate) fn by_instances(
    streams: &[StreamPoint],
    kernel: Kernel,
) -> BTreeMap<u32, Vec<BytesPerSec>> {
    let mut rates: BTreeMap<u32, Vec<BytesPerSec>> = BTreeMap::new();
    for point in streams.iter().filter(|point| point.kernel == kernel) {
        rates.entry(point.instances).or_default().push(point.bandwidth);
    }
    rates
}

/// Returns the bandwidth that one core reaches alone with the kernel that reached the peak.
pub(super) fn of_core(platform: &Platform, peak: &Peak) -> Option<BytesPerSec> {
    let rates = by_instances(&platform.streams, peak.kernel).remove(&1)?;
    Some(median(&rates)).filter(|rate| rate.0 > 0.0)
}

/// Returns the latency that bursts add to an access of a bus that is just full, over its idle
/// latency: the median of the values at which hogs are slowed down as much as measured below the
/// peak. `None` if too few points show it.
///
/// Two hogs with the demands `d` of a bus with the peak `p` make progress at
/// `1 / (1 + loss share (2 d / p)^4)`, if they wait for memory for that share of their time.
pub(super) fn loss(points: &[HogPoint], peak: BytesPerSec, core: BytesPerSec) -> Option<f64> {
    let below = points.iter().filter(|point| point.demand <= peak && point.weighted_speedup > 0.0);
    let mut losses: Vec<f64> = below
        .filter_map(|point| {
            let share = (point.demand.0 / HOGS / core.0).min(1.0);
            let part = share * (point.demand.0 / peak.0).powi(4);
            (part >= LEAST_SHOWN).then(|| (HOGS / point.weighted_speedup - 1.0) / part)
        })
        .collect();
    losses.sort_by(f64::total_cmp);
    (losses.len() >= LEAST_POINTS).then(|| losses[losses.len() / 2].max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gb(value: f64) -> BytesPerSec {
        BytesPerSec::from_gb(value)
    }

    fn point(demand: f64, weighted_speedup: f64) -> HogPoint {
        HogPoint { idle: 0, demand: gb(demand), achieved: gb(demand), weighted_speedup }
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[gb(3.0), gb(1.0), gb(2.0)]), gb(2.0));
        assert_eq!(median(&[gb(4.0), gb(1.0), gb(2.0), gb(3.0)]), gb(2.5));
        assert_eq!(median(&[]), BytesPerSec::ZERO);
    }

    #[test]
    fn the_loss_is_that_of_most_points_below_the_peak() {
        // A core reaches 6 of 10 GB/s. At 8 both wait for 2/3 of the time, and for 0.3 * 0.4096
        // longer; what happens above the peak is not the loss's.
        let part = 2.0 / 3.0 * 0.8f64.powi(4);
        let at_eight = point(8.0, 2.0 / (1.0 + 0.3 * part));
        let disturbed = point(9.0, 0.5);
        let points = [point(2.0, 1.0), at_eight, at_eight, at_eight, disturbed, disturbed];
        let of = |points: &[HogPoint]| loss(points, gb(10.0), gb(6.0));
        assert!((of(&points).unwrap() - 0.3).abs() < 1e-9);
        // Two hogs that hardly load the bus show nothing, and neither do those above its peak.
        assert_eq!(of(&[point(4.0, 1.9); 9]), None);
        assert_eq!(of(&[point(12.0, 1.2); 9]), None);
        // Hogs that speed each other up are noise.
        assert_eq!(of(&[point(8.0, 2.1); 5]), Some(0.0));
    }
}
