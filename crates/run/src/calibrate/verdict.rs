//! Conclusions from the points of a calibration: the peak, contention between cores, the target
//! curve.

use memweir_core::BytesPerSec;
use memweir_core::metrics::{Interval, paired_difference};
use memweir_linux::hog::Kernel;
use memweir_policy::TargetCurve;

use super::Disturbance;
use crate::hog::Measured;
use crate::platform::{
    HogPoint, Peak, Platform, SATURATION_SHARE, StreamPoint, Target, by_instances, median,
};

/// A median counts as stable if half of the repeats lie within this share of it.
const STABLE: f64 = 0.05;

/// Cores contend where the weighted speedup at full load is surely below this share of the number
/// of cores.
const UNDISTURBED: f64 = 0.95;

/// A measurement in which a hog had its CPU for less than this share of the time says nothing about
/// the bus.
pub(super) const OWN_CPU: f64 = 0.95;

/// Share by which two measurements of the same thing may differ without contradicting each other.
const TOLERANCE: f64 = 0.1;

/// Smallest share of its time in which a hog had its CPU.
pub(super) fn cpu_share(measured: &[Measured]) -> f64 {
    let share = |one: &Measured| one.cpu_time.as_f64() / one.elapsed.as_f64().max(1.0);
    measured.iter().map(share).fold(1.0, f64::min)
}

/// The contradiction in a comparison of `hogs` hogs: a speedup that no memory gives, or more than
/// the peak.
pub(super) fn impossible(
    point: &HogPoint,
    hogs: usize,
    peak: Option<BytesPerSec>,
) -> Option<Disturbance> {
    let (speedup, achieved) = (point.weighted_speedup, point.achieved);
    if speedup > (1.0 + TOLERANCE) * hogs as f64 {
        return Some(Disturbance::Speedup { hogs, speedup });
    }
    let peak = peak.filter(|peak| achieved > *peak * (1.0 + TOLERANCE))?;
    Some(Disturbance::AbovePeak { achieved, peak })
}

/// The realistic peak of a kernel: the highest stable median over any number of instances, or the
/// highest median if none is stable.
pub(super) fn peak(streams: &[StreamPoint], kernel: Kernel) -> Option<Peak> {
    let medians: Vec<_> = by_instances(streams, kernel)
        .into_iter()
        .map(|(instances, rates)| {
            let middle = median(&rates);
            let distances: Vec<_> = rates.iter().map(|rate| rate.distance(middle)).collect();
            (median(&distances).0 <= STABLE * middle.0, middle, instances)
        })
        .collect();
    let any_stable = medians.iter().any(|(stable, ..)| *stable);
    medians
        .into_iter()
        .filter(|(stable, ..)| *stable || !any_stable)
        .max_by(|a, b| a.1.0.total_cmp(&b.1.0))
        .filter(|(_, bandwidth, _)| *bandwidth > BytesPerSec::ZERO)
        .map(|(_, bandwidth, instances)| Peak {
            bandwidth,
            saturation: bandwidth * SATURATION_SHARE,
            kernel,
            instances,
        })
}

/// The target curve, or why there is none.
pub(super) fn target(platform: &Platform) -> Target {
    let cores = platform.combinations.first().map_or(0, |combination| combination.seeds.len());
    if let Some(reason) = why_no_contention(&platform.full_load, cores) {
        return Target::NotMeasurable { reason };
    }
    let points: Vec<_> =
        platform.combinations.iter().map(|point| (point.demand, point.achieved)).collect();
    match TargetCurve::fit(&points) {
        Ok(curve) => Target::Measured {
            coefficients: [curve.constant, curve.linear, curve.quadratic],
            from: curve.iabw_min,
            to: curve.iabw_max,
            r_squared: curve.r_squared.unwrap_or(0.0).max(0.0),
        },
        Err(error) => Target::NotMeasurable { reason: error.to_string() },
    }
}

