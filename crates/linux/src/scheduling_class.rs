//! Giving tasks to the scheduling class of BPF schedulers.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use crate::cgroup::{self, Version};
use crate::files::Files;

/// Gives one thread the policy `SCHED_EXT`; threads and children that it creates inherit it. A
/// thread that has ended needs none.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn enter(tid: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is a whole structure that the kernel reads.
    if unsafe { libc::sched_setscheduler(tid, memweir_scx::SCHED_EXT, &raw const parameters) } == 0
    {
        return Ok(());
    }
    cgroup::unless_gone(Err(io::Error::last_os_error()))
}

/// Gives every thread of a group, and of those below it, to the class by `enter`.
///
/// # Errors
/// If a thread is refused, or new ones appear faster than they can be given.
pub(crate) fn enter_all(
    files: &dyn Files,
    group: &Path,
    enter: impl Fn(i32) -> io::Result<()>,
) -> io::Result<()> {
    // A thread that forks before its turn leaves a child of the old class for the next round.
    const ROUNDS: u32 = 100;
    let mut entered = BTreeSet::new();
    for _ in 0..ROUNDS {
        let threads = cgroup::threads(files, Version::V2, group)?;
        let fresh: Vec<i32> = threads.into_iter().filter(|tid| entered.insert(*tid)).collect();
        if fresh.is_empty() {
            return Ok(());
        }
        fresh.into_iter().try_for_each(&enter)?;
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}
