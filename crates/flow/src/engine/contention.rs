//! The interface between an execution and its model of contention.

use crate::stretch::{Curve, Group, RESOURCES};

/// A piece of work of one demand that a core executes to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<const R: usize, const W: usize> {
    /// Time that it takes without contention, in nanoseconds.
    pub(super) time: f64,
    /// Its load on each resource.
    pub(super) group: Group<R, W>,
}

impl<const R: usize, const W: usize> Piece<R, W> {
    /// Creates a pause: time in which a core does not use any memory.
    pub(super) fn pause(time: f64) -> Self {
        Self { time, group: Group { rate: [0.0; R], share: [0.0; R], writes: [0.0; W] } }
    }
}

/// The pieces that cores work on, stretched by contention. Times are nanoseconds; those passed in
/// never go back.
pub(super) trait Contention<const R: usize, const W: usize> {
    /// Creates the model with all cores idle.
    fn new(cores: usize, curves: [Curve; RESOURCES]) -> Self;

    /// Begins a piece on a core that is idle or whose piece has just ended.
    fn begin(&mut self, now: f64, core: usize, piece: &Piece<R, W>);

    /// Makes a core idle.
    fn end(&mut self, now: f64, core: usize);

    /// Returns the rest of a core's piece, in time without contention.
    fn left(&self, now: f64, core: usize) -> f64;

    /// Returns the time at which the next piece ends if nothing else happens, and its core; `None`
    /// if no piece ends by `until`.
    fn next(&mut self, now: f64, until: f64) -> Option<(f64, usize)>;
}
