//! Page migration: moves the pages of the tasks by a policy of `memweir-policy`.
//!
//! A task's memory is divided into extents of pages of similar popularity, by the Zipf distribution
//! of its program. The traffic of a task in a quantum is distributed over its extents; the policy
//! decides which extents move; the engine copies them and charges the copies.

use memweir_core::{Bytes, JobId, Lines, MAX_MEDIA, Media, MediumId, Nanos, Traffic};
use memweir_policy::migration::{Extent, HotPages, MigrationView, Move};

use crate::machine::{Machine, View};
use crate::record::{Migration, Migrator, PageCopy, TaskQuantum};
use crate::task::Placement;
use crate::workload::pages::Popularity;

/// Extents of one task: enough to give a policy a choice, few enough to consider each.
pub const EXTENTS: usize = 64;

/// The extents of one task, the most popular first.
#[derive(Clone, Debug)]
pub struct TaskPages {
    /// Size of each extent.
    size: Bytes,
    /// Shares of the reads.
    reads: Vec<f64>,
    /// Shares of the writes.
    writes: Vec<f64>,
    /// Index of the memory of each extent.
    memory: Vec<usize>,
    /// Index of the memory that holds what is not in DRAM.
    elsewhere: usize,
    /// Traffic of the task since the last decision.
    moved: Traffic,
    /// True once the task has ended, and its memory is free.
    over: bool,
}

impl TaskPages {
    /// Creates the extents of a task, of which those with the numbers `inside` are in DRAM, the
    /// first memory, and the others in the memory `elsewhere`.
    #[must_use]
    pub fn new(popularity: &Popularity, inside: &[usize], elsewhere: usize) -> Self {
        let shares = |hotness: f64| popularity.shares(hotness, EXTENTS);
        let mut memory = vec![elsewhere; EXTENTS];
        for extent in inside {
            memory[*extent] = 0;
        }
        Self {
            size: Bytes((popularity.footprint.0 / EXTENTS as u64).max(1)),
            reads: shares(popularity.read_hotness),
            writes: shares(popularity.write_hotness),
            memory,
            elsewhere,
            moved: Traffic::default(),
            over: false,
        }
    }

    /// Returns the shares of the memories that follow from the placement of the extents.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placed(|extent| self.memory[extent])
    }

    /// Returns the placement with each extent in the memory that `memory` returns.
    fn placed(&self, memory: impl Fn(usize) -> usize) -> Placement {
        let sums = |shares: &[f64]| {
            let mut sums = [0.0; MAX_MEDIA];
            for (extent, share) in shares.iter().enumerate() {
                sums[memory(extent)] += share;
            }
            sums.map(|sum: f64| sum.min(1.0))
        };
        Placement { reads: sums(&self.reads), writes: sums(&self.writes) }
    }

    /// Returns the bytes in DRAM.
    #[must_use]
    pub fn inside(&self) -> Bytes {
        let extents = self.memory.iter().filter(|memory| **memory == 0).count();
        Bytes(self.size.0 * extents as u64)
    }

    /// Returns the part of the traffic that goes to an extent.
    fn traffic(&self, extent: usize) -> Traffic {
        let share = |lines: Lines, share: f64| Lines((lines.as_f64() * share).round() as u64);
        Traffic {
            reads: share(self.moved.reads, self.reads[extent]),
            writes: share(self.moved.writes, self.writes[extent]),
        }
    }
}

/// Moves pages as a migration policy decides.
pub struct Pager {
    policy: HotPages,
    media: Media,
    /// Medium of each memory.
    medium: Vec<MediumId>,
    /// Local DRAM for all tasks together.
    dram: Bytes,
    interval: Nanos,
    /// Time since the last decision.
    since: Nanos,
    /// Pages by task.
    pages: Vec<TaskPages>,
}

