//! Compares a calibration with the machine as it is now.
//!
//! In a virtual machine the bus changes with its neighbors, and with the cores on which the host
//! runs its processors.

use std::sync::atomic::AtomicBool;

use jiff::Timestamp;
use memweir_core::BytesPerSec;
use serde::Serialize;

use super::stages::Stages;
use super::{Bus, CalibrateError, CalibrateOptions, CalibrateProgress, team};
use crate::platform::{Platform, by_instances, median};

/// Change of a bandwidth, over the calibrated one, from which on a calibration no longer holds.
/// Repeats within a minute differ by up to 12 % in a guest.
const TOLERANCE: f64 = 0.15;

/// A calibration and the same figures now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalibrationCheck {
    /// Start of the calibration.
    pub date: Timestamp,
    /// True if no figure has changed by more than 15 %.
    pub holds: bool,
    /// One for each number of cores at which the calibration looked for the peak.
    pub figures: Vec<Remeasured>,
}

/// A bandwidth of a calibration, measured anew.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Remeasured {
    /// Number of cores with a hog.
    pub cores: u32,
    /// The calibrated bandwidth.
    pub calibrated: BytesPerSec,
    /// The bandwidth now.
    pub now: BytesPerSec,
    /// Its change, over the calibrated bandwidth.
    pub change: f64,
}

/// Measures anew what one and more cores can draw, in a second or two, and compares it with
/// `platform`. Setting `stop` ends that.
///
/// # Errors
/// Fails if the calibration has no peak, or was made with more CPUs, and for the reasons of
/// [`calibrate`](super::calibrate).
pub fn check(
    options: &CalibrateOptions,
    platform: &Platform,
    progress: &mut dyn FnMut(CalibrateProgress),
    stop: &AtomicBool,
) -> Result<CalibrationCheck, CalibrateError> {
    compare(options, platform, &mut team(options, stop)?, progress, stop)
}

pub(super) fn compare(
    options: &CalibrateOptions,
    platform: &Platform,
    bus: &mut dyn Bus,
    progress: &mut dyn FnMut(CalibrateProgress),
    stop: &AtomicBool,
) -> Result<CalibrationCheck, CalibrateError> {
    let kernel = platform.peak.ok_or(CalibrateError::NoPeak)?.kernel;
    let rates = by_instances(&platform.streams, kernel);
    let counts: Vec<u32> = rates.keys().copied().collect();
    let calibrated = counts.last().copied().ok_or(CalibrateError::NoPeak)?;
    let here = bus.members();
    if calibrated as usize > here {
        return Err(CalibrateError::FewerCpus { calibrated, here });
    }
    let fresh = Platform::new(platform.machine.clone(), options.effort);
    let mut stages = Stages::new(options, bus, fresh, &options.path, progress, stop);
    let found = stages.remeasure(kernel, &counts)?;
    let figures: Vec<_> = rates
        .into_iter()
        .zip(found)
        .map(|((cores, rates), now)| {
            let calibrated = median(&rates);
            Remeasured { cores, calibrated, now, change: now.0 / calibrated.0 - 1.0 }
        })
        .collect();
    let holds = figures.iter().all(|figure| figure.change.abs() <= TOLERANCE);
    Ok(CalibrationCheck { date: platform.date, holds, figures })
}
