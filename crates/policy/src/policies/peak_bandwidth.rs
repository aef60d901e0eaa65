//! `peak-bandwidth`: the policy of earlier work, iabw section 3.1.

use memweir_core::BytesPerSec;

use crate::fitness::FitnessSelector;
use crate::policy::{Policy, QuantumView};

/// The fitness of iabw eq. (2) with `BW_remain` initialized to the peak bandwidth (PBW).
///
/// Without a calibrated peak, the policy uses a lower bound: the highest bandwidth that the system
/// has carried so far or that any one waiting job requires. The bound grows with more observations.
#[derive(Clone, Debug, Default)]
pub struct PeakBandwidth {
    selector: FitnessSelector,
    target: Option<BytesPerSec>,
}

impl Policy for PeakBandwidth {
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
        let peak = view.bus.peak.unwrap_or_else(|| estimate(view));
        self.target = Some(peak);
        self.selector.select(peak, view, chosen);
    }

    fn target(&self) -> Option<BytesPerSec> {
        self.target
    }

    fn reason(&self, _: usize) -> Option<&'static str> {
        Some("nearest to what is left of the peak")
    }
}

/// Estimates the peak from the observations so far.
pub(super) fn estimate(view: &QuantumView<'_>) -> BytesPerSec {
    view.queue.iter().map(|job| job.demand).fold(view.highest_observed, BytesPerSec::max)
}
