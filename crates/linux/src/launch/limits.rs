//! The limit of open files: memweir needs several per job, jobs keep the limit they would have had.

use std::sync::OnceLock;

/// The limit before it was raised.
static BEFORE: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises this process's soft limit of open files as far as it may, once, and returns it.
pub(crate) fn raise_open_files() -> u64 {
    let before = *BEFORE.get_or_init(|| {
        let before = current();
        let raised = libc::rlimit { rlim_cur: before.rlim_max, ..before };
        // SAFETY: the pointer is to a live structure. A refusal leaves the limit as it was.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
        before
    });
    current().rlim_cur.max(before.rlim_cur)
}

/// Returns the limit to give to jobs, if ours was changed: programs that use select(2) or that loop
/// over all descriptors suffer from a high one.
pub(super) fn of_jobs() -> Option<libc::rlimit> {
    BEFORE.get().copied()
}

fn current() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live structure that getrlimit fills.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit
}
