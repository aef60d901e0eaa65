//! Victim selection for a byte-addressable swap area (drswap section III): which page leaves DRAM
//! next.
//!
//! The helper of a paged program and the page simulator drive the same code, so it uses no address
//! space, clock or fault handler. Pages are numbers from zero. A policy allocates nothing: its
//! [`Node`]s are passed in at construction, one for each possible page, and each operation takes a
//! bounded number of steps without a system call or a lock. The driver evicts the pages and detects
//! reads and writes.
//!
//! With direct read, a wrong choice costs little if the page is only read, and a copy if it is
//! written. So every policy here considers writes alone, or writes before reads.
//!
//! | name | criterion |
//! |---|---|
//! | `fifo` | the order in which pages entered DRAM |
//! | `clock` | that order, with one more round for pages that a fault brought back |
//! | `scan` | the time since a scan saw the page written, or read |

mod clock;
mod fifo;
mod queues;
mod scan;
mod table;

#[cfg(test)]
mod tests;

pub use clock::Clock;
pub use fifo::Fifo;
pub use queues::{MOST_PAGES, Node, Nodes};
pub use scan::Scan;
pub use table::{LearnsBy, VICTIM_POLICIES, VictimEntry, VictimSource, Victims, find};

/// Number of a page, below the number of [`Node`]s of the policy.
pub type Page = u32;

/// Reason why a page enters DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It was touched for the first time.
    New,
    /// A fault brought it back from the swap area.
    Returned,
    /// It was chosen as a victim, but cannot leave now (it is locked or in use).
    Kept,
}

/// Accesses to a page in DRAM since it was last examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// Neither read nor written.
    Idle,
    /// Read, not written.
    Read,
    /// Written.
    Written,
}

/// Chooses victims among the pages in DRAM. The driver reports pages that enter and leave.
pub trait VictimPolicy {
    /// Records that `page` is now in DRAM. It was not before, or has just been chosen.
    ///
    /// # Panics
    /// If there is no such page, or it is in DRAM already.
    fn enter(&mut self, page: Page, why: Entry);

    /// Records an access state of `page`. If the page has left DRAM meanwhile, the call has no
    /// effect.
    ///
    /// # Panics
    /// If there is no such page.
    fn see(&mut self, page: Page, seen: Seen);

    /// Records that `page` left DRAM without being chosen: it was freed. If the page is not in
    /// DRAM, the call has no effect.
    ///
    /// # Panics
    /// If there is no such page.
    fn leave(&mut self, page: Page);

    /// Chooses the page that leaves DRAM next, and removes it. `None` if there is none.
    fn victim(&mut self) -> Option<Page>;

    /// Returns the number of pages in DRAM.
    fn resident(&self) -> u32;

    /// Returns true if a scan of all pages in DRAM now (a [`see`](Self::see) for each) would be
    /// worth its cost. Always false for policies that learn from faults.
    fn wants_scan(&self) -> bool {
        false
    }

    /// Records that a scan of all pages in DRAM is complete.
    fn scanned(&mut self) {}
}
