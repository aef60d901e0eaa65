//! Interface of the driver to a memory and to its observer, in cycles of one clock.

use memweir_core::Cycles;

use crate::command::Command;
use crate::observer::Observer;
use crate::request::{Completion, Full, Request};
use crate::stats::Stats;
use crate::system::MemorySystem;

/// Observer of the parts of a driven memory. A single memory is part 0.
pub trait PartObserver {
    /// Part `part` completed a request. Cycles are those of the driver's clock: the one in which
    /// the part accepted it, and the first that is not before its last data beat.
    fn completed(&mut self, part: usize, completion: &Completion) {
        let _ = (part, completion);
    }

    /// As [`completed`](Self::completed), with the latency of a read as the driver counts it, in
    /// cycles of its clock; `None` for a write.
    fn measured(&mut self, part: usize, completion: &Completion, latency: Option<u64>) {
        let _ = latency;
        self.completed(part, completion);
    }

    /// The warm-up is over: the measurement begins with cycle `at` of the driver's clock.
    fn begins(&mut self, at: Cycles) {
        let _ = at;
    }

    /// A command was issued in part `part`, in a cycle of that part's clock.
    fn command(&mut self, part: usize, command: &Command) {
        let _ = (part, command);
    }
}

/// A memory as the driver uses it. In each cycle the driver first offers requests, then advances
/// the memory.
pub trait Target {
    /// Returns the number of parts that are measured by themselves; 0 for one memory alone.
    fn parts(&self) -> usize;

    /// Offers `request` in cycle `now`.
    ///
    /// # Errors
    /// If the queue has no room; nothing has changed then.
    fn enqueue(&mut self, now: Cycles, request: Request) -> Result<(), Full>;

    /// Returns the cycle of the next event that the driver may wait for.
    fn next_event(&self) -> Option<Cycles>;

    /// Advances through all cycles up to and including `to`.
    fn advance(&mut self, to: Cycles, observer: &mut impl PartObserver);

    /// Returns the counts of the memory, or of each part.
    fn stats(&self) -> Vec<Stats>;
}

/// One memory alone, whose clock is the driver's.
impl Target for MemorySystem {
    fn parts(&self) -> usize {
        0
    }

    #[inline]
    fn enqueue(&mut self, now: Cycles, request: Request) -> Result<(), Full> {
        self.enqueue(now, request)
    }

    #[inline]
    fn next_event(&self) -> Option<Cycles> {
        self.next_event()
    }

    #[inline]
    fn advance(&mut self, to: Cycles, observer: &mut impl PartObserver) {
        self.advance(to, &mut OnlyPart(observer));
    }

    fn stats(&self) -> Vec<Stats> {
        vec![self.stats()]
    }
}

/// Observer of a single memory that reports it as part 0.
struct OnlyPart<'a, O>(&'a mut O);

impl<O: PartObserver> Observer for OnlyPart<'_, O> {
    #[inline]
    fn completed(&mut self, completion: &Completion) {
        self.0.completed(0, completion);
    }

    #[inline]
    fn command(&mut self, command: &Command) {
        self.0.command(0, command);
    }
}

impl PartObserver for () {}
