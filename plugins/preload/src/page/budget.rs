//! Decides when memory is short, how many pages must leave, and when to check again. Pure: all of
//! it follows from numbers of pages.

/// Pages that a thread can touch in a microsecond, at most: a fault takes longer.
const PAGES_PER_MICRO: usize = 1;
/// The same while faults may map huge pages, which have to be cleared: 16 GB/s.
const HUGE_PAGES_PER_MICRO: usize = 4;
/// Huge pages are given up at this many pages below the budget at the latest.
const HUGE_MARGIN: usize = 1 << 14;
/// Pages that a thread fills in some tens of milliseconds, for which the helper may be kept from
/// its processor: a hypervisor may stop it, and other threads may run first.
const STALL: usize = 1 << 15;
/// Pages that writes bring back between two checks: two threads, one page in two microseconds each.
/// While a batch leaves, they bring back two for each of its pages, which takes two microseconds.
const UNSEEN: usize = 100;
/// Pages that writes bring back while a chunk is being protected: in 20 to 75 microseconds in
/// virtual machines. A writer may be in the chunk that comes last.
const UNSEEN_PER_CHUNK: usize = 20;
/// Pages that writes bring back while the helper writes a huge page that the host of a virtual
/// machine has yet to provide: in ten milliseconds.
const STALL_UNSEEN: usize = 9000;
/// Pages that writes bring back while the helper waits for a page fault whose thread waits for a
/// processor: in half a millisecond.
const WAIT_UNSEEN: usize = 1000;
/// Most pages that are given by credit at once.
const MOST_CREDIT: usize = 1 << 13;
/// Most pages that leave together.
pub(crate) const MOST_AT_ONCE: usize = 256;
/// Pages that a stack may grow by without notice, before checks are as frequent as necessary.
const STACK: usize = 2048;
/// Bounds of the pause between checks, in microseconds.
const PAUSE: (usize, usize) = (100, 50_000);
/// Shorter pauses, for memory that may become short, cost more than giving credit does.
const TOO_OFTEN: usize = 2_000;

/// Degrees of memory shortage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The kernel manages all memory.
    Ample,
    /// The same, without huge pages: they come too fast to count.
    Small,
    /// New memory is given by credit.
    Pressed,
    /// Pages are evicted.
    Over,
}

/// The DRAM of all processes of a tree together, in pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) pages: usize,
    /// Processors whose threads can fill it.
    pub(crate) processors: usize,
    /// Chunks of a huge page that have to be protected one after the other.
    pub(crate) chunks: usize,
}

impl Budget {
    /// Creates the budget of a program of which nothing has left DRAM yet.
    pub(crate) const fn new(pages: usize, processors: usize) -> Self {
        Self { pages, processors, chunks: 0 }
    }

    /// Returns true if some milliseconds may pass without a check: the pages that arrive meanwhile
    /// are at most a twentieth of the budget.
    pub(crate) const fn can_absorb_stalls(self) -> bool {
        self.pages / 20 >= STALL_UNSEEN
    }

    /// Returns true if the helper may wait for page faults in progress, by the same measure.
    pub(crate) const fn can_absorb_fault_waits(self) -> bool {
        self.pages / 20 >= WAIT_UNSEEN
    }

    /// Returns true if more pages come between two checks than the budget may be exceeded by.
    const fn is_small(self) -> bool {
        self.pages / 20 < UNSEEN
    }

    /// Returns the number of resident pages above which some are evicted.
    pub(crate) fn high(self) -> usize {
        self.stall_above() - self.pages / 64
    }

    /// Returns the number of resident pages that are left then.
    fn low(self) -> usize {
        self.stall_above() - self.pages / 32
    }

