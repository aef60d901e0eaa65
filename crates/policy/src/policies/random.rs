//! `random`: a control that ignores all knowledge of the jobs.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::take_what_fits;
use crate::policy::{Policy, QuantumView};

/// Draws the jobs beside the head at random. The same seed draws the same jobs on every machine.
#[derive(Clone, Debug)]
pub struct Random {
    rng: ChaCha8Rng,
    order: Vec<usize>,
}

impl Random {
    /// Creates the policy; `seed` fixes the sequence of draws.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), order: Vec::new() }
    }
}

impl Policy for Random {
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
        self.order.clear();
        self.order.extend(0..view.queue.len());
        self.order.shuffle(&mut self.rng);
        take_what_fits(view, self.order.iter().copied(), chosen);
    }

    fn reason(&self, _: usize) -> Option<&'static str> {
        Some("drawn by chance")
    }
}
