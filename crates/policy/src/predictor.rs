//! What a job will require of memory in the next quantum: iabw section 4.2.
//!
//! A predictor follows one job. It is told what the job did in each quantum in which it ran, and
//! never sees a measured bandwidth that a saturated bus had squeezed ([`Sample::bandwidth`] is
//! absent then). What to assume of a job that no predictor can say anything about is not decided
//! here but in [`crate::QuantumScheduler`].

mod kind;
mod last;
mod phase;
mod profile;
mod window;

pub use kind::{PredictorKind, UnknownPredictor, names};
pub use last::Last;
pub use phase::{DEFAULT_THRESHOLD, InstructionPointerVector, MAX_PHASES, Phases};
pub use profile::ForecastOrLast;
pub use window::{MAX_WINDOW, Window};

use memweir_core::BytesPerSec;

/// What one job did in a quantum in which it ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Its bandwidth, unless the bus was saturated: what was measured then is not what the job
    /// requires (iabw section 4.2).
    pub bandwidth: Option<BytesPerSec>,
    /// Samples of its instruction pointer per code region; empty if none were taken.
    pub instruction_pointers: &'a [u32],
    /// What the meter says that the job will require next. Not a measurement: a saturated bus
    /// does not disturb it.
    pub forecast: Option<BytesPerSec>,
}

/// Predicts the bandwidth that one job requires.
pub trait Predictor: Send {
    /// Learns from a quantum in which the job ran.
    fn observe(&mut self, sample: &Sample<'_>);

    /// The bandwidth expected in the job's next quantum; `None` before anything is known.
    fn predict(&self) -> Option<BytesPerSec>;
}
