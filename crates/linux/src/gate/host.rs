//! The coordinator's access to the host: waiting, waking, and the state of threads.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use memweir_abi::kernel::stat::HostState;
use nix::unistd::gettid;

/// The way to recognize sleeping threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleepers {
    /// By the place in the kernel where they wait.
    ByPlace,
    /// By their own report, which comes a little early: the kernel does not show places.
    ByWord,
}

impl Sleepers {
    /// Returns the way that works here, tried on a thread of this process.
    pub(super) fn find() -> Self {
        let (send, receive) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ = send.send(gettid().as_raw() as u32);
            let _ = ended.recv();
        });
        let tid = receive.recv().unwrap_or_default();
        let told = (0..TRIES).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            Self::ByPlace.state(std::process::id(), tid) == HostState::Waiting
        });
        drop(end);
        let _ = thread.join();
        if told { Self::ByPlace } else { Self::ByWord }
    }

    /// Returns the state of the thread `tid` of the process `pid`.
    pub(super) fn state(self, pid: u32, tid: u32) -> HostState {
        let mut buffer = [0; 512];
        let read = |file: &str, buffer: &mut [u8]| {
            File::open(format!("/proc/{pid}/task/{tid}/{file}"))
                .and_then(|mut file| file.read(buffer))
        };
        let Ok(length) = read("stat", &mut buffer) else { return HostState::Gone };
        let state = HostState::of(&buffer[..length], pid == tid);
        if state != HostState::Waiting || self == Self::ByWord {
            return state;
        }
        let length = read("wchan", &mut buffer).unwrap_or(0);
        state.if_asleep(&buffer[..length])
    }

    /// Returns true if no thread of a process runs or is runnable.
    pub(super) fn is_quiet(self, pid: u32) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
        let numbers =
            threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut states = numbers.map(|tid| self.state(pid, tid));
        states.all(|state| state != HostState::Busy)
    }
}

/// Milliseconds within which a thread falls asleep.
const TRIES: u32 = 200;

/// Waits while the word is `expected`. Returns true if the time ran out.
pub(super) fn wait(word: &AtomicU32, expected: u32, at_most: Duration) -> bool {
    let time = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(at_most.subsec_nanos()),
    };
    // SAFETY: waits on a live word; the time is read during the call.
    let result = unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, expected, &raw const time)
    };
    result != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT)
}

pub(super) fn wake(word: &AtomicU32) {
    // SAFETY: wakes a waiter on a live word.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeping_thread_waits_and_a_computing_one_is_busy() {
        let host_state = |pid, tid| Sleepers::find().state(pid, tid);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = child.id();
        while host_state(pid, pid) != HostState::Waiting {
            std::thread::yield_now();
        }
        child.kill().expect("a process of ours");
        while host_state(pid, pid) != HostState::Gone {
            std::thread::yield_now();
        }
        child.wait().expect("a process of ours");
        assert_eq!(host_state(pid, pid), HostState::Gone);
        let own = std::process::id();
        let tid = gettid().as_raw() as u32;
        assert_eq!(host_state(own, tid), HostState::Busy);
    }
}
