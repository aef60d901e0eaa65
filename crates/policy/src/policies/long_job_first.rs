//! `long-job-first`: the comparison of iabw section 5.5.

use std::cmp::Reverse;

use memweir_core::Nanos;

use super::take_what_fits;
use crate::policy::{Policy, QuantumView};

/// Prefers jobs with a long expected time, which balances the cores at the end of a batch.
///
/// Jobs of unknown length come last; among equals the order of the queue decides. The head of the
/// queue always runs whatever its length, so long jobs get more than their turn, but not every
/// turn.
#[derive(Clone, Debug, Default)]
pub struct LongJobFirst {
    order: Vec<(Reverse<Option<Nanos>>, usize)>,
    /// Jobs of known length in the last selection, which come first.
    known: usize,
}

impl Policy for LongJobFirst {
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
        self.order.clear();
        let lengths = view.queue.iter().map(|job| Reverse(job.expected_time));
        self.order.extend(lengths.zip(0..));
        self.order.sort_unstable();
        take_what_fits(view, self.order.iter().map(|(_, place)| *place), chosen);
        let known = |place: &&usize| view.queue[**place].expected_time.is_some();
        self.known = chosen.iter().filter(known).count();
    }

    fn reason(&self, nth: usize) -> Option<&'static str> {
        Some(if nth < self.known { "longest expected time" } else { "next in the run queue" })
    }
}
