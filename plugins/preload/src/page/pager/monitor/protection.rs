//! The ranges in which writes wait, and the reasons.

use crate::page::budget::MOST_AT_ONCE;
use crate::page::spans::{Span, Spans};

/// Ranges in which writers can be stalled.
const STALLED: usize = 1024;

/// The write-protected ranges: those whose pages are being moved to another place (step 1 of the
/// [argument](crate::page) that no write is lost), and those whose writers are stalled until there
/// is room. All zero means that there are none.
///
/// A page is protected as long as it is in either set. So a range that was moved becomes writable
/// only where no writer is stalled, and a writer that waits for a page of neither set is to be
/// woken.
#[repr(C)]
pub(in crate::page::pager) struct Protection {
    moving: Spans<MOST_AT_ONCE>,
    stalled: Spans<STALLED>,
    /// Time at which the first writers were stalled, in nanoseconds.
    stalled_since: u64,
    /// Address of the next range to protect while writers are stalled.
    stall_from: usize,
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
        let both = [self.moving.next(address), self.stalled.next(address)];
        both.into_iter().flatten().min_by_key(|span| span.start)
    }

    /// Returns true if no writer of the page has to wait.
    pub(super) fn is_open(&self, page: usize) -> bool {
        self.moving.at(page).is_none() && !self.is_stalled(page)
    }

    /// Returns true if writers of the page are stalled.
    pub(in crate::page::pager) fn is_stalled(&self, page: usize) -> bool {
        self.stalled.at(page).is_some()
    }

    /// Returns true if any writers are stalled.
    pub(in crate::page::pager) const fn any_stalled(&self) -> bool {
        self.stalled.count() > 0
    }

    /// Returns the first part of a range in which no writers are stalled; empty if there is none.
    pub(super) fn first_not_stalled(&self, range: Span) -> Span {
        self.stalled.first_out(range)
    }

    /// Records the page that was last found in DRAM, or that a writer last waited for: the next
    /// stall starts there.
    pub(super) fn arrived(&mut self, page: usize) {
        self.arrived_at = page;
    }

    /// Starts to stall writers at `now`, in nanoseconds, from the multiple of `step` below the page
    /// that arrived last. Returns false if writers are stalled already.
    pub(super) fn begin_stall(&mut self, step: usize, now: u64) -> bool {
        let begins = !self.any_stalled();
        if begins {
            (self.stalled_since, self.stall_from) = (now, self.arrived_at / step * step);
        }
        begins
    }

    /// Returns the address from which further writers are to be stalled.
    pub(super) const fn stall_from(&self) -> usize {
        self.stall_from
    }

    /// Goes on behind `step`; returns true if not all of its writers are stalled.
    pub(super) fn pass(&mut self, step: Span) -> bool {
        self.stall_from = step.end;
        !self.stalled.first_out(step).is_empty()
    }

    /// Records that the writers of a range are stalled; returns false if there is no room.
    pub(super) fn stall(&mut self, range: Span) -> bool {
        self.stalled.insert(range)
    }

    /// Takes [`stall`](Self::stall) back, because the kernel refused the protection.
    pub(super) fn undo_stall(&mut self, range: Span) {
        self.stalled.remove(range);
    }

    /// Returns the address from which writers are released next.
    pub(in crate::page::pager) const fn release_from(&self) -> usize {
        self.release_from
    }

    /// Returns the next range of at most `step` bytes to release: behind the one that was released
    /// last, so that no writer waits forever.
    pub(super) fn next_to_release(&self, step: usize) -> Option<Span> {
        self.stalled.part_behind(self.release_from, step)
    }

    /// Records that the writers of a range were released. Returns the start of the stall, in
    /// nanoseconds, if they were the last.
    pub(super) fn released(&mut self, range: Span) -> Option<u64> {
        self.stalled.remove(range);
        self.release_from = range.end;
        (!self.any_stalled()).then_some(self.stalled_since)
    }

    /// Makes the ranges behind `address`, which were just released, the first to be stalled again.
    pub(super) fn stall_again_from(&mut self, address: usize) {
        self.stall_from = address;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn pages(from: usize, to: usize) -> Span {
        Span::new(from * PAGE, to * PAGE)
    }

    #[test]
    fn a_page_stays_protected_for_the_other_reason() {
        let mut protection = crate::all_zero::<Protection>();
        assert!(protection.begin_move(pages(0, 4)) && protection.stall(pages(2, 6)));
        assert!([0, 2, 4].iter().all(|page| !protection.is_open(page * PAGE)));
        assert_eq!(protection.first_not_stalled(pages(0, 4)), pages(0, 2), "may be written");
        assert!(protection.first_not_stalled(pages(2, 4)).is_empty());
        protection.end_move(pages(0, 4));
        assert!(protection.is_open(0) && !protection.is_open(2 * PAGE));
        protection.begin_move(pages(2, 4));
        assert_eq!(protection.released(pages(2, 6)), Some(0));
        assert!(!protection.is_open(2 * PAGE) && protection.is_open(4 * PAGE));
    }

    #[test]
    fn a_hold_begins_where_pages_arrive() {
        let mut protection = crate::all_zero::<Protection>();
        protection.arrived(13 * PAGE);
        assert!(protection.begin_stall(4 * PAGE, 70));
        assert_eq!(protection.stall_from(), 12 * PAGE);
        let step = pages(12, 16);
        assert!(protection.pass(step) && protection.stall(step));
        protection.arrived(0);
        assert!(!protection.begin_stall(4 * PAGE, 80), "one stall at a time");
        assert!(!protection.pass(step), "all of it is stalled");
        assert_eq!(protection.stall_from(), 16 * PAGE);
        protection.undo_stall(step);
        assert!(!protection.any_stalled());
    }

    #[test]
    fn writers_are_released_in_turn() {
        let mut protection = crate::all_zero::<Protection>();
        protection.begin_stall(PAGE, 50);
        assert!(protection.stall(pages(0, 4)));
        assert_eq!(protection.next_to_release(2 * PAGE), Some(pages(0, 2)));
        assert_eq!(protection.released(pages(0, 2)), None);
        assert_eq!(protection.release_from(), 2 * PAGE);
        protection.stall(pages(0, 2));
        let next = protection.next_to_release(2 * PAGE).expect("some are stalled");
        assert_eq!((next, protection.released(next)), (pages(2, 4), None), "the turn goes on");
        protection.stall_again_from(2 * PAGE);
        assert_eq!(protection.stall_from(), 2 * PAGE);
        assert_eq!(protection.released(pages(0, 2)), Some(50));
        assert_eq!(protection.next_to_release(PAGE), None);
    }

    #[test]
    fn a_full_set_refuses_ranges() {
        let mut protection = crate::all_zero::<Protection>();
        assert!((0..MOST_AT_ONCE).all(|page| protection.begin_move(pages(2 * page, 2 * page + 1))));
        let next = pages(2 * MOST_AT_ONCE, 2 * MOST_AT_ONCE + 1);
        assert!(!protection.begin_move(next) && protection.is_open(next.start));
        assert_eq!(protection.first_moving(), Some(pages(0, 1)));
    }

    #[test]
    fn ranges_of_both_sets_are_passed_in_order() {
        let mut protection = crate::all_zero::<Protection>();
        assert!(protection.begin_move(pages(0, 4)) && protection.begin_move(pages(8, 9)));
        assert!(protection.stall(pages(2, 3)) && protection.stall(pages(5, 7)));
        let (mut at, mut passed) = (0, Vec::new());
        while let Some(span) = protection.next(at) {
            passed.push(span);
            at = span.end;
        }
        assert_eq!(passed, [pages(0, 4), pages(5, 7), pages(8, 9)], "all that is protected");
    }
}
