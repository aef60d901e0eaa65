//! Work on all cores: independent pieces by number, each result returned as soon as it is ready.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Calls `work` for every number below `count` on `threads` threads, and passes each result to
/// `done` on the calling thread, in the order of completion. A single thread is the calling one.
///
/// The threads share one counter and one channel, which each touches once per piece of work, so
/// contention is low. A panic of `work` is passed on.
pub fn for_each<T: Send>(
    count: usize,
    threads: NonZeroUsize,
    work: impl Fn(usize) -> T + Sync,
    mut done: impl FnMut(usize, T),
) {
    let threads = threads.get().min(count);
    if threads <= 1 {
        // A piece may take less time than a thread takes to start and to be waited for.
        return (0..count).for_each(|index| done(index, work(index)));
    }
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count || sender.send((index, work(index))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (index, result) in receiver {
            done(index, result);
        }
    });
}

/// Returns `work` of every input, computed on `threads` threads, in the order of the inputs.
pub fn map<I: Sync, T: Send>(
    inputs: &[I],
    threads: NonZeroUsize,
    work: impl Fn(&I) -> T + Sync,
) -> Vec<T> {
    let mut results: Vec<Option<T>> = inputs.iter().map(|_| None).collect();
    for_each(
        inputs.len(),
        threads,
        |index| work(&inputs[index]),
        |index, result| results[index] = Some(result),
    );
    results.into_iter().flatten().collect()
}

/// Error of the first piece of work that failed, in the order of the pieces and not in that of
/// their completion, which depends on the threads.
#[derive(Debug)]
pub struct FirstError<E>(Option<(usize, E)>);

impl<E> Default for FirstError<E> {
    fn default() -> Self {
        Self(None)
    }
}

impl<E> FirstError<E> {
    /// Notes that the piece `index` failed.
    pub fn note(&mut self, index: usize, error: E) {
        if self.0.as_ref().is_none_or(|(first, _)| index < *first) {
            self.0 = Some((index, error));
        }
    }

    /// Returns the error of the first piece that failed.
    ///
    /// # Errors
    /// If a piece failed.
    pub fn result(self) -> Result<(), E> {
        self.0.map_or(Ok(()), |(_, error)| Err(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).expect("threads")
    }

    #[test]
    fn every_piece_is_done_once_whatever_the_threads() {
        for workers in [1, 2, 7, 64] {
            let mut results = vec![0; 50];
            for_each(
                50,
                threads(workers),
                |index| index * index,
                |index, square| {
                    results[index] += square;
                },
            );
            assert!(results.iter().enumerate().all(|(index, square)| *square == index * index));
        }
        for_each(0, threads(4), |index| index, |_, _| panic!("there is nothing to do"));
    }

    #[test]
    fn results_come_in_the_order_of_the_inputs() {
        let inputs: Vec<u64> = (0..500).collect();
        let squares: Vec<u64> = inputs.iter().map(|value| value * value).collect();
        for workers in [1, 3, 64] {
            assert_eq!(map(&inputs, threads(workers), |value| value * value), squares);
        }
        assert_eq!(map(&[], threads(2), |value: &u64| *value), Vec::<u64>::new());
    }

    #[test]
    fn one_thread_is_the_caller_s() {
        let caller = thread::current().id();
        let mut order = Vec::new();
        let work = |index| (index, thread::current().id());
        for_each(3, threads(1), work, |_, (index, thread)| order.push((index, thread == caller)));
        assert_eq!(order, [(0, true), (1, true), (2, true)]);
        for_each(1, threads(8), work, |_, (_, thread)| assert_eq!(thread, caller));
    }

    #[test]
    fn pieces_run_at_the_same_time() {
        // Each piece waits for the other: a single thread would never finish.
        let barrier = std::sync::Barrier::new(2);
        let mut done = 0;
        for_each(2, threads(2), |_| barrier.wait(), |_, _| done += 1);
        assert_eq!(done, 2);
    }

    #[test]
    fn the_first_error_is_that_of_the_lowest_piece() {
        let mut errors = FirstError::default();
        for (index, error) in [(3, "c"), (1, "a"), (2, "b"), (1, "again")] {
            errors.note(index, error);
        }
        assert_eq!(errors.result(), Err("a"));
        assert_eq!(FirstError::<&str>::default().result(), Ok(()));
    }
}
