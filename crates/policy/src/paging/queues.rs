//! Queues of pages in caller-provided memory. Each page is in at most one of them; the caller
//! decides which.

use super::Page;

/// Highest number of pages that can be numbered: 16 TiB of 4 KiB pages.
pub const MOST_PAGES: u32 = u32::MAX - 1;

/// End of a queue.
const NONE: u32 = u32::MAX;

/// A policy's record of a page: twelve bytes. All zeros stand for a page that is not in DRAM, so
/// that memory fresh from the operating system needs no initialization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Node {
    before: u32,
    after: u32,
    /// Zero in no queue, else the number of the queue plus one.
    place: u8,
    marked: u8,
}

/// Storage for nodes: a vector, or memory allocated elsewhere.
pub trait Nodes: AsRef<[Node]> + AsMut<[Node]> {}

impl<S: AsRef<[Node]> + AsMut<[Node]>> Nodes for S {}

/// Ends of one queue.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// `N` queues over the same pages.
#[derive(Clone, Debug)]
pub(super) struct Queues<S, const N: usize> {
    nodes: S,
    ends: [Ends; N],
    members: u32,
}

impl<S: Nodes, const N: usize> Queues<S, N> {
    /// Creates empty queues over as many pages as there are nodes, all of them [`Node::default`].
    ///
    /// # Panics
    /// If there are more than [`MOST_PAGES`].
    pub(super) fn new(nodes: S) -> Self {
        assert!(nodes.as_ref().len() <= MOST_PAGES as usize, "too many pages");
        Self { nodes, ends: [Ends { first: NONE, last: NONE }; N], members: 0 }
    }

    /// Returns the number of pages in all queues.
    pub(super) fn members(&self) -> u32 {
        self.members
    }

    /// Returns the queue that holds `page`.
    pub(super) fn queue_of(&self, page: Page) -> Option<usize> {
        usize::from(self.node(page).place).checked_sub(1)
    }

    /// Returns the first page of a queue.
    pub(super) fn first(&self, queue: usize) -> Option<Page> {
        Some(self.ends[queue].first).filter(|page| *page != NONE)
    }

    /// Puts `page` at the end of a queue.
    ///
    /// # Panics
    /// If it is in one already.
    pub(super) fn append(&mut self, page: Page, queue: usize) {
        assert!(self.queue_of(page).is_none(), "page {page} is in DRAM already");
        let last = self.ends[queue].last;
        let node = self.node_mut(page);
        (node.before, node.after, node.place) = (last, NONE, queue as u8 + 1);
        match last {
            NONE => self.ends[queue].first = page,
            last => self.node_mut(last).after = page,
        }
        self.ends[queue].last = page;
        self.members += 1;
    }

    /// Removes `page` from its queue; returns false if it is in none.
    pub(super) fn remove(&mut self, page: Page) -> bool {
        let Some(queue) = self.queue_of(page) else { return false };
        let Node { before, after, .. } = *self.node(page);
        match before {
            NONE => self.ends[queue].first = after,
            before => self.node_mut(before).after = after,
        }
        match after {
            NONE => self.ends[queue].last = before,
            after => self.node_mut(after).before = before,
        }
        *self.node_mut(page) = Node::default();
        self.members -= 1;
        true
    }

    /// Removes the first page of a queue and returns it.
    pub(super) fn pop(&mut self, queue: usize) -> Option<Page> {
        let first = self.first(queue)?;
        self.remove(first);
        Some(first)
    }

    /// Returns true if `page` carries the mark. Removal from a queue clears the mark.
    pub(super) fn is_marked(&self, page: Page) -> bool {
        self.node(page).marked != 0
    }

    /// Marks `page`.
    pub(super) fn mark(&mut self, page: Page) {
        self.node_mut(page).marked = 1;
    }

    fn node(&self, page: Page) -> &Node {
        &self.nodes.as_ref()[page as usize]
    }

    fn node_mut(&mut self, page: Page) -> &mut Node {
        &mut self.nodes.as_mut()[page as usize]
    }
}
