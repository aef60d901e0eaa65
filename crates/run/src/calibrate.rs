//! `memweir calibrate`: measures a machine's memory bus and writes `platform.toml` (X1, X5, X9).
//!
//! The measurements are in `calibrate/stages.rs`, the conclusions from them in
//! `calibrate/verdict.rs`. Repeats of measurements that are compared are interleaved, so that the
//! drift of a machine, which is common in guests, affects all of them alike.
//!
//! The target is the HogSim form of iabw Fig. 8: the bandwidth that random segments achieve
//! together against what they demand alone. The paper's eq. (11) was tuned by hand with real
//! workloads; its curve has the same shape and lies to the right, because HogSim is the more
//! conservative measure (section 5.2).

mod check;
mod stages;
mod verdict;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use memweir_core::{Bytes, BytesPerSec};
use memweir_linux::hog::Kernel;
use memweir_linux::journal::with_ending;

use crate::hog::{Afterwards, Limit, Load, Measured, Team};
use crate::platform::{Effort, Machine, Platform, PlatformError};

pub use check::{CalibrationCheck, Remeasured, check};

/// Options of a calibration.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrateOptions {
    /// Duration of the measurements.
    pub effort: Effort,
    /// The CPUs to measure with, one hog on each.
    pub cpus: Vec<usize>,
    /// Size of each of the two arrays of a hog; see [`crate::hog::array_size`].
    pub array: Bytes,
    /// The kernel of the reported peak, of the Hog curve and of the combinations; `read` if absent.
    /// Every meter counts its lines alike. Copies move lines in both directions, for which many
    /// memory systems have separate paths, so that their sum exceeds by far what readers get: a
    /// scheduler that aimed at it would run readers together that contend.
    pub kernel: Option<Kernel>,
    /// Seed of the random segments.
    pub seed: u64,
    /// File to write. During the calibration its points go to a file beside this one with the
    /// suffix `.partial`, which stays if the calibration is interrupted.
    pub path: PathBuf,
}

/// Stages of a calibration, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Unthrottled hogs of every kernel on 1 to all CPUs.
    Peak,
    /// An unthrottled hog on each CPU against each of them alone.
    FullLoad,
    /// One hog against its idle loop.
    IdleTable,
    /// Two hogs against their demand (iabw Fig. 1b).
    HogCurve,
    /// Random segments, each alone.
    Segments,
    /// Random combinations of segments (iabw Fig. 6).
    Combinations,
}

/// Progress of a calibration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibrateProgress {
    /// The stage in progress.
    pub stage: Stage,
    /// Share of the whole calibration that is done, by expected time, 0 to 1.
    pub done: f64,
    /// The bandwidth that was measured last.
    pub bandwidth: BytesPerSec,
}

/// Error that ended a calibration early.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// No CPU was given.
    #[error("no CPU to measure with")]
    NoCpu,
    /// The hogs could not run.
    #[error("running hogs of two arrays of {array} on the CPUs {cpus:?}: {source}")]
    Hogs {
        /// Size of each array.
        array: Bytes,
        /// The CPUs.
        cpus: Vec<usize>,
        /// The operating system's error.
        source: io::Error,
    },
    /// The calibration to check has no peak.
    #[error("the calibration is unfinished: it has no peak; `memweir calibrate` makes a new one")]
    NoPeak,
    /// The calibration to check had more CPUs.
    #[error("it was calibrated with {calibrated} CPUs, and here are {here}")]
    FewerCpus {
        /// CPUs of the calibration.
        calibrated: u32,
        /// CPUs to measure with.
        here: usize,
    },
    /// The points could not be written.
    #[error(transparent)]
    File(#[from] PlatformError),
    /// Other programs disturbed a measurement and all of its repeats.
    #[error(
        "the machine is too busy to be calibrated: {0}; calibrate on an idle machine, and without \
         a CPU quota"
    )]
    Disturbed(Disturbance),
    /// A signal ended the calibration.
    #[error("a signal ended the calibration")]
    Interrupted,
}

