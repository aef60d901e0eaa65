//! Completions of requests: when their data has crossed the bus, and their way to the observer.

use std::collections::VecDeque;

use memweir_core::Cycles;

use super::slots::Slot;
use crate::config::MemoryConfig;
use crate::observer::Observer;
use crate::request::{Completion, Request, RowOutcome};
use crate::timer::NEVER;

/// Completions in the order of their time, and the number of requests that have none yet.
///
/// Each accepted request is counted once ([`expect`](Self::expect)), completed once, and delivered
/// once; the number of outstanding requests is that of the difference.
#[derive(Clone, Debug)]
pub(super) struct Completions {
    pending: VecDeque<Completion>,
    /// Requests that were accepted and not delivered.
    outstanding: u64,
    ranks: Vec<DataTimes>,
}

/// Times of the data of a rank, in cycles.
#[derive(Clone, Copy, Debug)]
struct DataTimes {
    /// From a read or a write to the end of its data.
    latency: [u64; 2],
    burst: u64,
}

impl Completions {
    pub(super) fn new(config: &MemoryConfig) -> Self {
        let times = config.ranks.iter().map(|spec| {
            let burst = spec.burst.0;
            let latency = [spec.read_latency.0 + burst, spec.write_latency.0 + burst];
            DataTimes { latency, burst }
        });
        Self { pending: VecDeque::new(), outstanding: 0, ranks: times.collect() }
    }

    /// Returns the cycle of the next delivery.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.pending.front().map_or(NEVER, |completion| completion.done.0)
    }

    /// Returns true if all accepted requests were delivered.
    pub(super) fn is_idle(&self) -> bool {
        self.outstanding == 0
    }

    /// Counts a request that was accepted.
    pub(super) fn expect(&mut self) {
        self.outstanding += 1;
    }

    /// Completes a request whose read or write was sent to a rank at `now`; returns the cycles for
    /// which its data is on the bus.
    #[inline]
    pub(super) fn serve(&mut self, served: &Slot, rank: usize, now: u64) -> u64 {
        let times = self.ranks[rank];
        self.push(Completion {
            request: served.request,
            accepted: Cycles(served.accepted),
            done: Cycles(now + times.latency[served.request.direction as usize]),
            outcome: served.outcome.unwrap_or(RowOutcome::Hit),
            blamed: served.blamed,
        });
        times.burst
    }

    /// Completes a request at `now` from a waiting write to the same line.
    pub(super) fn serve_from_queue(&mut self, request: Request, now: u64) {
        self.push(Completion {
            request,
            accepted: Cycles(now),
            done: Cycles(now + 1),
            outcome: RowOutcome::Hit,
            blamed: None,
        });
    }

    fn push(&mut self, completion: Completion) {
        let mut place = self.pending.len();
        while place > 0 && self.pending[place - 1].done > completion.done {
            place -= 1;
        }
        self.pending.insert(place, completion);
    }

    /// Delivers the completions that are due at `now`.
    #[inline]
    pub(super) fn deliver(&mut self, now: u64, observer: &mut impl Observer) {
        while let Some(completion) = self.pending.front()
            && completion.done.0 <= now
        {
            observer.completed(completion);
            self.outstanding -= 1;
            self.pending.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::PhysAddr;

    use super::*;
    use crate::request::Source;
    use crate::spec::MemorySpec;
    use memweir_core::Direction;

    struct Tags(Vec<u32>);

    impl Observer for Tags {
        fn completed(&mut self, completion: &Completion) {
            self.0.push(completion.request.tag);
        }
    }

    fn request(tag: u32, direction: Direction) -> Request {
        Request { address: PhysAddr(0), direction, source: Source(0), tag }
    }

    #[test]
    fn completions_are_delivered_in_the_order_of_their_time() {
        let config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
        let mut completions = Completions::new(&config);
        (0..3).for_each(|_| completions.expect());
        let read = Slot::new(request(0, Direction::Read), 5, 0, 0);
        assert_eq!(completions.serve(&read, 0, 10), config.spec().burst.0);
        let done = 10 + config.spec().read_latency.0 + config.spec().burst.0;
        assert_eq!(completions.next(), done);
        completions.serve_from_queue(request(1, Direction::Write), 11);
        completions.serve_from_queue(request(2, Direction::Read), 11);
        assert_eq!(completions.next(), 12);
        let mut tags = Tags(Vec::new());
        completions.deliver(done - 1, &mut tags);
        assert_eq!(tags.0, [1, 2]);
        assert!(!completions.is_idle());
        completions.deliver(done, &mut tags);
        assert_eq!((tags.0, completions.is_idle()), (vec![1, 2, 0], true));
    }
}