    /// Returns the number of resident pages above which writers stall. If the budget is small, or
    /// small compared with the program, the number is lower, so that the pages that come until then
    /// exceed the budget by no more than a twentieth.
    pub(crate) fn stall_above(self) -> usize {
        let comes = UNSEEN.max(2 * self.batch()) + self.chunks * UNSEEN_PER_CHUNK;
        (self.pages + self.pages / 20).saturating_sub(comes).clamp(self.pages / 2, self.pages)
    }

    /// Returns the number of resident pages below which stalled writers continue.
    pub(crate) fn release_below(self) -> usize {
        self.stall_above() - self.pages / 128
    }

    /// Returns the number of resident pages above which new memory is given by credit. Below, it
    /// comes without a request, except for small budgets.
    fn pressed_above(self) -> usize {
        if self.is_small() {
            return 0;
        }
        self.pages - (self.pages / 2).min(STALL).max(self.pages / 8)
    }

    /// Returns the pages that can be added before a check is needed, if there can be `reach` pages
    /// already.
    pub(crate) fn room(self, reach: usize, stage: Stage) -> usize {
        let most = match stage {
            Stage::Ample | Stage::Small => self.pressed_above().saturating_sub(STACK),
            // Pages may come without notice as long as there is room for them.
            Stage::Pressed if !self.is_small() => self.high().saturating_sub(UNSEEN),
            Stage::Pressed | Stage::Over => 0,
        };
        most.saturating_sub(reach)
    }

    /// Returns the pages that unused credit of one of `processes` may take up, if there can be
    /// `reach` pages: its share of the room in which nothing has to be checked. A small budget,
    /// which has none, is checked all the time, so there the credit may take up all that is left.
    pub(crate) fn room_for_credit(self, reach: usize, processes: usize) -> usize {
        match self.is_small() {
            true => self.high().saturating_sub(reach),
            false => self.room(reach, Stage::Pressed) / processes.max(1),
        }
    }

    /// Returns the number of pages in a batch. While a batch leaves, nothing checks whether memory
    /// fills up. Waiting for faults and for TLB shootdowns takes as long for one page as for all.
    pub(crate) fn batch(self) -> usize {
        (self.pages / 256).clamp(8, MOST_AT_ONCE)
    }

    /// Returns the number of pages that are given at once: few compared with the budget.
    pub(crate) fn window(self) -> usize {
        (self.pages / 128).next_power_of_two().clamp(16, 512)
    }

    /// Returns the number of pages that are given at once while none has to leave and there can be
    /// `reach` of them: a quarter of the rest, so that some is left for other threads.
    pub(crate) fn credit(self, reach: usize) -> usize {
        let quarter = self.high().saturating_sub(reach) / 4;
        let whole = quarter.checked_ilog2().map_or(0, |log| 1 << log);
        whole.clamp(self.window(), MOST_CREDIT)
    }

    pub(crate) fn stage(self, total: usize) -> Stage {
        match total {
            _ if total > self.high() => Stage::Over,
            _ if total > self.pressed_above() => Stage::Pressed,
            _ if total > (self.pages / 4).min(self.pages.saturating_sub(HUGE_MARGIN)) => {
                Stage::Small
            }
            _ => Stage::Ample,
        }
    }

    /// Returns the number of pages that a process with `own` of all `total` pages has to evict.
    pub(crate) fn to_evict(self, own: usize, total: usize) -> usize {
        if total <= self.high() {
            return 0;
        }
        ((total - self.low()) * own).div_ceil(total).min(own)
    }

    /// Returns true if checks would have to be so frequent that it is better to give new memory by
    /// credit.
    pub(crate) fn is_near(self, total: usize, stage: Stage) -> bool {
        self.pause(total, stage) < TOO_OFTEN
    }

    /// Returns the least room that makes checks unnecessary: with less, the program would report
    /// new memory all the time.
    pub(crate) fn least_room(self) -> usize {
        self.window() / 8
    }

    /// Microseconds between checks if the program once had more pages than the limit before its
    /// report.
    pub(crate) const PAUSE_IF_EXCEEDED: usize = 10_000;

