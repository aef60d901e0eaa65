//! Admission of new memory: freely, or by credit while memory is short.

use crate::page::budget::{Budget, Stage};
use crate::page::spans::Span;
use crate::uffd::PAGE;

/// Access to new memory, which can be made to wait.
pub(in crate::page::pager) trait Watch {
    /// Makes accesses to new memory of the range wait.
    fn watch(&mut self, range: Span);
    /// Does the same for all memory.
    fn watch_all(&mut self);
    /// Returns a range that became known since the last call.
    fn next_fresh(&mut self) -> Option<Span>;
    /// Returns true if some ranges that became known had no room.
    fn missed_fresh(&mut self) -> bool;
}

/// The state of admission.
///
/// Memory that was short once may become short again, so stages are entered in their order and none
/// is left. From [`Stage::Pressed`] on, accesses to new memory wait until it is given; the *credit*
/// are the pages that may come nevertheless, because they were given and perhaps not used.
///
/// The program reports that its writable memory grows beyond a limit before it uses the new memory.
/// If memory cannot become short before that, the report covers the growth, and the helper needs no
/// frequent checks. Pages that are not reported, such as those of a stack, may still exceed the
/// limit; once they have, the helper checks more often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admission {
    stage: Stage,
    credit: usize,
    report_covers_growth: bool,
    /// Pages in DRAM that this process can have before its next report.
    limit: usize,
    limit_was_exceeded: bool,
}

impl Admission {
    /// The state at the start: the kernel manages all memory.
    pub(super) const FREE: Self = Self {
        stage: Stage::Ample,
        credit: 0,
        report_covers_growth: false,
        limit: 0,
        limit_was_exceeded: false,
    };

    pub(super) const fn stage(&self) -> Stage {
        self.stage
    }

    /// Enters a stage, unless a later one was entered already.
    pub(super) fn enter(&mut self, stage: Stage) {
        self.stage = self.stage.max(stage);
    }

    /// Returns true if new memory is given by credit.
    pub(super) fn is_by_credit(&self) -> bool {
        self.stage >= Stage::Pressed
    }

    /// Returns the pages that may come although accesses to new memory wait.
    pub(super) const fn credit(&self) -> usize {
        self.credit
    }

    /// Gives pages by credit.
    pub(super) fn give(&mut self, pages: usize) {
        self.credit += pages;
    }

    /// Counts all pages that the program can have as given: from now on, new memory waits.
    pub(super) fn give_all(&mut self, reach: usize) {
        self.credit = reach;
    }

    /// Withdraws the credit: accesses to all memory that was given and not used wait.
    pub(super) fn withdraw(&mut self, watch: &mut impl Watch) {
        self.credit = 0;
        watch.watch_all();
    }

    /// Counts memory that became known since as given if it is not watched, and otherwise makes
    /// accesses to it wait.
    pub(super) fn see_fresh(&mut self, watch: &mut impl Watch) {
        if !self.is_by_credit() {
            return;
        }
        while let Some(span) = watch.next_fresh() {
            if self.report_covers_growth {
                self.give(span.length() / PAGE);
            } else {
                watch.watch(span);
            }
        }
        if watch.missed_fresh() {
            self.withdraw(watch);
        }
    }

    /// Returns the pages that this process can have before it reports new memory, if `resident` are
    /// in DRAM, `writable` are the pages of address space, `unwatched` those that were not watched
    /// when they became known, and `shut` those that were made unwritable.
    pub(super) fn reach(
        &self,
        resident: usize,
        writable: usize,
        unwatched: usize,
        shut: usize,
    ) -> usize {
        match self.is_by_credit() {
            false => writable,
            // There cannot be more pages than address space, whatever was given.
            true => (resident + self.credit + unwatched).min(writable + shut),
        }
    }

    /// Returns true if memory cannot become short before the program reports new memory.
    pub(super) const fn report_covers_growth(&self) -> bool {
        self.report_covers_growth
    }

    /// Compares the pages in DRAM with the limit.
    pub(super) fn check_limit(&mut self, resident: usize) {
        self.limit_was_exceeded |= self.report_covers_growth && resident > self.limit;
    }

