//! Runs many independent simulations on all cores, and reports their progress.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::report::Report;

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
    threads: usize,
    observer: &'a dyn Observer,
    done: AtomicU64,
    total: u64,
}

impl<'a> Bench<'a> {
    /// A bench for `total` work, in simulated core-seconds.
    #[must_use]
    pub fn new(threads: usize, observer: &'a dyn Observer, total: u64) -> Self {
        Self { threads, observer, done: AtomicU64::new(0), total }
    }

    /// `run` of every input, on all threads, in the order of the inputs; each counts as `work`.
    pub fn all<I: Sync, O: Send + Sync>(
        &self,
        work: u64,
        inputs: &[I],
        run: impl Fn(&I) -> O + Sync,
    ) -> Vec<O> {
        on_all(self.threads, inputs, |input| {
            let output = run(input);
            self.advance(work);
            output
        })
    }

    /// Threads for work that is not a list of inputs.
    #[must_use]
    pub fn threads(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.threads).unwrap_or(NonZeroUsize::MIN)
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
    pub fn try_all<I: Sync, O: Send + Sync, E: Send + Sync>(
        &self,
        work: u64,
        inputs: &[I],
        run: impl Fn(&I) -> Result<O, E> + Sync,
    ) -> Result<Vec<O>, E> {
        self.all(work, inputs, run).into_iter().collect()
    }
}

/// `run` of every input, computed on `threads` threads; results in the order of the inputs.
pub fn on_all<I: Sync, O: Send + Sync>(
    threads: usize,
    inputs: &[I],
    run: impl Fn(&I) -> O + Sync,
) -> Vec<O> {
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<O>> = inputs.iter().map(|_| OnceLock::new()).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, inputs.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(input), Some(result)) = (inputs.get(index), results.get(index))
                    else {
                        break;
                    };
                    result.get_or_init(|| run(input));
                }
            });
        }
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_inputs() {
        let inputs: Vec<u64> = (0..500).collect();
        let squares: Vec<u64> = inputs.iter().map(|value| value * value).collect();
        for threads in [0, 1, 3, 64] {
            assert_eq!(on_all(threads, &inputs, |value| value * value), squares);
        }
        assert_eq!(on_all(2, &[], |value: &u64| *value), Vec::<u64>::new());
    }
}
