//! `window:K`: the mean of the last K quanta.

use std::collections::VecDeque;

use memweir_core::BytesPerSec;

use super::{Predictor, Sample};

/// The longest window: 100 seconds at the default quantum, 8 kB per job.
pub const MAX_WINDOW: usize = 1000;

/// Predicts the mean over the job's last quanta in which the bus was not saturated, or over all of
/// them if there are fewer.
#[derive(Clone, Debug)]
pub struct Window {
    quanta: usize,
    bandwidths: VecDeque<BytesPerSec>,
}

impl Window {
    /// Creates a window of `quanta` quanta, clamped to 1 to [`MAX_WINDOW`].
    #[must_use]
    pub fn new(quanta: usize) -> Self {
        Self { quanta: quanta.clamp(1, MAX_WINDOW), bandwidths: VecDeque::new() }
    }
}

impl Predictor for Window {
    fn observe(&mut self, sample: &Sample<'_>) {
        let Some(bandwidth) = sample.bandwidth else { return };
        if self.bandwidths.len() == self.quanta {
            self.bandwidths.pop_front();
        }
        self.bandwidths.push_back(bandwidth);
    }

    fn predict(&self) -> Option<BytesPerSec> {
        // Summed anew each time: a running sum would accumulate the rounding errors of all quanta.
        let count = self.bandwidths.len();
        (count > 0).then(|| self.bandwidths.iter().copied().sum::<BytesPerSec>() / count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(quanta: usize, bandwidths: &[Option<f64>]) -> Option<f64> {
        let mut window = Window::new(quanta);
        for bandwidth in bandwidths {
            window.observe(&Sample {
                bandwidth: bandwidth.map(BytesPerSec),
                instruction_pointers: &[],
                forecast: None,
            });
        }
        window.predict().map(|bandwidth| bandwidth.0)
    }

    #[test]
    fn means_over_what_there_is_and_then_over_the_window() {
        assert_eq!(fed(3, &[]), None);
        assert_eq!(fed(3, &[Some(4.0)]), Some(4.0));
        assert_eq!(fed(3, &[Some(4.0), Some(8.0)]), Some(6.0));
        // (8 + 3 + 1) / 3: the 4 has left.
        assert_eq!(fed(3, &[Some(4.0), Some(8.0), Some(3.0), Some(1.0)]), Some(4.0));
    }

    #[test]
    fn saturated_quanta_do_not_push_anything_out() {
        assert_eq!(fed(2, &[Some(4.0), None, None, Some(8.0), None]), Some(6.0));
    }

    #[test]
    fn a_window_of_one_is_the_last_value() {
        assert_eq!(fed(1, &[Some(4.0), Some(7.0)]), Some(7.0));
        assert_eq!(fed(0, &[Some(4.0), Some(7.0)]), Some(7.0));
    }
}
