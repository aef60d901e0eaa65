//! The ranges in which writes wait, and the reasons.

use crate::page::budget::MOST_AT_ONCE;
use crate::page::spans::{Span, Spans};

/// Ranges in which writers can be held.
const HELD: usize = 1024;

/// The write-protected ranges: those whose pages are being moved to another place (step 1 of the
/// [argument](crate::page) that no write is lost), and those whose writers are held until there is
/// room. All zero means that there are none.
///
/// A page is protected as long as it is in either set. So a range that was moved becomes writable
/// only where no writer is held, and a writer that waits for a page of neither set is to be woken.
#[repr(C)]
pub(in crate::page::pager) struct Protection {
    moving: Spans<MOST_AT_ONCE>,
    held: Spans<HELD>,
    /// Time at which the first writers were held, in nanoseconds.
    held_since: u64,
    /// Address of the next range to protect while writers are held.
    hold_from: usize,
    /// Address of the next range in which to release writers.
    release_from: usize,
    /// Address of the page that was last found in DRAM, or that a writer last waited for.
    arrived_at: usize,
}

impl Protection {
    /// Records that the pages of a range are about to be moved; returns false if there is no room.
    pub(super) fn begin_move(&mut self, range: Span) -> bool {
        self.moving.insert(range)
    }

    /// Records that they are in their new place, or stay where they are.
    pub(super) fn end_move(&mut self, range: Span) {
        self.moving.remove(range);
    }

    /// Returns the first range that is being moved.
    pub(super) fn first_moving(&self) -> Option<Span> {
        self.moving.next(0)
    }

    /// Returns the first range of either set that ends after `address`, or one that contains it.
    pub(super) fn next(&self, address: usize) -> Option<Span> {
        let both = [self.moving.next(address), self.held.next(address)];
        both.into_iter().flatten().min_by_key(|span| span.start)
    }

    /// Returns true if no writer of the page has to wait.
    pub(super) fn is_open(&self, page: usize) -> bool {
        self.moving.at(page).is_none() && !self.is_held(page)
    }

    /// Returns true if writers of the page are held.
    pub(in crate::page::pager) fn is_held(&self, page: usize) -> bool {
        self.held.at(page).is_some()
    }

    /// Returns true if any writers are held.
    pub(in crate::page::pager) const fn holds(&self) -> bool {
        self.held.count() > 0
    }

    /// Returns the first part of a range in which no writers are held; empty if there is none.
    pub(super) fn first_not_held(&self, range: Span) -> Span {
        self.held.first_out(range)
    }

    /// Records the page that was last found in DRAM, or that a writer last waited for: the next
    /// hold starts there.
    pub(super) fn arrived(&mut self, page: usize) {
        self.arrived_at = page;
    }

    /// Starts to hold writers at `now`, in nanoseconds, from the multiple of `step` below the page
    /// that arrived last. Returns false if writers are held already.
    pub(super) fn begin_hold(&mut self, step: usize, now: u64) -> bool {
        let begins = !self.holds();
        if begins {
            (self.held_since, self.hold_from) = (now, self.arrived_at / step * step);
        }
        begins
    }

    /// Returns the address from which further writers are to be held.
    pub(super) const fn hold_from(&self) -> usize {
        self.hold_from
    }

    /// Goes on behind `step`; returns true if not all of its writers are held.
    pub(super) fn pass(&mut self, step: Span) -> bool {
        self.hold_from = step.end;
        !self.held.first_out(step).is_empty()
    }

    /// Records that the writers of a range are held; returns false if there is no room.
    pub(super) fn hold(&mut self, range: Span) -> bool {
        self.held.insert(range)
    }

    /// Takes [`hold`](Self::hold) back, because the kernel refused the protection.
    pub(super) fn undo_hold(&mut self, range: Span) {
        self.held.remove(range);
    }

    /// Returns the address from which writers are released next.
    pub(in crate::page::pager) const fn release_from(&self) -> usize {
        self.release_from
    }

    /// Returns the next range of at most `step` bytes to release: behind the one that was released
    /// last, so that no writer waits forever.
    pub(super) fn next_to_release(&self, step: usize) -> Option<Span> {
        self.held.part_behind(self.release_from, step)
    }

