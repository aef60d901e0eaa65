//! The policy that follows the plan.

use std::sync::{Arc, Mutex, PoisonError};

use memweir_policy::{Policy, QuantumView};

use super::Planner;

/// Runs the sets of a plan.
pub(super) struct Follower(pub(super) Arc<Mutex<Planner>>);

impl Policy for Follower {
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
        let running: Vec<usize> = view.running.iter().map(|job| job.job.index()).collect();
        let waiting: Vec<usize> = view.queue.iter().map(|job| job.job.index()).collect();
        let free = view.cores as usize;
        let mut planner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // With more than the head running, a core has fallen idle in mid-quantum.
        let tasks = match running.len() {
            0 | 1 => planner.next(&running, &waiting, free),
            _ => planner.join(&running, &waiting, free),
        };
        let place = |task: &usize| waiting.iter().position(|other| other == task);
        chosen.extend(tasks.iter().filter_map(place));
    }

    fn reason(&self, _: usize) -> Option<&'static str> {
        Some("is in the set of the plan")
    }
}
