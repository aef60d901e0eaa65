//! First in, first out. Direct read makes this policy better than it seems: a page that is only
//! read stays in the swap area, and a written page returns to the end of the queue by its own
//! fault.

use super::queues::Queues;
use super::{Entry, Node, Nodes, Page, Seen, VictimPolicy};

/// Chooses the page that entered DRAM longest ago.
#[derive(Clone, Debug)]
pub struct Fifo<S = Vec<Node>> {
    queue: Queues<S, 1>,
}

impl<S: Nodes> Fifo<S> {
    /// Creates a queue for as many pages as there are nodes, all of them [`Node::default`].
    ///
    /// # Panics
    /// If there are more than [`MOST_PAGES`](super::MOST_PAGES).
    #[must_use]
    pub fn new(nodes: S) -> Self {
        Self { queue: Queues::new(nodes) }
    }
}

impl<S: Nodes> VictimPolicy for Fifo<S> {
    fn enter(&mut self, page: Page, _why: Entry) {
        self.queue.append(page, 0);
    }

    fn see(&mut self, _page: Page, _seen: Seen) {}

    fn leave(&mut self, page: Page) {
        self.queue.remove(page);
    }

    fn victim(&mut self) -> Option<Page> {
        self.queue.pop(0)
    }

    fn resident(&self) -> u32 {
        self.queue.members()
    }
}
