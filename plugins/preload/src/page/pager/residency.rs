//! The state of each page and of its slot, as far as the helper has found out, and the order in
//! which pages leave DRAM.

use memweir_abi::preload::page::PageCounter;
use memweir_policy::paging::{Entry, Node, VictimPolicy, Victims};

use crate::page::tally::Tally;

/// The state of a page. All zero is [`Unknown`](Self::Unknown).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// Not touched yet, or released by the program.
    Unknown = 0,
    /// Evicted: the slot has the content.
    Evicted,
    /// Evicted, and found mapped in place since.
    Read,
    /// Evicted, and mapped along with a neighbor that was read: it may have been read, too.
    Around,
    /// Evicted; the helper itself has read and written it since, to time these accesses.
    Probed,
    /// In DRAM; the slot was removed from the file since the page came.
    Resident,
    /// In DRAM; the slot was left in the file, to be overwritten.
    Kept,
    /// Written to its slot, but perhaps not dropped from DRAM: the kernel refused that.
    Undropped,
}

impl State {
    /// Returns true if the page has a copy in DRAM.
    const fn is_in_dram(self) -> bool {
        matches!(self, Self::Resident | Self::Kept | Self::Undropped)
    }

    const fn is_kept(self) -> bool {
        matches!(self, Self::Kept | Self::Undropped)
    }
}

/// The way in which a page came to DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    FirstTouch,
    /// By a write, without a read in place before it.
    StraightCopy,
    /// By a write after a read in place.
    Upgrade,
    /// By the helper's own write.
    Probe,
}

impl Arrival {
    /// Returns the counter of such arrivals.
    pub(super) const fn counter(self) -> Option<PageCounter> {
        match self {
            Self::FirstTouch => Some(PageCounter::FirstTouches),
            Self::StraightCopy => Some(PageCounter::StraightCopies),
            Self::Upgrade => Some(PageCounter::Upgrades),
            Self::Probe => None,
        }
    }
}

/// The states of all pages, by slot, and the policy that chooses victims among those in DRAM.
///
/// - The policy has exactly the pages in DRAM, except for chosen victims: each of these ends by
///   [`left`](Self::left), [`absent`](Self::absent), [`release`](Self::release) or one of the
///   methods that return it to the policy.
/// - The slot of a [`Resident`](State::Resident) page was removed from the file while the page was
///   in DRAM, so step 2 of the protocol that [`page`](crate::page) argues for may be skipped.
pub(super) struct Residency {
    states: &'static mut [State],
    /// Pages whose slots were left in the file.
    kept: usize,
    victims: Victims<&'static mut [Node]>,
    tally: Tally,
}

impl Residency {
    /// Takes over states that are all [`Unknown`](State::Unknown).
    pub(super) fn new(
        states: &'static mut [State],
        victims: Victims<&'static mut [Node]>,
        tally: Tally,
    ) -> Self {
        Self { states, kept: 0, victims, tally }
    }

    fn of(&self, slot: u32) -> State {
        self.states[slot as usize]
    }

    /// Sets the state of a page; returns the previous one.
    fn set(&mut self, slot: u32, state: State) -> State {
        let before = std::mem::replace(&mut self.states[slot as usize], state);
        self.kept += usize::from(state.is_kept());
        self.kept -= usize::from(before.is_kept());
        before
    }

    /// Returns the number of pages in DRAM whose slots were left in the file.
    pub(super) const fn kept(&self) -> usize {
        self.kept
    }

    /// Returns true if the slot was left in the file when its page came to DRAM.
    pub(super) fn is_kept(&self, slot: u32) -> bool {
        self.of(slot).is_kept()
    }

    /// Returns true if the slot has the content of the page, unless the page is found in DRAM.
    pub(super) fn is_in_nvm(&self, slot: u32) -> bool {
        !matches!(self.of(slot), State::Unknown | State::Resident | State::Kept)
    }

