//! `os`: blocks no jobs.

use crate::policy::{Blocking, Policy, QuantumView};

/// Leaves the choice to the operating system; the baseline of every comparison.
#[derive(Clone, Copy, Debug, Default)]
pub struct Os;

impl Policy for Os {
    fn select(&mut self, _view: &QuantumView<'_>, _chosen: &mut Vec<usize>) {}

    fn blocking(&self) -> Blocking {
        Blocking::Nobody
    }
}