impl Pager {
    /// Creates the pager of these tasks on a machine of one node, where they share the local DRAM
    /// of size `dram`. It decides after every `interval`.
    #[must_use]
    pub fn new(
        machine: &Machine,
        policy: HotPages,
        dram: Bytes,
        interval: Nanos,
        pages: Vec<TaskPages>,
    ) -> Self {
        let view = View::new(machine);
        let medium = (0..machine.memories.len()).map(|memory| view.medium(0, memory)).collect();
        let media = view.media().clone();
        Self { policy, media, medium, dram, interval, since: Nanos::ZERO, pages }
    }

    /// Returns the moves that the policy chooses, by numbers of extents over all tasks.
    fn decide(&mut self) -> Vec<Move> {
        let numbers: Vec<usize> = (0..self.pages.len() * EXTENTS)
            .filter(|number| !self.pages[number / EXTENTS].over)
            .collect();
        let extents: Vec<Extent> = numbers.iter().map(|number| self.extent(*number)).collect();
        let view = MigrationView {
            elapsed: self.since,
            extents: &extents,
            dram_capacity: self.dram,
            media: &self.media,
        };
        let mut moves = Vec::new();
        self.policy.decide(&view, &mut moves);
        for one in &mut moves {
            one.extent = numbers[one.extent];
        }
        moves
    }

    fn extent(&self, number: usize) -> Extent {
        let (task, extent) = (number / EXTENTS, number % EXTENTS);
        let pages = &self.pages[task];
        Extent {
            job: JobId(task as u32),
            number: extent as u32,
            size: pages.size,
            medium: self.medium[pages.memory[extent]],
            traffic: pages.traffic(extent),
        }
    }

    /// Performs the moves and returns the copies to make for each task.
    fn make(&mut self, moves: &[Move]) -> Vec<Migration> {
        let mut migrations: Vec<Migration> = Vec::new();
        for one in moves {
            let (task, extent) = (one.extent / EXTENTS, one.extent % EXTENTS);
            let Some(to) = self.medium.iter().position(|medium| *medium == one.to) else {
                continue;
            };
            let pages = &mut self.pages[task];
            let from = std::mem::replace(&mut pages.memory[extent], to);
            let copy = PageCopy { from, to, bytes: pages.size };
            let placement = pages.placement();
            let task = JobId(task as u32);
            match migrations.iter_mut().find(|migration| migration.task == task) {
                Some(migration) => {
                    migration.placement = placement;
                    migration.copies.push(copy);
                }
                None => migrations.push(Migration { task, placement, copies: vec![copy] }),
            }
        }
        migrations
    }
}

impl Migrator for Pager {
    fn migrate(&mut self, elapsed: Nanos, tasks: &[TaskQuantum]) -> Vec<Migration> {
        for task in tasks {
            self.pages[task.task.index()].moved +=
                Traffic { reads: task.counts.reads, writes: task.counts.writes };
        }
        self.since += elapsed;
        if self.since < self.interval {
            return Vec::new();
        }
        let moves = self.decide();
        self.since = Nanos::ZERO;
        for pages in &mut self.pages {
            pages.moved = Traffic::default();
        }
        self.make(&moves)
    }

    fn ended(&mut self, task: JobId) {
        if let Some(pages) = self.pages.get_mut(task.index()) {
            pages.over = true;
        }
    }

