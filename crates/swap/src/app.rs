//! Model of an application's accesses to its anonymous pages, with few parameters. The shipped
//! applications are in [`crate::phone`].
//!
//! At its *launch*, an application writes all of its pages once. When it comes back, it *resumes*:
//! it goes once through a part of its pages, the same each time. Then it is *used*: most references
//! go to its hot pages and the others to any page. Meanwhile it allocates, which writes the pages
//! of a ring in turn, like a garbage-collected heap. Of the pages outside the ring, some are read
//! and written, the others only read.

use memweir_core::Bytes;
use memweir_policy::paging::Page;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Access, pages};

/// Parameters of an application. Shares are from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct AppModel {
    /// Anonymous memory, the ring included.
    pub footprint: Bytes,
    /// Share of the pages outside the ring that are written as well as read.
    pub written_pages: f64,
    /// Share of the references to such a page that write it.
    pub writes: f64,
    /// Share of the pages outside the ring that are hot.
    pub hot_pages: f64,
    /// Share of the references that go to hot pages; the others go to any page.
    pub hot_references: f64,
    /// Share of the pages outside the ring that a resume goes through, the hot ones first.
    pub resumed_pages: f64,
    /// Memory that it allocates in a turn in the foreground.
    pub allocated: Bytes,
    /// The ring that it allocates from; part of the footprint.
    pub ring: Bytes,
    /// References in a turn in the foreground.
    pub references: u64,
}

/// A running application.
#[derive(Clone, Debug)]
pub struct App {
    first: Page,
    /// Pages outside the ring, the hottest first.
    order: Vec<Page>,
    written: Vec<bool>,
    hot: u32,
    resumed: u32,
    ring: u32,
    next_in_ring: u32,
    allocated: u32,
    references: u64,
    /// Thresholds for 16 random bits.
    hot_references: u64,
    writes: u64,
    random: ChaCha8Rng,
}

/// Number that stands for a share of 1.
const WHOLE: f64 = 65536.0;

impl AppModel {
    /// Returns the number of its pages.
    #[must_use]
    pub fn pages(&self) -> u32 {
        pages(self.footprint)
    }

    /// Creates the application with pages from `first` on. Equal seeds give equal behavior.
    #[must_use]
    pub fn start(&self, first: Page, seed: u64) -> App {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let ring = pages(self.ring).min(self.pages().saturating_sub(1));
        let lasting = self.pages() - ring;
        let part = |share: f64| (f64::from(lasting) * share).round() as u32;
        let mut order: Vec<Page> = (first..first + lasting).collect();
        order.shuffle(&mut random);
        let threshold = (self.written_pages * WHOLE) as u64;
        let written = (0..lasting).map(|_| random.next_u64() & 0xffff < threshold).collect();
        let hot = part(self.hot_pages);
        // Where no page is hot, every reference is to any page.
        let hot_references = if hot == 0 { 0.0 } else { self.hot_references };
        App {
            first,
            order,
            written,
            hot,
            resumed: part(self.resumed_pages),
            ring,
            next_in_ring: 0,
            allocated: if ring == 0 { 0 } else { pages(self.allocated) },
            references: self.references,
            hot_references: (hot_references * WHOLE) as u64,
            writes: (self.writes * WHOLE) as u64,
            random,
        }
    }
}

/// Maps 32 random bits to a number below `bound`.
#[inline]
fn below(bits: u64, bound: u32) -> u32 {
    ((bits * u64::from(bound)) >> 32) as u32
}

impl App {
    /// Launches it: every page is written once.
    pub fn launch(&mut self, mut refer: impl FnMut(Page, Access)) {
        self.next_in_ring = 0;
        for page in 0..self.order.len() as u32 + self.ring {
            refer(self.first + page, Access::Write);
        }
    }

    /// Resumes it when it comes back to the foreground.
    pub fn resume(&mut self, mut refer: impl FnMut(Page, Access)) {
        for rank in 0..self.resumed {
            let bits = self.random.next_u64();
            refer(self.order[rank as usize], self.access(rank, bits));
        }
    }

    /// Uses it for a turn in the foreground.
    pub fn use_it(&mut self, mut refer: impl FnMut(Page, Access)) {
        // Allocations are spread evenly over the turn.
        let mut due = 0;
        for _ in 0..self.references {
            let bits = self.random.next_u64();
            due += u64::from(self.allocated);
            if due >= self.references {
                due -= self.references;
                refer(self.first + self.order.len() as Page + self.next_in_ring, Access::Write);
                self.next_in_ring = (self.next_in_ring + 1) % self.ring;
                continue;
            }
            let hot = bits & 0xffff < self.hot_references;
            let among = if hot { self.hot } else { self.order.len() as u32 };
            let rank = below(bits >> 32, among);
            refer(self.order[rank as usize], self.access(rank, bits));
        }
    }

    /// Chooses the access to the page of this rank, by other bits than those that chose the page.
    #[inline]
    fn access(&self, rank: u32, bits: u64) -> Access {
        if self.written[rank as usize] && bits >> 16 & 0xffff < self.writes {
            Access::Write
        } else {
            Access::Read
        }
    }
}
