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
/// The helper is *at ease* if memory cannot become short before the program reports new writable
/// memory. Then there is an agreed number of pages that this process can have until then. If there
/// were more once, the helper stays wary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admission {
    stage: Stage,
    credit: usize,
    at_ease: bool,
    agreed: usize,
    surprised: bool,
}

impl Admission {
    /// The state at the start: the kernel manages all memory.
    pub(super) const FREE: Self =
        Self { stage: Stage::Ample, credit: 0, at_ease: false, agreed: 0, surprised: false };

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
            if self.at_ease { self.give(span.length() / PAGE) } else { watch.watch(span) }
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

    /// Returns true if memory cannot become short before the program reports.
    pub(super) const fn is_at_ease(&self) -> bool {
        self.at_ease
    }

    /// Compares the pages in DRAM with the agreed number.
    pub(super) fn notice(&mut self, resident: usize) {
        self.surprised |= self.at_ease && resident > self.agreed;
    }

    /// Agrees that the program reports before it adds more than `room` pages to the `reach` that it
    /// has already. With less than `least`, it would report all the time.
    pub(super) fn agree(&mut self, reach: usize, room: usize, least: usize) {
        self.at_ease = room >= least;
        self.agreed = reach + room;
    }

    /// Returns the microseconds until the next check, if all processes have `resident` pages in
    /// DRAM and can have `reach` before they report.
    pub(super) fn pause(&self, budget: Budget, resident: usize, reach: usize) -> usize {
        match self.at_ease {
            true if self.surprised => Budget::PAUSE_WARY,
            true => budget.pause_at_ease(reach, self.stage),
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
        admission.agree(0, 50, 50);
        let mut at_ease = fresh();
        admission.see_fresh(&mut at_ease);
        assert_eq!((at_ease.watched.len(), admission.credit()), (0, 3));
        admission.see_fresh(&mut Fresh { missed: true, ..Fresh::default() });
        assert_eq!(admission.credit(), 0, "some may be neither given nor watched");
    }

    #[test]
    fn a_surprise_makes_checks_at_ease_more_frequent() {
        let mut admission = Admission::FREE;
        assert_eq!(admission.pause(BUDGET, 1 << 20, 0), BUDGET.pause(1 << 20, Stage::Ample));
        admission.agree(100, 49, 50);
        assert!(!admission.is_at_ease());
        admission.notice(1 << 20);
        admission.agree(100, 50, 50);
        assert!(admission.is_at_ease());
        admission.notice(150);
        assert_eq!(admission.pause(BUDGET, 0, 0), BUDGET.pause_at_ease(0, Stage::Ample));
        admission.notice(151);
        assert_eq!(admission.pause(BUDGET, 0, 0), Budget::PAUSE_WARY);
    }
}