    fn alone(&self, task: JobId) -> Option<Placement> {
        let pages = self.pages.get(task.index())?;
        let inside = self.dram.0 / pages.size.0;
        let memory = |extent| if (extent as u64) < inside { 0 } else { pages.elsewhere };
        Some(pages.placed(memory))
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::medium::MediumKind;
    use memweir_core::{BytesPerSec, Counts, Picos};
    use memweir_policy::migration::HotPageRules;

    use super::*;
    use crate::machine::Memory;

    fn pages(inside: &[usize]) -> TaskPages {
        let popularity = Popularity {
            footprint: Bytes(64 << 20),
            read_hotness: 1.0,
            write_hotness: 0.0,
            seed: 1,
        };
        TaskPages::new(&popularity, inside, 1)
    }

    #[test]
    fn traffic_of_a_task_is_distributed_over_its_extents() {
        let mut pages = pages(&[]);
        pages.moved = Traffic { reads: Lines(1_000_000), writes: Lines(640_000) };
        let all: Vec<Traffic> = (0..EXTENTS).map(|extent| pages.traffic(extent)).collect();
        let sum = |of: fn(&Traffic) -> Lines| all.iter().map(of).sum::<Lines>().0;
        assert!(sum(|traffic| traffic.reads).abs_diff(1_000_000) <= EXTENTS as u64 / 2);
        assert_eq!(all[63].writes, Lines(10_000), "writes are even");
        assert!(all[0].reads > all[63].reads);
    }

    /// A pager of 32 MiB of DRAM beside NVM, which decides every half of a second.
    fn pager(tasks: Vec<TaskPages>) -> Pager {
        let mut machine = Machine::uniform("m", 1, BytesPerSec::from_gb(10.0));
        let latency = Picos::from_nanos(100);
        machine.memories.push(Memory {
            name: "nvm".to_owned(),
            kind: MediumKind::Nvm,
            read_latency: latency,
            write_latency: latency,
            ..machine.memories[0].clone()
        });
        let policy = HotPages::new(HotPageRules::default());
        Pager::new(&machine, policy, Bytes(32 << 20), Nanos::from_millis(500), tasks)
    }

    /// Record of a task that read `lines` in a quantum of 100 ms.
    fn quantum(task: u32, lines: u64) -> TaskQuantum {
        TaskQuantum {
            progress: Nanos::ZERO,
            task: JobId(task),
            chosen: true,
            running: Nanos::from_millis(100),
            cpu_time: Nanos::from_millis(100),
            counts: Counts::new(0, Lines(lines), Lines(0)),
            predicted: None,
            placement: Placement::default(),
            node: 0,
        }
    }

    #[test]
    fn decisions_come_once_per_interval() {
        let coldest: Vec<usize> = (EXTENTS / 2..EXTENTS).collect();
        let mut pager = pager(vec![pages(&coldest)]);
        let elapsed = Nanos::from_millis(100);
        for _ in 0..4 {
            assert!(pager.migrate(elapsed, &[quantum(0, 10_000_000)]).is_empty());
        }
        let migrations = pager.migrate(elapsed, &[quantum(0, 10_000_000)]);
        assert_eq!(migrations.len(), 1, "all moves of a task are one migration");
        let copies = &migrations[0].copies;
        // DRAM is full, so each page that comes in displaces another.
        let to = |memory: usize| copies.iter().filter(|copy| copy.to == memory).count();
        assert!(to(0) > 0 && to(0) == to(1), "{copies:?}");
        assert_eq!(migrations[0].placement, pager.pages[0].placement());
        assert!(pager.migrate(elapsed, &[quantum(0, 10_000_000)]).is_empty());
    }

    #[test]
    fn the_memory_of_a_task_that_has_ended_is_free() {
        let half: Vec<usize> = (0..EXTENTS / 2).collect();
        let mut pager = pager(vec![pages(&half), pages(&[])]);
        pager.ended(JobId(0));
        let migrations = pager.migrate(Nanos::from_millis(1000), &[quantum(1, 100_000_000)]);
        let tasks: Vec<JobId> = migrations.iter().map(|migration| migration.task).collect();
        assert_eq!(tasks, [JobId(1)], "nothing is displaced");
        assert!(migrations[0].copies.iter().all(|copy| copy.to == 0));
    }

    #[test]
    fn alone_a_task_has_its_hottest_pages_in_dram() {
        let machine = Machine::uniform("m", 1, BytesPerSec::from_gb(10.0));
        let policy = HotPages::new(HotPageRules::default());
        let tasks = vec![pages(&[1, 3]), pages(&[])];
        assert_eq!(tasks[0].inside(), Bytes(2 << 20));
        let pager = Pager::new(&machine, policy, Bytes(2 << 20), Nanos::MILLI, tasks);
        for task in [JobId(0), JobId(1)] {
            assert_eq!(pager.alone(task), Some(pages(&[0, 1]).placement()));
        }
        assert_eq!(pager.alone(JobId(2)), None);
    }
}
