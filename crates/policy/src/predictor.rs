//! Predictors of a job's demand in the next quantum: iabw section 4.2.
//!
//! A predictor follows one job. It receives the job's behavior in each quantum in which the job
//! ran, but as a rule no bandwidth that was measured on a saturated bus: [`Sample::bandwidth`] is
//! absent then. [`crate::QuantumScheduler`] decides what to assume of a job without a prediction.

mod kind;
mod last;
mod phase;
mod profile;
mod window;

pub use kind::{PredictorKind, names};
pub use last::Last;
pub use phase::{DEFAULT_THRESHOLD, InstructionPointerVector, MAX_PHASES, Phases};
pub use profile::ForecastOrLast;
pub use window::{MAX_WINDOW, Window};

use memweir_core::BytesPerSec;

/// Behavior of one job in a quantum in which it ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Bandwidth of the job; absent if the bus was saturated, since the measurement then does not
    /// show the job's demand (iabw section 4.2), unless the policy
    /// [raises demands](crate::policy::OnSaturation::RaiseDemand) and it is higher than predicted.
    pub bandwidth: Option<BytesPerSec>,
    /// Samples of its instruction pointer per code region; empty if none were taken.
    pub instruction_pointers: &'a [u32],
    /// The meter's forecast of the job's demand. It is not a measurement, so a saturated bus does
    /// not affect it.
    pub forecast: Option<BytesPerSec>,
}

/// Predicts the bandwidth that one job requires.
pub trait Predictor: Send {
    /// Learns from a quantum in which the job ran.
    fn observe(&mut self, sample: &Sample<'_>);

    /// Returns the bandwidth expected in the job's next quantum; `None` without any knowledge.
    fn predict(&self) -> Option<BytesPerSec>;
}