    /// Returns true if the page may have content, in DRAM or in its slot.
    pub(super) fn is_known(&self, slot: u32) -> bool {
        self.of(slot) != State::Unknown
    }

    /// Returns the number of pages that can become victims.
    pub(super) fn candidates(&self) -> usize {
        self.victims.resident() as usize
    }

    /// Chooses the next victim.
    pub(super) fn victim(&mut self) -> Option<u32> {
        self.victims.victim()
    }

    /// Records that the page was found in DRAM, where the kernel made it from its slot: that is in
    /// the file. `None` if the page was there already.
    pub(super) fn came(&mut self, slot: u32) -> Option<Arrival> {
        let arrival = match self.of(slot) {
            State::Resident | State::Kept | State::Undropped => return None,
            State::Unknown => Arrival::FirstTouch,
            State::Evicted | State::Around => Arrival::StraightCopy,
            State::Read => Arrival::Upgrade,
            State::Probed => Arrival::Probe,
        };
        self.set(slot, State::Kept);
        let why = match arrival {
            Arrival::FirstTouch => Entry::New,
            Arrival::Probe => Entry::Kept,
            Arrival::StraightCopy | Arrival::Upgrade => Entry::Returned,
        };
        self.victims.enter(slot, why);
        Some(arrival)
    }

    /// Records that the helper made a copy of the page in DRAM. A page that was touched for the
    /// first time has no slot in the file. `None` if the page was there already.
    pub(super) fn delivered(&mut self, slot: u32) -> Option<Arrival> {
        let arrival = self.came(slot)?;
        if arrival == Arrival::FirstTouch {
            self.slot_removed(slot);
        }
        Some(arrival)
    }

    /// Records that the page is mapped in place because it was read ([`Read`](State::Read)) or
    /// along with a neighbor ([`Around`](State::Around)). Returns true if that is new since its
    /// eviction.
    pub(super) fn mapped(&mut self, slot: u32, how: State) -> bool {
        let new = self.of(slot) == State::Evicted;
        if new {
            self.set(slot, how);
        }
        new
    }

    /// Records that the helper has read and written an evicted page.
    pub(super) fn probed(&mut self, slot: u32) {
        if !self.of(slot).is_in_dram() {
            self.set(slot, State::Probed);
        }
    }

    /// Records that the slot of a page in DRAM was removed from the file.
    pub(super) fn slot_removed(&mut self, slot: u32) {
        if self.is_kept(slot) {
            self.set(slot, State::Resident);
        }
    }

    /// Records that the page was evicted, or was plain memory and is in its slot now.
    pub(super) fn left(&mut self, slot: u32) {
        self.set(slot, State::Evicted);
    }

    /// Returns a victim to the policy.
    pub(super) fn returns(&mut self, slot: u32) {
        self.victims.enter(slot, Entry::Kept);
    }

    /// Does the same for a victim that cannot leave.
    pub(super) fn stays(&mut self, slot: u32) {
        self.tally.add(PageCounter::Skipped, 1);
        self.returns(slot);
    }

    /// Does the same for a victim whose slot may be in the file, with any content.
    pub(super) fn stays_unwritten(&mut self, slot: u32) {
        self.set(slot, State::Kept);
        self.stays(slot);
    }

    /// Does the same for a victim that was written to its slot and may have left.
    pub(super) fn stays_undropped(&mut self, slot: u32) {
        self.set(slot, State::Undropped);
        self.stays(slot);
    }

    /// Records that a victim was not found in DRAM.
    pub(super) fn absent(&mut self, slot: u32) {
        let state = match self.of(slot) {
            State::Undropped => State::Evicted,
            State::Resident | State::Kept => State::Unknown,
            other => other,
        };
        self.set(slot, state);
    }