/// Sign that other programs disturbed a measurement.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Disturbance {
    /// The hogs had to wait for their CPUs.
    #[error("the hogs had their CPUs {:.0} % of the time", 100.0 * .0)]
    CpuShare(f64),
    /// Hogs were faster together than alone, so they were slowed while they ran alone.
    #[error("{hogs} hogs reached a weighted speedup of {speedup:.2}")]
    Speedup {
        /// Number of hogs, which is the most that the speedup can be.
        hogs: usize,
        /// The weighted speedup, iabw eq. (1).
        speedup: f64,
    },
    /// Hogs moved more than the peak, so they were slowed while the peak was measured.
    #[error("{achieved} were reached where the peak was measured as {peak}")]
    AbovePeak {
        /// Bandwidth that they reached.
        achieved: BytesPerSec,
        /// The peak.
        peak: BytesPerSec,
    },
}

/// Hogs on a bus, real or not.
trait Bus {
    /// Number of hogs.
    fn members(&self) -> usize;

    /// Runs the named members at once, each with its load, until each has reached the limit.
    fn run(
        &mut self,
        kernel: Kernel,
        loads: &[(usize, &Load)],
        limit: Limit,
    ) -> io::Result<Vec<Measured>>;
}

impl Bus for Team {
    fn members(&self) -> usize {
        self.len()
    }

    fn run(
        &mut self,
        kernel: Kernel,
        loads: &[(usize, &Load)],
        limit: Limit,
    ) -> io::Result<Vec<Measured>> {
        self.switch_to(kernel);
        // A measurement is short; the calibration checks for signals between measurements.
        Team::run(self, loads, limit, Afterwards::KeepUpTheLoad, &AtomicBool::new(false))
    }
}

/// Measures `machine`, writes the file and returns what it holds. A measurement that was disturbed
/// is repeated. Setting `stop` ends the calibration.
///
/// # Errors
/// Fails if the hogs cannot run, the file cannot be written, the machine is too busy, or `stop` is
/// set. The points measured until then are in the partial file; an earlier calibration stays.
pub fn calibrate(
    options: &CalibrateOptions,
    machine: Machine,
    progress: &mut dyn FnMut(CalibrateProgress),
    stop: &AtomicBool,
) -> Result<Platform, CalibrateError> {
    measure(options, machine, &mut team(options, stop)?, progress, stop)
}

/// Starts a hog on each CPU.
fn team(options: &CalibrateOptions, stop: &AtomicBool) -> Result<Team, CalibrateError> {
    if options.cpus.is_empty() {
        return Err(CalibrateError::NoCpu);
    }
    let cpus: Vec<_> = options.cpus.iter().copied().map(Some).collect();
    let made = Team::new(Kernel::Copy, options.array, &cpus, stop);
    made.map_err(|source| hogs_error(options, source))
}

fn measure(
    options: &CalibrateOptions,
    machine: Machine,
    bus: &mut dyn Bus,
    progress: &mut dyn FnMut(CalibrateProgress),
    stop: &AtomicBool,
) -> Result<Platform, CalibrateError> {
    let partial = partial_path(&options.path);
    // The points of an earlier calibration are not those of this one.
    let _ = fs::remove_file(&partial);
    let platform = Platform::new(machine, options.effort);
    let mut stages = stages::Stages::new(options, bus, platform, &partial, progress, stop);
    stages.measure_all()?;
    let platform = stages.into_platform();
    platform.save(&options.path)?;
    // The points are in the file itself now; a leftover does no harm.
    let _ = fs::remove_file(&partial);
    Ok(platform)
}

/// Path of the file with the points while a calibration runs.
#[must_use]
pub fn partial_path(path: &Path) -> PathBuf {
    with_ending(path, ".partial")
}

fn hogs_error(options: &CalibrateOptions, source: io::Error) -> CalibrateError {
    CalibrateError::Hogs { array: options.array, cpus: options.cpus.clone(), source }
}

#[cfg(test)]
mod tests;
