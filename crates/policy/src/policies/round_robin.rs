//! `round-robin`: the run queue in order.

use super::take_what_fits;
use crate::policy::{Policy, QuantumView};

/// Takes the jobs in the order of the run queue, the policy that iabw eq. (9) assumes. A job that
/// is too wide for the remaining cores is skipped and runs when it reaches the head.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin;

impl Policy for RoundRobin {
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
        take_what_fits(view, 0..view.queue.len(), chosen);
    }

    fn reason(&self, _: usize) -> Option<&'static str> {
        Some("next in the run queue")
    }
}
