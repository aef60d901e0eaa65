//! `last`: predicts that the next quantum will be like the last.

use memweir_core::BytesPerSec;

use super::{Predictor, Sample};

/// Predicts the last bandwidth that was measured on an unsaturated bus.
#[derive(Clone, Copy, Debug, Default)]
pub struct Last {
    bandwidth: Option<BytesPerSec>,
}

impl Predictor for Last {
    fn observe(&mut self, sample: &Sample<'_>) {
        self.bandwidth = sample.bandwidth.or(self.bandwidth);
    }

    fn predict(&self) -> Option<BytesPerSec> {
        self.bandwidth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saturated_quantum_leaves_the_prediction_as_it_was() {
        let sample = |bandwidth| Sample { bandwidth, instruction_pointers: &[], forecast: None };
        let mut last = Last::default();
        assert_eq!(last.predict(), None);
        last.observe(&sample(Some(BytesPerSec(3.0))));
        last.observe(&sample(Some(BytesPerSec(5.0))));
        last.observe(&sample(None));
        assert_eq!(last.predict(), Some(BytesPerSec(5.0)));
    }
}
