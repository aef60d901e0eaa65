//! Services of the host for threads: waiting, waking, and the state of other threads.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use memweir_abi::kernel::stat::{HostState, StatLine};

/// Reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The thread was woken, or the word had changed already.
    Changed,
    /// A signal arrived.
    Interrupted,
    /// The time has elapsed.
    TimedOut,
}

pub(super) fn wait(word: &AtomicU32, expected: u32, at_most: Duration) -> Woken {
    let time = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(at_most.subsec_nanos()),
    };
    // SAFETY: waits on a live word; the time is read during the call.
    let result = unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, expected, &raw const time)
    };
    if result == 0 {
        return Woken::Changed;
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::ETIMEDOUT) => Woken::TimedOut,
        Some(libc::EINTR) => Woken::Interrupted,
        _ => Woken::Changed,
    }
}

pub(super) fn wake(word: &AtomicU32) {
    // SAFETY: wakes a waiter on a live word.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, 1) };
}

/// Returns the numbers of this process and thread as `/proc` has them, where the coordinator looks
/// them up: in a PID namespace of its own, a process has others for itself. Safe in a forked child.
pub(super) fn own_numbers() -> (u32, u32) {
    let mut link = [0u8; 64];
    // SAFETY: the kernel writes at most as many bytes; the other calls only return numbers.
    let (length, own) = unsafe {
        let path = c"/proc/thread-self".as_ptr();
        let length = libc::readlink(path, link.as_mut_ptr().cast(), link.len());
        (length, (libc::getpid() as u32, libc::gettid() as u32))
    };
    numbers_of(&link[..usize::try_from(length).unwrap_or(0)]).unwrap_or(own)
}

/// Parses the target of `/proc/thread-self`: `PID/task/TID`.
fn numbers_of(link: &[u8]) -> Option<(u32, u32)> {
    let (process, thread) = std::str::from_utf8(link).ok()?.split_once("/task/")?;
    Some((process.parse().ok()?, thread.parse().ok()?))
}

/// Returns the state of a thread of the host. If the kernel reports wait channels, only a thread
/// that has left its processor counts as asleep.
pub(super) fn host_state(pid: u32, tid: u32, tells_sleep: bool) -> HostState {
    let mut buffer = [0; 512];
    let read = |file: &str, buffer: &mut [u8]| {
        File::open(format!("/proc/{pid}/task/{tid}/{file}")).and_then(|mut file| file.read(buffer))
    };
    let Ok(length) = read("stat", &mut buffer) else { return HostState::Gone };
    let state = HostState::of(&buffer[..length], pid == tid);
    if state != HostState::Waiting || !tells_sleep {
        return state;
    }
    let length = read("wchan", &mut buffer).unwrap_or(0);
    state.if_asleep(&buffer[..length])
}

/// Returns the start time of a process in clock ticks since boot; `None` if it is gone.
pub(super) fn start_of(pid: u32) -> Option<u64> {
    StatLine::of(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)?.start()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start() {
        let own = start_of(std::process::id());
        assert!(own.is_some());
        assert_eq!(start_of(std::process::id()), own);
        assert_eq!(start_of(u32::MAX), None);
    }

    #[test]
    fn a_thread_has_the_numbers_that_proc_has() {
        assert_eq!(numbers_of(b"12/task/34"), Some((12, 34)));
        assert_eq!(numbers_of(b""), None);
        // SAFETY: only returns a number.
        let thread = unsafe { libc::gettid() as u32 };
        assert_eq!(own_numbers(), (std::process::id(), thread));
    }

    #[test]
    fn a_wait_for_what_has_happened_ends_at_once() {
        let word = AtomicU32::new(1);
        assert_eq!(wait(&word, 0, Duration::from_secs(60)), Woken::Changed);
        assert_eq!(wait(&word, 1, Duration::from_millis(1)), Woken::TimedOut);
    }
}
