//! What an execution asks of a model of contention.

use crate::stretch::{Curve, Group, RESOURCES};

/// Something that a core does until it is over, at one demand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<const R: usize, const W: usize> {
    /// How long it takes where nothing contends, in nanoseconds.
    pub(super) time: f64,
    /// What it asks of each resource meanwhile.
    pub(super) group: Group<R, W>,
}

impl<const R: usize, const W: usize> Piece<R, W> {
    /// Time in which a core asks nothing of any memory.
    pub(super) fn pause(time: f64) -> Self {
        Self { time, group: Group { rate: [0.0; R], share: [0.0; R], writes: [0.0; W] } }
    }
}

/// Pieces that cores work on, and how contention stretches them. Times are nanoseconds; those that
/// are given never go back.
pub(super) trait Contention<const R: usize, const W: usize> {
    /// Nobody does anything yet.
    fn new(cores: usize, curves: [Curve; RESOURCES]) -> Self;

    /// A core that does nothing, or whose piece is just over, begins a piece.
    fn begin(&mut self, now: f64, core: usize, piece: &Piece<R, W>);

    /// A core does nothing any more.
    fn end(&mut self, now: f64, core: usize);

    /// What is left of a core's piece, in time where nothing contends.
    fn left(&self, now: f64, core: usize) -> f64;

    /// When the next piece is over if nothing else happens, and on which core; none if that is not by
    /// then.
    fn next(&mut self, now: f64, until: f64) -> Option<(f64, usize)>;
}
