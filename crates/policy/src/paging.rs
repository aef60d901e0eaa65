//! Which page leaves DRAM next, when cold pages live in a swap area that is byte-addressable
//! (drswap section III).
//!
//! The live pager and the page simulator drive the same code, so nothing here knows an address
//! space, a clock or a fault handler. Pages are numbers from zero. A policy allocates nothing: its
//! [`Node`]s are handed to it when it is made, one for each page that there can be, and everything
//! it does takes a bounded number of steps without a system call or a lock. Evicting the page, and finding out what was read or written,
//! is the business of whoever drives it.
//!
//! Where reads are served in place, a wrong choice costs little if the page is only read, and a copy if it
//! is written. So every policy here cares for writes alone, or for writes before reads.
//!
//! | name | what it goes by |
//! |---|---|
//! | `fifo` | the order in which pages came to DRAM |
//! | `clock` | that order, and one more round for pages that a fault brought back |
//! | `scan` | how long ago a scan saw the page written, or read |

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
pub use table::{LearnsBy, VICTIM_POLICIES, VictimEntry, Victims, find};

/// Number of a page, below the number of [`Node`]s of the policy.
pub type Page = u32;

/// Why a page is in DRAM now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It was touched for the first time.
    New,
    /// A fault brought it back from the swap area.
    Returned,
    /// It was chosen as a victim, but cannot leave now (it is locked, or something holds it).
    Kept,
}

/// What was seen of a page in DRAM since it was looked at before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// Neither read nor written.
    Idle,
    /// Read, not written.
    Read,
    /// Written.
    Written,
}

/// Chooses victims among the pages that are in DRAM. It is told which those are.
pub trait VictimPolicy {
    /// `page` is in DRAM from now on. It was not before, or has just been chosen.
    ///
    /// # Panics
    /// If there is no such page, or it is in DRAM already.
    fn enter(&mut self, page: Page, why: Entry);

    /// Something was seen of `page`, which may have left DRAM meanwhile: then it is passed over.
    ///
    /// # Panics
    /// If there is no such page.
    fn see(&mut self, page: Page, seen: Seen);

    /// `page` is no longer in DRAM, without having been chosen: it was given back. One that was
    /// not in DRAM is passed over.
    ///
    /// # Panics
    /// If there is no such page.
    fn leave(&mut self, page: Page);

    /// Chooses the page that leaves DRAM next, and counts it as gone. `None` if there is none.
    fn victim(&mut self) -> Option<Page>;

    /// Pages in DRAM.
    fn resident(&self) -> u32;

    /// Whether looking at every page in DRAM now (a [`see`](Self::see) for each) would be worth
    /// it. Never, of policies that learn from faults.
    fn wants_scan(&self) -> bool {
        false
    }

    /// Every page in DRAM has been looked at.
    fn scanned(&mut self) {}
}
