//! What threads ask of the host: waiting and waking, and what other threads do there.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use memweir_core::softpmu::gate::{HostState, StatLine};

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// Somebody woke the thread, or the word is another already.
    Changed,
    /// A signal came.
    Interrupted,
    /// The time is over.
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
    // SAFETY: wakes whoever waits on a live word.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, 1) };
}

pub(super) fn own_tid() -> u32 {
    // SAFETY: a plain question.
    unsafe { libc::gettid() as u32 }
}

/// What a thread of the host does; where the kernel tells places, one that has left its processor
/// alone sleeps.
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

/// When a process started, in clock ticks since boot; none if it is gone.
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