    /// Records that the writers of a range were released. Returns the start of the hold, in
    /// nanoseconds, if they were the last.
    pub(super) fn released(&mut self, range: Span) -> Option<u64> {
        self.held.remove(range);
        self.release_from = range.end;
        (!self.holds()).then_some(self.held_since)
    }

    /// Makes the ranges behind `address`, which were just released, the first to be held again.
    pub(super) fn hold_again_from(&mut self, address: usize) {
        self.hold_from = address;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn none() -> Box<Protection> {
        // SAFETY: all zero means that there are no ranges.
        unsafe { Box::new(std::mem::zeroed()) }
    }

    fn pages(from: usize, to: usize) -> Span {
        Span::new(from * PAGE, to * PAGE)
    }

    #[test]
    fn a_page_stays_protected_for_the_other_reason() {
        let mut protection = none();
        assert!(protection.begin_move(pages(0, 4)) && protection.hold(pages(2, 6)));
        assert!([0, 2, 4].iter().all(|page| !protection.is_open(page * PAGE)));
        assert_eq!(protection.first_not_held(pages(0, 4)), pages(0, 2), "may be written");
        assert!(protection.first_not_held(pages(2, 4)).is_empty());
        protection.end_move(pages(0, 4));
        assert!(protection.is_open(0) && !protection.is_open(2 * PAGE));
        protection.begin_move(pages(2, 4));
        assert_eq!(protection.released(pages(2, 6)), Some(0));
        assert!(!protection.is_open(2 * PAGE) && protection.is_open(4 * PAGE));
    }

    #[test]
    fn a_hold_begins_where_pages_arrive() {
        let mut protection = none();
        protection.arrived(13 * PAGE);
        assert!(protection.begin_hold(4 * PAGE, 70));
        assert_eq!(protection.hold_from(), 12 * PAGE);
        let step = pages(12, 16);
        assert!(protection.pass(step) && protection.hold(step));
        protection.arrived(0);
        assert!(!protection.begin_hold(4 * PAGE, 80), "one hold at a time");
        assert!(!protection.pass(step), "all of it is held");
        assert_eq!(protection.hold_from(), 16 * PAGE);
        protection.undo_hold(step);
        assert!(!protection.holds());
    }

    #[test]
    fn writers_are_released_in_turn() {
        let mut protection = none();
        protection.begin_hold(PAGE, 50);
        assert!(protection.hold(pages(0, 4)));
        assert_eq!(protection.next_to_release(2 * PAGE), Some(pages(0, 2)));
        assert_eq!(protection.released(pages(0, 2)), None);
        assert_eq!(protection.release_from(), 2 * PAGE);
        protection.hold(pages(0, 2));
        let next = protection.next_to_release(2 * PAGE).expect("some are held");
        assert_eq!((next, protection.released(next)), (pages(2, 4), None), "the turn goes on");
        protection.hold_again_from(2 * PAGE);
        assert_eq!(protection.hold_from(), 2 * PAGE);
        assert_eq!(protection.released(pages(0, 2)), Some(50));
        assert_eq!(protection.next_to_release(PAGE), None);
    }

    #[test]
    fn a_full_set_refuses_ranges() {
        let mut protection = none();
        assert!((0..MOST_AT_ONCE).all(|page| protection.begin_move(pages(2 * page, 2 * page + 1))));
        let next = pages(2 * MOST_AT_ONCE, 2 * MOST_AT_ONCE + 1);
        assert!(!protection.begin_move(next) && protection.is_open(next.start));
        assert_eq!(protection.first_moving(), Some(pages(0, 1)));
    }

    #[test]
    fn ranges_of_both_sets_are_passed_in_order() {
        let mut protection = none();
        assert!(protection.begin_move(pages(0, 4)) && protection.begin_move(pages(8, 9)));
        assert!(protection.hold(pages(2, 3)) && protection.hold(pages(5, 7)));
        let (mut at, mut passed) = (0, Vec::new());
        while let Some(span) = protection.next(at) {
            passed.push(span);
            at = span.end;
        }
        assert_eq!(passed, [pages(0, 4), pages(5, 7), pages(8, 9)], "all that is protected");
    }
}
