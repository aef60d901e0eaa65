//! The table of victim policies, in the order in which help lists them.

use std::fmt::Debug;

use memweir_core::input::Refusal;
use memweir_core::names::choose;

use super::{Clock, Entry, Fifo, Node, Nodes, Page, Scan, Seen, VictimPolicy};

/// Input that a policy learns from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnsBy {
    /// Pages that enter and leave DRAM.
    Faults,
    /// Also the results of scans of all pages.
    Scans,
}

/// A victim policy by name, from which each simulated memory creates a policy of its own.
pub trait VictimSource: Debug + Send + Sync {
    /// Returns the name by which scenarios choose it.
    fn name(&self) -> &str;

    /// Returns the input that the policy needs.
    fn learns_by(&self) -> LearnsBy;

    /// Creates the policy for this number of pages.
    ///
    /// # Panics
    /// If there are more than [`MOST_PAGES`](super::MOST_PAGES).
    fn create(&self, pages: usize) -> Box<dyn VictimPolicy>;
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct VictimEntry {
    /// Name that users write.
    pub name: &'static str,
    /// One line for `--help`.
    pub summary: &'static str,
    /// Input that the policy needs.
    pub learns_by: LearnsBy,
    rule: Rule,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    Fifo,
    Clock,
    Scan,
}

/// Every victim policy.
pub const VICTIM_POLICIES: &[VictimEntry] = &[
    VictimEntry {
        name: "fifo",
        summary: "the page that came to DRAM longest ago",
        learns_by: LearnsBy::Faults,
        rule: Rule::Fifo,
    },
    VictimEntry {
        name: "clock",
        summary: "the same, but a page that a fault brought back is passed once",
        learns_by: LearnsBy::Faults,
        rule: Rule::Clock,
    },
    VictimEntry {
        name: "scan",
        summary: "the page that was written, or else read, longest ago, as scans see it",
        learns_by: LearnsBy::Scans,
        rule: Rule::Scan,
    },
];

/// Returns the policy called `name`.
///
/// ```
/// use memweir_policy::paging::{Entry, Node, VictimPolicy, find};
///
/// let mut victims = find("clock")?.build(vec![Node::default(); 2]);
/// victims.enter(0, Entry::Returned);
/// victims.enter(1, Entry::New);
/// assert_eq!(victims.victim(), Some(1), "page 0 has come back before");
/// # Ok::<(), memweir_core::input::Refusal>(())
/// ```
///
/// # Errors
/// If there is none; the error suggests the nearest name.
pub fn find(name: &str) -> Result<&'static VictimEntry, Refusal> {
    choose("victim policy", name, VICTIM_POLICIES.iter().map(|entry| (entry.name, entry)))
}

impl VictimEntry {
    /// Creates the policy for as many pages as there are nodes, all of them [`Node::default`]. It
    /// allocates nothing, now or later.
    ///
    /// # Panics
    /// If there are more than [`MOST_PAGES`](super::MOST_PAGES).
    #[must_use]
    pub fn build<S: Nodes>(&self, nodes: S) -> Victims<S> {
        match self.rule {
            Rule::Fifo => Victims::Fifo(Fifo::new(nodes)),
            Rule::Clock => Victims::Clock(Clock::new(nodes)),
            Rule::Scan => Victims::Scan(Scan::new(nodes)),
        }
    }
}

impl VictimSource for VictimEntry {
    fn name(&self) -> &str {
        self.name
    }

    fn learns_by(&self) -> LearnsBy {
        self.learns_by
    }

    fn create(&self, pages: usize) -> Box<dyn VictimPolicy> {
        Box::new(self.build(vec![Node::default(); pages]))
    }
}

/// Any policy of the table, stored inline.
#[derive(Clone, Debug)]
pub enum Victims<S = Vec<Node>> {
    /// `fifo`
    Fifo(Fifo<S>),
    /// `clock`
    Clock(Clock<S>),
    /// `scan`
    Scan(Scan<S>),
}

/// Evaluates `$call` on the policy of whichever variant.
macro_rules! each {
    ($victims:expr, $policy:ident => $call:expr) => {
        match $victims {
            Victims::Fifo($policy) => $call,
            Victims::Clock($policy) => $call,
            Victims::Scan($policy) => $call,
        }
    };
}

impl<S: Nodes> VictimPolicy for Victims<S> {
    fn enter(&mut self, page: Page, why: Entry) {
        each!(self, policy => policy.enter(page, why));
    }

    fn see(&mut self, page: Page, seen: Seen) {
        each!(self, policy => policy.see(page, seen));
    }

    fn leave(&mut self, page: Page) {
        each!(self, policy => policy.leave(page));
    }

    fn victim(&mut self) -> Option<Page> {
        each!(self, policy => policy.victim())
    }

    fn resident(&self) -> u32 {
        each!(self, policy => policy.resident())
    }

    fn wants_scan(&self) -> bool {
        each!(self, policy => policy.wants_scan())
    }

    fn scanned(&mut self) {
        each!(self, policy => policy.scanned());
    }
}