    /// Returns the microseconds between checks while the program's reports cover its growth: more
    /// if there is room for a stack, whose growth is not reported.
    pub(crate) fn pause_until_report(self, reach: usize, stage: Stage) -> usize {
        let ample = stage < Stage::Pressed || self.room(reach, stage) >= STACK;
        if ample { PAUSE.1 } else { Self::PAUSE_IF_EXCEEDED }
    }

    /// Returns the microseconds in which no threshold can be exceeded by much.
    pub(crate) fn pause(self, total: usize, stage: Stage) -> usize {
        let rate = match stage {
            Stage::Ample => HUGE_PAGES_PER_MICRO,
            _ => PAGES_PER_MICRO,
        };
        let next = match stage {
            Stage::Ample | Stage::Small => self.pressed_above(),
            Stage::Pressed | Stage::Over => self.stall_above() + self.pages / 64,
        };
        let room = next.saturating_sub(total);
        (room / (rate * self.processors.clamp(1, 8)) / 2).clamp(PAUSE.0, PAUSE.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 MiB.
    const BUDGET: Budget = Budget::new(16_384, 2);

    #[test]
    fn memory_becomes_short_by_stages() {
        let stages = [(0, Stage::Ample), (1, Stage::Small), (8_193, Stage::Pressed)];
        assert!(stages.iter().all(|(pages, stage)| BUDGET.stage(*pages) == *stage));
        assert_eq!((BUDGET.stage(16_128), BUDGET.stage(16_129)), (Stage::Pressed, Stage::Over));
        let large = Budget::new(1 << 20, 2);
        assert_eq!(
            (large.stage(1 << 18), large.stage((1 << 18) + 1)),
            (Stage::Ample, Stage::Small)
        );
        assert_eq!(
            (large.stage(7 << 17), large.stage((7 << 17) + 1)),
            (Stage::Small, Stage::Pressed)
        );
    }

    #[test]
    fn each_process_evicts_its_share() {
        assert_eq!(BUDGET.to_evict(16_128, 16_128), 0);
        // 16,384 - 15,872 pages have to go, half of them ours.
        assert_eq!(BUDGET.to_evict(8_192, 16_384), 256);
        assert_eq!(BUDGET.to_evict(1, 16_384), 1);
        assert_eq!(BUDGET.to_evict(0, 16_384), 0);
    }

    #[test]
    fn the_budget_is_kept_within_five_percent() {
        // Pages that come after the last check, besides those given by credit, until writers are
        // stalled.
        let slack = BUDGET.pages / 20;
        let pause = BUDGET.pause(BUDGET.stall_above(), Stage::Over);
        let comes = pause * PAGES_PER_MICRO * BUDGET.processors;
        assert!(BUDGET.stall_above() - BUDGET.pages + comes < slack, "{comes} of {slack}");
        assert!(BUDGET.window() * 4 < slack * 2);
    }

    #[test]
    fn small_budgets_leave_room_for_what_comes_unseen() {
        let small = |mib: usize| Budget::new(mib * 256, 2);
        // 256 + 12 - 100, 512 + 25 - 100, 1024 + 51 - 100 pages.
        assert_eq!([1, 2, 4].map(|mib| small(mib).stall_above()), [168, 437, 975]);
        assert_eq!(small(8).stall_above(), 2048, "a twentieth is 102 pages");
        // 4096 + 204 - 100 - 800, and no more than half less.
        assert_eq!(Budget { chunks: 40, ..small(16) }.stall_above(), 3400);
        assert_eq!(Budget { chunks: 1 << 20, ..small(16) }.stall_above(), 2048);
        // 16,384 + 819 - 128 - 800, and no more than the budget.
        assert_eq!(Budget { chunks: 40, ..small(64) }.stall_above(), 16_275);
        assert_eq!(Budget { chunks: 20, ..small(64) }.stall_above(), 16_384);
        assert_eq!(small(1).stage(1), Stage::Pressed, "from the start");
        assert_eq!(Budget::new(16, 2).stall_above(), 8);
    }

    #[test]
    fn batches_are_small_beside_the_budget() {
        let batch = |mib: usize| Budget::new(mib * 256, 2).batch();
        assert_eq!([1, 16, 64, 128, 256, 1024].map(batch), [8, 16, 64, 128, 256, 256]);
        // 128 MiB and 100 chunks: 32,768 + 1,638 - 256 - 2,000, and no more than the budget.
        let stalled = |chunks| Budget { chunks, ..Budget::new(1 << 15, 2) }.stall_above();
        assert_eq!([60, 100].map(stalled), [1 << 15, 32_150]);
    }

    #[test]
    fn nobody_has_to_look_as_long_as_address_space_is_little() {
        // Half of the budget, without what a stack may grow by.
        assert_eq!(BUDGET.room(0, Stage::Ample), 8_192 - 2_048);
        assert_eq!(
            [6_143, 6_144, 1 << 30].map(|reach| BUDGET.room(reach, Stage::Small)),
            [1, 0, 0]
        );
        let small = Budget::new(1024, 2);
        assert_eq!(small.room(0, Stage::Ample), 0, "new memory is by credit from the start");
        // Then all of it, except for the pages that leave early.
        assert_eq!(BUDGET.room(10_000, Stage::Pressed), 16_128 - 10_100);
        assert_eq!(small.room(0, Stage::Pressed), 0);
        assert_eq!(BUDGET.room(0, Stage::Over), 0);
    }

    #[test]
    fn checks_between_reports_are_rare_unless_a_stack_could_pass_the_budget() {
        let pause = |reach| BUDGET.pause_until_report(reach, Stage::Pressed);
        // 16,128 - 100 - 2,048.
        assert_eq!([13_980, 13_981].map(pause), [PAUSE.1, Budget::PAUSE_IF_EXCEEDED]);
        assert_eq!(BUDGET.pause_until_report(1 << 30, Stage::Small), PAUSE.1);
    }

    #[test]
    fn credit_comes_before_looks_are_too_frequent() {
        // Until 8,192 are there, 2 pages come in a microsecond, and half of the time is waited.
        assert!(!BUDGET.is_near(192, Stage::Small) && BUDGET.is_near(193, Stage::Small));
    }

    #[test]
    fn credit_falls_with_what_is_left() {
        // A quarter of 16,128 - 10,000 is 1,532.
        assert_eq!(BUDGET.credit(10_000), 1024);
        assert_eq!((BUDGET.credit(16_000), BUDGET.credit(1 << 30)), (128, 128), "the window");
        assert_eq!(Budget::new(1 << 24, 2).credit(0), MOST_CREDIT);
    }

    #[test]
    fn credit_of_a_small_budget_stays_until_it_would_exceed_the_budget() {
        // 975 - 16 pages are the most; a quarter of 959 - 90 is 217.
        let small = Budget::new(1024, 2);
        assert_eq!((small.credit(90), small.room_for_credit(90 + 128, 9)), (128, 741));
        assert_eq!(small.room_for_credit(960, 1), 0);
        for budget in (1..8).map(|mib| Budget::new(mib * 256, 2)) {
            for reach in 0..budget.high() {
                let credit = budget.credit(reach);
                let stays = budget.room_for_credit(reach + credit, 9) >= credit;
                assert!(stays || credit == budget.window(), "{budget:?} with {reach}");
            }
        }
        // 16,128 - 100 - 10,000, for three processes.
        assert_eq!(BUDGET.room_for_credit(10_000, 3), 2009);
    }

    #[test]
    fn looks_are_rare_while_there_is_much_room() {
        assert_eq!(Budget::new(1 << 24, 2).pause(0, Stage::Ample), PAUSE.1);
        assert_eq!(BUDGET.pause(1 << 20, Stage::Over), PAUSE.0);
    }
}
