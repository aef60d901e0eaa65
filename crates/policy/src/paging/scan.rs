//! Ages by scans: the driver examines all pages from time to time (written-since by `PAGEMAP_SCAN`,
//! referenced by the idle bitmap, or the state kept by the simulator), and pages without accesses
//! grow older.

use super::queues::Queues;
use super::{Entry, Node, Nodes, Page, Seen, VictimPolicy};

/// Number of distinct ages. A written page is of age zero, a page that was only read is of age one:
/// evicting it costs a mapping, not a copy.
const AGES: usize = 4;
/// The age of pages that were only read.
const READ: usize = 1;
/// Scans wanted during the time in which as many pages are evicted as are resident.
const SCANS: u32 = 8;

/// Chooses a page of the greatest age; among these the one that reached it first.
#[derive(Clone, Debug)]
pub struct Scan<S = Vec<Node>> {
    ages: Queues<S, AGES>,
    /// Victims since the last complete scan; absent before the first scan.
    victims: Option<u32>,
}

impl<S: Nodes> Scan<S> {
    /// Creates a policy for as many pages as there are nodes, all of them [`Node::default`].
    ///
    /// # Panics
    /// If there are more than [`MOST_PAGES`](super::MOST_PAGES).
    #[must_use]
    pub fn new(nodes: S) -> Self {
        Self { ages: Queues::new(nodes), victims: None }
    }
}

impl<S: Nodes> VictimPolicy for Scan<S> {
    fn enter(&mut self, page: Page, _why: Entry) {
        self.ages.append(page, 0);
    }

    fn see(&mut self, page: Page, seen: Seen) {
        let Some(age) = self.ages.queue_of(page) else { return };
        let age = match seen {
            Seen::Written => 0,
            Seen::Read => READ,
            Seen::Idle => (age + 1).min(AGES - 1),
        };
        self.ages.remove(page);
        self.ages.append(page, age);
    }

    fn leave(&mut self, page: Page) {
        self.ages.remove(page);
    }

    fn victim(&mut self) -> Option<Page> {
        let page = (0..AGES).rev().find_map(|age| self.ages.pop(age))?;
        self.victims = self.victims.map(|victims| victims.saturating_add(1));
        Some(page)
    }

    fn resident(&self) -> u32 {
        self.ages.members()
    }

    fn wants_scan(&self) -> bool {
        self.victims.is_none_or(|victims| victims > self.resident() / SCANS)
    }

    fn scanned(&mut self) {
        self.victims = Some(0);
    }
}
