//! `ideal-average`: the policy proposed by iabw.

use memweir_core::BytesPerSec;

use crate::fitness::FitnessSelector;
use crate::policy::{Policy, QuantumView};
use crate::target::TargetCurve;

/// The fitness of iabw eq. (2) with `BW_remain` initialized to the scheduling bandwidth target that
/// follows from the workload's ideal average bandwidth (iabw section 3.3).
///
/// The target is the calibrated curve at the ideal average bandwidth (iabw eq. (11) is the curve of
/// the paper's machine), or, without a calibrated curve, that bandwidth itself (eq. (10)); in both
/// cases at most the calibrated peak. A peak that was merely observed is no cap: early in a batch
/// it would tie the target to the jobs that happened to run first.
///
/// As long as no job's bandwidth is known, the run queue decides.
#[derive(Clone, Debug, Default)]
pub struct IdealAverage {
    curve: Option<TargetCurve>,
    selector: FitnessSelector,
    target: Option<BytesPerSec>,
}

impl IdealAverage {
    /// Creates the policy with the curve of the machine, if one was calibrated.
    #[must_use]
    pub fn new(curve: Option<TargetCurve>) -> Self {
        Self { curve, ..Self::default() }
    }

    /// Returns the scheduling bandwidth target for this ideal average bandwidth.
    fn target_for(&self, ideal_average: BytesPerSec, peak: Option<BytesPerSec>) -> BytesPerSec {
        match &self.curve {
            Some(curve) => curve.apply(ideal_average, peak),
            None => peak.map_or(ideal_average, |peak| ideal_average.min(peak)),
        }
    }
}

impl Policy for IdealAverage {
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
        self.target = view.batch.ideal_average().map(|ideal| self.target_for(ideal, view.bus.peak));
        // Without any known bandwidth all demands are zero, so that every gap is equal.
        let target = self.target.unwrap_or(BytesPerSec::ZERO);
        self.selector.select(target, view, chosen);
    }

    fn target(&self) -> Option<BytesPerSec> {
        self.target
    }

    fn reason(&self, _: usize) -> Option<&'static str> {
        Some("nearest to what is left of the target")
    }
}