/// Returns the reason for which contention between cores is not shown; `None` if it is.
fn why_no_contention(full_load: &[HogPoint], cores: usize) -> Option<String> {
    if cores < 2 {
        return Some("one core has nothing to contend with".to_owned());
    }
    // Each speedup is a comparison already, so zero stands for its pair.
    let speedups: Vec<_> = full_load.iter().map(|point| (0.0, point.weighted_speedup)).collect();
    let mean = paired_difference(&speedups, 0.95);
    let Some(Interval { low, high }) = mean.and_then(|mean| mean.interval) else {
        return Some("too few measurements at full load".to_owned());
    };
    let undisturbed = UNDISTURBED * cores as f64;
    if high < undisturbed {
        return None;
    }
    let measured = format!(
        "with every one of {cores} cores at full load the weighted speedup is {low:.2} to \
         {high:.2} (95 % confidence)"
    );
    Some(if low >= undisturbed {
        format!("busy cores do not contend for memory here: {measured}")
    } else {
        format!("measurements vary too much to tell whether busy cores contend: {measured}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gb(value: f64) -> BytesPerSec {
        BytesPerSec::from_gb(value)
    }

    fn stream(kernel: Kernel, instances: u32, rates: &[f64]) -> Vec<StreamPoint> {
        let point = |rate: &f64| StreamPoint { kernel, instances, bandwidth: gb(*rate) };
        rates.iter().map(point).collect()
    }

    #[test]
    fn the_peak_is_the_highest_stable_median_of_its_kernel() {
        let points = [
            stream(Kernel::Copy, 1, &[70.0, 71.0, 70.5]),
            stream(Kernel::Read, 1, &[36.0, 35.0, 36.0]),
            stream(Kernel::Read, 2, &[44.0, 43.5, 12.0]),
            // Higher, but scattered.
            stream(Kernel::Read, 4, &[30.0, 60.0, 50.0]),
        ]
        .concat();
        let peak = peak(&points, Kernel::Read).unwrap();
        assert_eq!((peak.kernel, peak.instances), (Kernel::Read, 2));
        assert_eq!(peak.bandwidth, gb(43.5));
        assert_eq!(peak.saturation, gb(43.5) * 0.875);
    }

    #[test]
    fn without_a_stable_median_the_highest_must_do() {
        let points = stream(Kernel::Copy, 1, &[10.0, 20.0, 30.0]);
        assert_eq!(peak(&points, Kernel::Copy).unwrap().bandwidth, gb(20.0));
        assert_eq!(peak(&points, Kernel::Read), None);
        assert_eq!(peak(&stream(Kernel::Copy, 1, &[0.0]), Kernel::Copy), None);
    }

    #[test]
    fn no_speedup_exceeds_the_number_of_hogs_and_no_rate_the_peak() {
        let point = |weighted_speedup, achieved| HogPoint {
            idle: 0,
            demand: gb(40.0),
            achieved: gb(achieved),
            weighted_speedup,
        };
        let found = |speedup, achieved| impossible(&point(speedup, achieved), 2, Some(gb(40.0)));
        assert_eq!(found(2.1, 42.0), None);
        assert_eq!(found(2.7, 40.0), Some(Disturbance::Speedup { hogs: 2, speedup: 2.7 }));
        let above = Disturbance::AbovePeak { achieved: gb(60.0), peak: gb(40.0) };
        assert_eq!(found(2.0, 60.0), Some(above));
        assert_eq!(impossible(&point(2.0, 60.0), 2, None), None);
    }

    fn full_load(speedups: &[f64]) -> Vec<HogPoint> {
        let point = |speedup: &f64| HogPoint {
            idle: 0,
            demand: gb(80.0),
            achieved: gb(40.0),
            weighted_speedup: *speedup,
        };
        speedups.iter().map(point).collect()
    }

    #[test]
    fn contention_must_be_certain() {
        let verdict = |speedups: &[f64], cores| why_no_contention(&full_load(speedups), cores);
        assert_eq!(verdict(&[1.2, 1.3, 1.25, 1.2], 2), None);
        let reason = verdict(&[1.99, 2.0, 1.98, 2.01], 2).unwrap();
        assert!(reason.starts_with("busy cores do not contend"), "{reason}");
        let reason = verdict(&[1.0, 2.0, 1.6, 2.0], 2).unwrap();
        assert!(reason.starts_with("measurements vary too much"), "{reason}");
        assert!(verdict(&[1.0], 2).unwrap().contains("too few"));
        assert!(verdict(&[1.0, 1.0, 1.0], 1).unwrap().contains("one core"));
    }
}
