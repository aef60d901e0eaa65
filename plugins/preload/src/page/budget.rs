//! When memory is short, how much has to leave it, and how soon to look again. Pure: all of it
//! follows from numbers of pages.

/// Pages that a thread can touch in a microsecond, at most: one fault takes longer.
const PAGES_PER_MICRO: usize = 1;
/// The same while faults may bring huge pages.
const HUGE_PAGES_PER_MICRO: usize = 10;
/// Pages that huge pages are given up for, however much the budget is.
const HUGE_MARGIN: usize = 1 << 14;
/// Pages that a thread fills in some tens of milliseconds, for which the helper may be kept from its
/// processor: a machine below this one may stop it, and others may come before it.
const STALL: usize = 1 << 15;
/// Bounds of the pause between looks, in microseconds.
const PAUSE: (usize, usize) = (100, 50_000);

/// How short memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Everything is left to the kernel.
    Ample,
    /// The same, without huge pages: they come too fast to count.
    Small,
    /// New memory is given by credit.
    Pressed,
    /// Pages leave.
    Over,
}

/// The DRAM of all processes of a tree together, in pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) pages: usize,
    /// Processors on which it can be filled.
    pub(crate) processors: usize,
}

impl Budget {
    /// Pages above which some leave.
    pub(crate) const fn high(self) -> usize {
        self.pages - self.pages / 64
    }

    /// Pages that are left then.
    const fn low(self) -> usize {
        self.pages - self.pages / 32
    }

    /// Pages above which who writes has to wait.
    pub(crate) const fn hold_above(self) -> usize {
        self.pages
    }

    /// Pages below which who waits goes on.
    pub(crate) const fn release_below(self) -> usize {
        self.pages - self.pages / 128
    }

    /// Pages above which new memory is given by credit. Until then it comes unasked.
    fn pressed_above(self) -> usize {
        self.pages - (self.pages / 2).min(STALL).max(self.pages / 8)
    }

    /// Pages that leave together: while they do nobody looks who fills memory.
    pub(crate) fn batch(self) -> usize {
        (self.pages / 256).clamp(8, 64)
    }

    /// Pages that are given at once: few beside the budget.
    pub(crate) fn window(self) -> usize {
        (self.pages / 128).next_power_of_two().clamp(16, 512)
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

    /// Pages that a process with `own` of all `total` pages has to evict.
    pub(crate) fn to_evict(self, own: usize, total: usize) -> usize {
        if total <= self.high() {
            return 0;
        }
        ((total - self.low()) * own).div_ceil(total).min(own)
    }

    /// Microseconds in which no threshold can be passed by much.
    pub(crate) fn pause(self, total: usize, stage: Stage) -> usize {
        let rate = match stage {
            Stage::Ample => HUGE_PAGES_PER_MICRO,
            _ => PAGES_PER_MICRO,
        };
        let next = match stage {
            Stage::Ample | Stage::Small => self.pressed_above(),
            Stage::Pressed | Stage::Over => self.hold_above() + self.pages / 64,
        };
        let room = next.saturating_sub(total);
        (room / (rate * self.processors.clamp(1, 8)) / 2).clamp(PAUSE.0, PAUSE.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 MiB.
    const BUDGET: Budget = Budget { pages: 16_384, processors: 2 };

    #[test]
    fn memory_becomes_short_by_stages() {
        let stages = [(0, Stage::Ample), (1, Stage::Small), (8_193, Stage::Pressed)];
        assert!(stages.iter().all(|(pages, stage)| BUDGET.stage(*pages) == *stage));
        assert_eq!((BUDGET.stage(16_128), BUDGET.stage(16_129)), (Stage::Pressed, Stage::Over));
        let large = Budget { pages: 1 << 20, processors: 2 };
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
        // What comes after the last look, beside what was given by credit, until writers are held.
        let slack = BUDGET.pages / 20;
        let pause = BUDGET.pause(BUDGET.hold_above(), Stage::Over);
        let comes = pause * PAGES_PER_MICRO * BUDGET.processors;
        assert!(BUDGET.hold_above() - BUDGET.pages + comes < slack, "{comes} of {slack}");
        assert!(BUDGET.window() * 4 < slack * 2);
    }

    #[test]
    fn looks_are_rare_while_there_is_much_room() {
        assert_eq!(Budget { pages: 1 << 24, processors: 2 }.pause(0, Stage::Ample), PAUSE.1);
        assert_eq!(BUDGET.pause(1 << 20, Stage::Over), PAUSE.0);
    }
}
