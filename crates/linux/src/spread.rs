//! Spreading the threads of the chosen jobs over the processors.
//!
//! A group that is thawed wakes its threads one after the other, and the kernel chooses a processor
//! for each from what it sees at that moment. The processor that does the thawing looks busy until
//! memweir sleeps, so two jobs often wake up on one processor and take turns there, while another
//! has nothing to do. The kernel's load balancer comes milliseconds later, or after the quantum.
//!
//! Which jobs run is decided elsewhere, and so is [binding](crate::affinity) them: a thread that is
//! moved here may go wherever it could go before.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use memweir_abi::kernel::stat::StatLine;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::topology;

/// Number of the field of `/proc/TID/stat` with the processor on which a thread last was.
const PROCESSOR: usize = 39;

/// With more threads than this for each processor the kernel's balancer has enough to choose from,
/// and a look at all of them would take too long.
const MOST_PER_CPU: usize = 4;

/// Time after which threads that woke up only to sleep on are out of the way, such as those of a
/// shell that waits for its child.
const SETTLE: Duration = Duration::from_micros(200);

/// Waits for a moment, then moves runnable threads that share a processor to processors that have
/// none of these threads, of those that this process may use. Returns how many were moved.
///
/// The affinity of a thread stays as it was; one that forbids the move is respected. If memweir is
/// killed between the two system calls that move a thread, the thread stays on that processor.
pub fn spread(threads: &[i32]) -> usize {
    let Ok(cpus) = topology::allowed_cpus() else { return 0 };
    if threads.len() < 2 || threads.len() > MOST_PER_CPU * cpus.len() {
        return 0;
    }
    thread::sleep(SETTLE);
    let runnable: Vec<Runnable> = threads.iter().filter_map(|thread| runnable(*thread)).collect();
    let may_go = |thread: i32, cpu: usize| {
        sched_getaffinity(Pid::from_raw(thread)).is_ok_and(|set| set.is_set(cpu).unwrap_or(false))
    };
    let moves = moves(&runnable, &cpus, may_go);
    moves.into_iter().filter(|(thread, cpu)| migrate(*thread, *cpu).is_ok()).count()
}

/// A thread that runs or waits for a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Runnable {
    thread: i32,
    cpu: usize,
}

/// Returns where a thread is; `None` if it sleeps or is gone.
fn runnable(thread: i32) -> Option<Runnable> {
    let line = fs::read(format!("/proc/{thread}/stat")).ok()?;
    let line = StatLine::of(&line)?;
    // W: it has been woken, and its new processor does not know yet.
    let runs = matches!(line.field(3)?, b"R" | b"W");
    runs.then_some(Runnable { thread, cpu: line.number(PROCESSOR)? })
}

/// Returns the threads that are to move, and the processors to which they do.
fn moves(
    runnable: &[Runnable],
    cpus: &[usize],
    may_go: impl Fn(i32, usize) -> bool,
) -> Vec<(i32, usize)> {
    let mut on: BTreeMap<usize, Vec<i32>> = BTreeMap::new();
    for Runnable { thread, cpu } in runnable {
        on.entry(*cpu).or_default().push(*thread);
    }
    let mut empty: Vec<usize> = cpus.iter().copied().filter(|cpu| !on.contains_key(cpu)).collect();
    let mut moves = Vec::new();
    for (cpu, threads) in on {
        // Neighbors by number are mostly neighbors on the same chip.
        empty.sort_unstable_by_key(|other| cpu.abs_diff(*other));
        let all_but_one = threads.len() - 1;
        let movable = threads.into_iter().rev().filter_map(|thread| {
            let place = empty.iter().position(|other| may_go(thread, *other))?;
            Some((thread, empty.remove(place)))
        });
        moves.extend(movable.take(all_but_one));
    }
    moves
}

/// Moves a thread to a processor and leaves it free to go on to others.
fn migrate(thread: i32, cpu: usize) -> nix::Result<()> {
    let thread = Pid::from_raw(thread);
    let before = sched_getaffinity(thread)?;
    let mut there = CpuSet::new();
    there.set(cpu)?;
    sched_setaffinity(thread, &there)?;
    sched_setaffinity(thread, &before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(cpus: &[usize]) -> Vec<Runnable> {
        (0..).zip(cpus).map(|(thread, cpu)| Runnable { thread, cpu: *cpu }).collect()
    }

    #[test]
    fn threads_that_share_move_to_the_nearest_empty_processor() {
        let anywhere = |_, _| true;
        assert_eq!(moves(&at(&[0, 1]), &[0, 1], anywhere), []);
        assert_eq!(moves(&at(&[1, 1]), &[0, 1], anywhere), [(1, 0)]);
        assert_eq!(moves(&at(&[6, 6, 6]), &[0, 1, 5, 6, 7], anywhere), [(2, 5), (1, 7)]);
        // There are more threads than processors, and a processor that the batch may not use.
        assert_eq!(moves(&at(&[0, 0, 0]), &[0, 2], anywhere), [(2, 2)]);
        assert_eq!(moves(&at(&[0, 0]), &[0], anywhere), []);
        assert_eq!(moves(&at(&[3, 3]), &[0, 1], anywhere), [(1, 1)]);
    }

    #[test]
    fn bound_threads_stay_and_others_make_room_for_them() {
        let not_the_last = |thread: i32, _: usize| thread != 1;
        assert_eq!(moves(&at(&[0, 0]), &[0, 1], not_the_last), [(0, 1)]);
        let only_to_two = |_: i32, cpu: usize| cpu == 2;
        assert_eq!(moves(&at(&[0, 0, 0]), &[0, 1, 2], only_to_two), [(2, 2)]);
        assert_eq!(moves(&at(&[0, 0]), &[0, 1], |_, _| false), []);
    }

    /// Programs that compute until they are killed.
    struct Spinners(Vec<std::process::Child>);

    impl Spinners {
        fn start(count: usize) -> Self {
            let spin = || {
                std::process::Command::new("/bin/sh").args(["-c", "while :; do :; done"]).spawn()
            };
            Self((0..count).map(|_| spin().expect("a shell")).collect())
        }

        fn ids(&self) -> Vec<i32> {
            self.0.iter().map(|child| child.id() as i32).collect()
        }
    }

    impl Drop for Spinners {
        fn drop(&mut self) {
            for child in &mut self.0 {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    #[test]
    fn two_programs_on_one_processor_get_two() {
        let cpus = topology::allowed_cpus().unwrap();
        let [first, .., last] = cpus[..] else {
            return memweir_test_support::skip!(Processor, "there is one processor");
        };
        let spinners = Spinners::start(2);
        let ids = spinners.ids();
        let affinity = |id: &i32| sched_getaffinity(Pid::from_raw(*id)).unwrap();
        // The kernel may have parted them before they are looked at.
        let moved = (0..100).any(|_| {
            ids.iter().for_each(|id| migrate(*id, first).unwrap());
            spread(&ids) == 1
        });
        assert!(moved);
        let everywhere = sched_getaffinity(Pid::from_raw(0)).unwrap();
        assert!(ids.iter().all(|id| affinity(id) == everywhere));
        // One that is bound stays where it is.
        crate::affinity::bind_all(ids[1], &[last]).unwrap();
        let moved = (0..100).any(|_| {
            migrate(ids[0], last).unwrap();
            spread(&ids) == 1
        });
        assert!(moved);
        assert_eq!(runnable(ids[1]).map(|seen| seen.cpu), Some(last));
        // Nobody is left to move.
        assert_eq!(spread(&[i32::MAX, i32::MAX - 1]), 0);
    }
}
