//! The clock over write faults: a page that a fault brought back has shown that it is needed in
//! DRAM, so the hand skips it once.

use super::queues::Queues;
use super::{Entry, Node, Nodes, Page, Seen, VictimPolicy};

/// Chooses the next unmarked page under the hand: one without a sign of writes since the last
/// round.
///
/// New pages carry no mark: the first touch of anonymous memory is a write in any case, and a clock
/// that marked every page would be a queue.
#[derive(Clone, Debug)]
pub struct Clock<S = Vec<Node>> {
    queue: Queues<S, 1>,
}

impl<S: Nodes> Clock<S> {
    /// Creates a clock for as many pages as there are nodes, all of them [`Node::default`].
    ///
    /// # Panics
    /// If there are more than [`MOST_PAGES`](super::MOST_PAGES).
    #[must_use]
    pub fn new(nodes: S) -> Self {
        Self { queue: Queues::new(nodes) }
    }
}

impl<S: Nodes> VictimPolicy for Clock<S> {
    fn enter(&mut self, page: Page, why: Entry) {
        self.queue.append(page, 0);
        if why == Entry::Returned {
            self.queue.mark(page);
        }
    }

    fn see(&mut self, page: Page, seen: Seen) {
        if seen == Seen::Written && self.queue.queue_of(page).is_some() {
            self.queue.mark(page);
        }
    }

    fn leave(&mut self, page: Page) {
        self.queue.remove(page);
    }

    /// Each step that does not end the search clears a mark, so the number of steps is bounded by
    /// the number of preceding faults.
    fn victim(&mut self) -> Option<Page> {
        loop {
            let page = self.queue.first(0)?;
            let spared = self.queue.is_marked(page);
            self.queue.remove(page);
            if !spared {
                return Some(page);
            }
            self.queue.append(page, 0);
        }
    }

    fn resident(&self) -> u32 {
        self.queue.members()
    }
}