    /// Records that the page has no content any more.
    pub(super) fn release(&mut self, slot: u32) {
        if self.set(slot, State::Unknown).is_in_dram() {
            self.victims.leave(slot);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The residency of that many pages.
    pub(in crate::page::pager) fn of_pages(pages: usize) -> Residency {
        counted(pages, Tally::NONE)
    }

    /// The same, with counters.
    pub(in crate::page::pager) fn counted(pages: usize, tally: Tally) -> Residency {
        let nodes = Box::leak(vec![Node::default(); pages].into_boxed_slice());
        let states = Box::leak(vec![State::Unknown; pages].into_boxed_slice());
        let fifo = memweir_policy::paging::find("fifo").expect("it exists");
        Residency::new(states, fifo.build(nodes), tally)
    }

    #[test]
    fn arrivals_differ_by_what_was_seen_of_the_evicted_page() {
        let mut pages = of_pages(5);
        assert_eq!(pages.came(0), Some(Arrival::FirstTouch));
        assert_eq!(pages.came(0), None, "it is there already");
        assert_eq!(pages.victim(), Some(0));
        (0..4).for_each(|slot| pages.left(slot));
        assert!(pages.mapped(1, State::Read) && !pages.mapped(1, State::Around));
        assert!(pages.mapped(2, State::Around));
        pages.probed(3);
        assert!(!pages.mapped(3, State::Read), "the helper itself has read it");
        assert!(!pages.mapped(4, State::Read), "it was never evicted");
        let arrivals = [0, 1, 2, 3].map(|slot| pages.came(slot));
        let expected =
            [Arrival::StraightCopy, Arrival::Upgrade, Arrival::StraightCopy, Arrival::Probe];
        assert_eq!(arrivals, expected.map(Some));
    }

    #[test]
    fn a_delivered_page_has_a_slot_only_if_it_was_evicted() {
        let mut pages = of_pages(2);
        pages.left(1);
        assert_eq!(pages.delivered(0), Some(Arrival::FirstTouch));
        assert_eq!(pages.delivered(1), Some(Arrival::StraightCopy));
        assert_eq!((pages.is_kept(0), pages.is_kept(1), pages.kept()), (false, true, 1));
        assert_eq!(pages.delivered(1), None);
    }

    #[test]
    fn content_is_found_after_a_drop_that_failed() {
        let mut pages = of_pages(2);
        for slot in [0, 1] {
            pages.came(slot);
            assert_eq!(pages.victim(), Some(slot));
        }
        pages.stays_undropped(0);
        pages.stays_unwritten(1);
        assert!(pages.is_in_nvm(0) && !pages.is_in_nvm(1));
        assert_eq!(pages.kept(), 2);
        assert_eq!((pages.victim(), pages.victim()), (Some(0), Some(1)));
        pages.absent(0);
        pages.absent(1);
        assert!(pages.is_in_nvm(0) && !pages.is_known(1));
        assert_eq!(pages.kept(), 0);
    }

    proptest! {
        #[test]
        fn the_policy_has_the_pages_in_dram_except_chosen_victims(
            steps in prop::collection::vec((0u8..6, 0u32..8), 1..80),
        ) {
            let mut pages = of_pages(8);
            let (mut in_dram, mut chosen) = (BTreeSet::new(), BTreeSet::new());
            for (step, slot) in steps {
                match step {
                    0 => prop_assert_eq!(pages.came(slot).is_some(), in_dram.insert(slot)),
                    1 => pages.slot_removed(slot),
                    2 if !chosen.contains(&slot) => {
                        pages.release(slot);
                        in_dram.remove(&slot);
                    }
                    3 => chosen.extend(pages.victim()),
                    4 if chosen.remove(&slot) => {
                        pages.left(slot);
                        in_dram.remove(&slot);
                    }
                    5 if chosen.remove(&slot) => pages.stays_unwritten(slot),
                    _ => {}
                }
                prop_assert_eq!(pages.candidates(), in_dram.len() - chosen.len());
                prop_assert_eq!(pages.kept(), (0..8).filter(|slot| pages.is_kept(*slot)).count());
                let agrees = |slot| pages.of(slot).is_in_dram() == in_dram.contains(&slot);
                prop_assert!((0..8).all(agrees));
            }
        }
    }
}
