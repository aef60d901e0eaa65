//! Budgets of jobs: lines that a job may draw from memory in each period.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Length of a period; `PERIOD_NS` in `bpf/memweir.bpf.c`.
pub const PERIOD: Duration = Duration::from_millis(1);

/// The part of the program that keeps budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budgets {
    /// It is not loaded: no slot can have a budget.
    Off,
    /// It is loaded. From the first limit on, a timer begins each period.
    On,
}

/// A perf event that counts a job on one CPU.
#[derive(Debug)]
pub struct Counter {
    /// The event, whose overflows the scheduler takes over.
    pub event: OwnedFd,
    /// Lines that each overflow stands for.
    pub lines: u32,
}

/// The lines that a job has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Lines that were counted.
    pub lines: u64,
    /// The most that counted in one period, with what the job had used beyond its budget before.
    pub most: u32,
    /// Periods in which the budget was used up.
    pub exhausted: u64,
}

/// `struct budget` in `bpf/memweir.bpf.c`.
#[cfg_attr(not(feature = "libbpf"), allow(dead_code))]
#[repr(C)]
pub(crate) struct Account {
    limit: AtomicU32,
    most: AtomicU32,
    used: AtomicU64,
    lines: AtomicU64,
    exhausted: AtomicU64,
}

#[cfg_attr(not(feature = "libbpf"), allow(dead_code))]
impl Account {
    /// Limits a job to so many lines in each period, 0 for no limit.
    pub(crate) fn limit(&self, lines: u32) {
        self.limit.store(lines, Ordering::Relaxed);
    }

    /// Begins the account of another job, without a limit.
    pub(crate) fn clear(&self) {
        for counter in [&self.used, &self.lines, &self.exhausted] {
            counter.store(0, Ordering::Relaxed);
        }
        self.most.store(0, Ordering::Relaxed);
        self.limit(0);
    }

    /// Returns what the job has used.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            lines: self.lines.load(Ordering::Relaxed),
            most: self.most.load(Ordering::Relaxed),
            exhausted: self.exhausted.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_program() {
        let source = include_str!("../bpf/memweir.bpf.c");
        assert!(source.contains(&format!("#define PERIOD_NS {}\n", PERIOD.as_nanos())));
        let fields = ["u32 limit;", "u32 most;", "u64 used;", "u64 lines;", "u64 exhausted;"];
        let places: Vec<usize> =
            fields.iter().map(|field| source.find(&format!("\t{field}\n")).unwrap()).collect();
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(std::mem::size_of::<Account>(), 32);
    }

    #[test]
    fn the_account_of_another_job_begins_at_nothing() {
        let account = Account {
            limit: AtomicU32::new(1),
            most: AtomicU32::new(2),
            used: AtomicU64::new(3),
            lines: AtomicU64::new(4),
            exhausted: AtomicU64::new(5),
        };
        assert_eq!(account.usage(), Usage { lines: 4, most: 2, exhausted: 5 });
        account.clear();
        assert_eq!(account.usage(), Usage::default());
        assert_eq!(account.limit.into_inner(), 0);
        assert_eq!(account.used.into_inner(), 0);
    }
}
