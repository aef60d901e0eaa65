//! A tighter bound for programs of few different demands: the best blend of sets.
//!
//! Let the tasks execute spans of `K` kinds, alike in all that contention depends on, and let `w_k`
//! be the progress that all of them have to make in kind `k`. At any time some set `S` of spans
//! runs, at most one of each task and at most one per core, and makes progress in kind `k` at the
//! rate `p_k(S)`. With `t_S` the time for which `S` runs, every schedule has
//!
//! ```text
//! sum over S of t_S * p_k(S) = w_k  for every k,    turnaround >= sum over S of t_S
//! ```
//!
//! so the least sum of such times is a bound. This drops the order of a task's spans, and the
//! identity of the tasks of a kind. And for any prices `y`,
//!
//! ```text
//! sum of y_k w_k  = sum over S of t_S * (sum of y_k p_k(S))
//!                <= turnaround * max over S of (sum of y_k p_k(S))
//! ```
//!
//! The simplex method finds the prices for which this is tight; the bound returned is that of the
//! last formula for its prices, so it holds however it was rounded and wherever it stopped.
//!
//! Unlike the bounds of `bound`, this one takes sets as wholes: if one heavy task leaves a memory
//! idle and two fill it, neither of the two is free.

use super::simplex::{self, Rates, worth, worthiest};
use crate::stretch::{Response, Solver};

/// With more kinds, the demands of the programs are spread so finely that the simpler bounds
/// suffice.
const MOST_KINDS: usize = 12;
/// Most sets that are evaluated.
const MOST_SETS: usize = 20_000;

/// Spans that are equal in all that contention depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) response: Response,
    /// Progress that all tasks have to make in it, in nanoseconds.
    pub(super) progress: f64,
    /// Tasks that have such spans.
    pub(super) tasks: u32,
}

/// Spans of all tasks by kind.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    kinds: Vec<Kind>,
}

impl Kinds {
    /// Adds the spans of a task with the progress that it makes in each. Stops silently when there
    /// are more kinds than the bound can use.
    pub(super) fn add(&mut self, spans: impl Iterator<Item = (Response, f64)>) {
        let mut met = Vec::new();
        for (response, progress) in spans.filter(|(_, progress)| *progress > 0.0) {
            if self.kinds.len() > MOST_KINDS {
                return;
            }
            let known = self.kinds.iter().position(|kind| kind.response == response);
            let place = known.unwrap_or(self.kinds.len());
            if known.is_none() {
                self.kinds.push(Kind { response, progress: 0.0, tasks: 0 });
            }
            self.kinds[place].progress += progress;
            if !met.contains(&place) {
                met.push(place);
                self.kinds[place].tasks += 1;
            }
        }
    }

    /// Returns the bound in nanoseconds; `None` if there are too many kinds or sets.
    pub(super) fn bound(&self, solver: &Solver, cores: u32) -> Option<f64> {
        if self.kinds.is_empty() || self.kinds.len() > MOST_KINDS {
            return None;
        }
        let mut sets = Sets { solver, kinds: &self.kinds, found: Vec::new() };
        sets.collect(&mut vec![0; self.kinds.len()], 0, cores)?;
        let work: Vec<f64> = self.kinds.iter().map(|kind| kind.progress).collect();
        let alone = |kind: usize| {
            let alone = |rates: &&Rates| rates.len() == 1 && rates[0].0 == kind;
            sets.found.iter().find(alone).map(|rates| rates[0].1)
        };
        let alone: Vec<f64> = (0..work.len()).map(alone).collect::<Option<_>>()?;
        let best = |prices: &[f64]| worthiest(&sets.found, prices);
        let prices = simplex::mix(&alone, &work, best).prices;
        let highest = sets.found.iter().map(|rates| worth(rates, &prices)).fold(0.0, f64::max);
        let total: f64 = prices.iter().zip(&work).map(|(price, work)| price * work).sum();
        (highest > 0.0).then(|| total / highest)
    }
}

/// Finds every set that can run.
struct Sets<'a> {
    solver: &'a Solver,
    kinds: &'a [Kind],
    found: Vec<Rates>,
}

impl Sets<'_> {
    /// Collects the sets with more of the kinds from `first` on than `counts` has; `None` if there
    /// are too many.
    fn collect(&mut self, counts: &mut Vec<u32>, first: usize, free: u32) -> Option<()> {
        for kind in first..self.kinds.len() {
            if free == 0 || counts[kind] == self.kinds[kind].tasks {
                continue;
            }
            if self.found.len() == MOST_SETS {
                return None;
            }
            counts[kind] += 1;
            self.found.push(self.rates(counts));
            self.collect(counts, kind, free - 1)?;
            counts[kind] -= 1;
        }
        Some(())
    }

    fn rates(&self, counts: &[u32]) -> Rates {
        let present = || counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let running: Vec<Response> = present()
            .flat_map(|(kind, count)| vec![self.kinds[kind].response; *count as usize])
            .collect();
        let stretch = self.solver.solve(&running);
        present()
            .map(|(kind, count)| {
                (kind, f64::from(*count) * self.kinds[kind].response.speed(&stretch))
            })
            .collect()
    }
}