    /// Sets the limit to `room` pages above the current `reach`. With less room than `least`, the
    /// program would report all the time, so the helper checks instead.
    pub(super) fn set_limit(&mut self, reach: usize, room: usize, least: usize) {
        self.report_covers_growth = room >= least;
        self.limit = reach + room;
    }

    /// Returns the microseconds until the next check, if all processes have `resident` pages in
    /// DRAM and can have `reach` before they report.
    pub(super) fn pause(&self, budget: Budget, resident: usize, reach: usize) -> usize {
        match self.report_covers_growth {
            true if self.limit_was_exceeded => Budget::PAUSE_IF_EXCEEDED,
            true => budget.pause_until_report(reach, self.stage),
            false => budget.pause(resident, self.stage),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 MiB.
    const BUDGET: Budget = Budget::new(16_384, 2);

    /// New memory that became known, and what was made to wait.
    #[derive(Default)]
    struct Fresh {
        spans: Vec<Span>,
        missed: bool,
        watched: Vec<Span>,
        all: bool,
    }

    impl Watch for Fresh {
        fn watch(&mut self, range: Span) {
            self.watched.push(range);
        }

        fn watch_all(&mut self) {
            self.all = true;
        }

        fn next_fresh(&mut self) -> Option<Span> {
            self.spans.pop()
        }

        fn missed_fresh(&mut self) -> bool {
            std::mem::take(&mut self.missed)
        }
    }

    #[test]
    fn no_stage_is_left() {
        let mut admission = Admission::FREE;
        admission.enter(Stage::Small);
        assert!(!admission.is_by_credit());
        admission.enter(Stage::Over);
        admission.enter(Stage::Pressed);
        assert_eq!(admission.stage(), Stage::Over);
        assert!(admission.is_by_credit());
    }

    #[test]
    fn credit_counts_towards_the_reach_up_to_the_address_space() {
        let mut admission = Admission::FREE;
        admission.give(50);
        assert_eq!(admission.reach(100, 1000, 7, 3), 1000, "all of it may come");
        admission.enter(Stage::Pressed);
        assert_eq!(admission.reach(100, 1000, 7, 3), 157);
        assert_eq!(admission.reach(100, 120, 7, 3), 123);
        admission.give_all(900);
        admission.give(1);
        assert_eq!(admission.credit(), 901);
        let mut fresh = Fresh::default();
        admission.withdraw(&mut fresh);
        assert_eq!(admission.reach(100, 1000, 7, 3), 107);
        assert!(fresh.all, "what was given and not used waits");
    }

    #[test]
    fn fresh_memory_waits_or_counts_as_given() {
        let span = Span::of(0, 3 * PAGE);
        let fresh = || Fresh { spans: vec![span], ..Fresh::default() };
        let mut admission = Admission::FREE;
        let mut early = fresh();
        admission.see_fresh(&mut early);
        assert_eq!((early.spans.len(), admission.credit()), (1, 0), "nothing waits yet");
        admission.enter(Stage::Pressed);
        let mut pressed = fresh();
        admission.see_fresh(&mut pressed);
        assert_eq!((pressed.watched, admission.credit()), (vec![span], 0));
        admission.set_limit(0, 50, 50);
        let mut covered = fresh();
        admission.see_fresh(&mut covered);
        assert_eq!((covered.watched.len(), admission.credit()), (0, 3));
        admission.see_fresh(&mut Fresh { missed: true, ..Fresh::default() });
        assert_eq!(admission.credit(), 0, "some may be neither given nor watched");
    }

    #[test]
    fn checks_are_more_frequent_once_the_limit_was_exceeded() {
        let mut admission = Admission::FREE;
        assert_eq!(admission.pause(BUDGET, 1 << 20, 0), BUDGET.pause(1 << 20, Stage::Ample));
        admission.set_limit(100, 49, 50);
        assert!(!admission.report_covers_growth());
        admission.check_limit(1 << 20);
        admission.set_limit(100, 50, 50);
        assert!(admission.report_covers_growth());
        admission.check_limit(150);
        assert_eq!(admission.pause(BUDGET, 0, 0), BUDGET.pause_until_report(0, Stage::Ample));
        admission.check_limit(151);
        assert_eq!(admission.pause(BUDGET, 0, 0), Budget::PAUSE_IF_EXCEEDED);
    }
}
