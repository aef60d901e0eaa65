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

pub(super) fn own_tid() -> u32 {
    // SAFETY: only returns a number.
    unsafe { libc::gettid() as u32 }
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
    fn a_wait_for_what_has_happened_ends_at_once() {
        let word = AtomicU32::new(1);
        assert_eq!(wait(&word, 0, Duration::from_secs(60)), Woken::Changed);
        assert_eq!(wait(&word, 1, Duration::from_millis(1)), Woken::TimedOut);
    }
}
