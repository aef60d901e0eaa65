//! Runs many independent simulations on all cores, and reports their progress.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};

use memweir_study::parallel;

use crate::report::{Effort, Report};

/// Observer of a reproduction. Called from several threads.
pub trait Observer: Sync {
    /// Reports that `_done` of `_total` is done, in units that mean nothing but their ratio.
    fn advanced(&self, _done: u64, _total: u64) {}

    /// The request is valid, and work is about to start.
    ///
    /// # Errors
    /// If the results could not be written.
    fn starting(&self) -> Result<(), Stop> {
        Ok(())
    }

    /// A figure begins.
    fn began(&self, _figure: &str) {}

    /// A figure is done, and the report contains it.
    ///
    /// # Errors
    /// An error stops the reproduction: results that cannot be written are of no use.
    fn finished(&self, _report: &Report) -> Result<(), Stop> {
        Ok(())
    }
}

/// Observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// The observer wants the reproduction to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reproduction was stopped")]
pub struct Stop;

/// Threads for simulations, and a count of the work that is done.
pub struct Bench<'a> {
    pub(crate) effort: Effort,
    threads: NonZeroUsize,
    observer: &'a dyn Observer,
    done: AtomicU64,
    total: u64,
}

impl<'a> Bench<'a> {
    /// A bench for `total` work, in simulated core-seconds.
    pub(crate) fn new(
        effort: Effort,
        threads: NonZeroUsize,
        observer: &'a dyn Observer,
        total: u64,
    ) -> Self {
        Self { effort, threads, observer, done: AtomicU64::new(0), total }
    }

    /// `run` of every input, on all threads, in the order of the inputs; each counts as `work`.
    pub fn all<I: Sync, O: Send>(
        &self,
        work: u64,
        inputs: &[I],
        run: impl Fn(&I) -> O + Sync,
    ) -> Vec<O> {
        parallel::map(inputs, self.threads, |input| {
            let output = run(input);
            self.advance(work);
            output
        })
    }

    /// Threads for work that is not a list of inputs.
    #[must_use]
    pub fn threads(&self) -> NonZeroUsize {
        self.threads
    }

    /// Reports further work as done.
    pub fn advance(&self, work: u64) {
        let done = self.done.fetch_add(work, Ordering::Relaxed) + work;
        self.observer.advanced(done, self.total.max(done));
    }

    /// The same where each run may be refused: the first refusal in the order of the inputs.
    ///
    /// # Errors
    /// The refusal of a run.
    pub fn try_all<I: Sync, O: Send, E: Send>(
        &self,
        work: u64,
        inputs: &[I],
        run: impl Fn(&I) -> Result<O, E> + Sync,
    ) -> Result<Vec<O>, E> {
        self.all(work, inputs, run).into_iter().collect()
    }
}
