//! Parser of `/proc/PID/stat`, the kernel's one-line report on a process or thread. The caller
//! opens the file.

use std::str::FromStr;

/// Number of the field with the state.
const STATE: usize = 3;
/// Number of the field with the number of threads in the process.
const THREAD_COUNT: usize = 20;
/// Number of the field with the start time.
const START: usize = 22;

/// A line of proc_pid_stat(5), which also defines the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatLine<'a> {
    /// Fields from the state on.
    fields: &'a [u8],
}

impl<'a> StatLine<'a> {
    /// Creates it from a line as read; `None` if the line ends before the name does.
    #[must_use]
    pub fn of(line: &'a [u8]) -> Option<Self> {
        // The name, in parentheses, may contain parentheses, but no field after it does.
        let end = line.iter().rposition(|byte| *byte == b')')?;
        Some(Self { fields: &line[end + 1..] })
    }

    /// Returns the field with this number, counted from 1 as in the manual; `None` for the first
    /// two.
    #[must_use]
    pub fn field(&self, number: usize) -> Option<&'a [u8]> {
        let mut fields =
            self.fields.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        fields.nth(number.checked_sub(STATE)?)
    }

    /// Returns the field as a number.
    #[must_use]
    pub fn number<T: FromStr>(&self, number: usize) -> Option<T> {
        std::str::from_utf8(self.field(number)?).ok()?.parse().ok()
    }

    /// Returns the start time, in clock ticks since boot, which distinguishes processes that reuse
    /// an ID.
    #[must_use]
    pub fn start(&self) -> Option<u64> {
        self.number(START)
    }
}

/// State of a host thread, by its letter in `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostState {
    /// It runs, is runnable, or waits for a device, which answers by itself.
    Busy,
    /// It waits for an event that may never come.
    Waiting,
    /// A signal or a tracer has stopped it.
    Stopped,
    /// It has ended, and so has its process if it was the first thread, though the parent may not
    /// have been notified yet.
    Gone,
}

impl HostState {
    /// Refines the state by the text of the thread's `wchan`, which is `0` until the thread has
    /// left its processor.
    #[must_use]
    pub fn if_asleep(self, wchan: &[u8]) -> Self {
        if self == Self::Waiting && matches!(wchan, b"0" | b"") { Self::Busy } else { self }
    }

    /// Returns the state from the text of a thread's `/proc/PID/task/TID/stat`.
    ///
    /// The first thread of a process stays a zombie until the last thread has ended; only then is
    /// the parent notified.
    #[must_use]
    pub fn of(stat: &[u8], first: bool) -> Self {
        let Some(stat) = StatLine::of(stat) else { return Self::Gone };
        match stat.field(STATE) {
            Some(b"S") => Self::Waiting,
            Some(b"T" | b"t") => Self::Stopped,
            Some(b"Z") if first && !matches!(stat.field(THREAD_COUNT), Some(b"0" | b"1")) => {
                Self::Busy
            }
            Some(b"Z" | b"X" | b"x") | None => Self::Gone,
            Some(_) => Self::Busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_full_of_parentheses_is_skipped() {
        let line = "42 (a) R (b)) S 7 42 41 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 3 0 9876 1 2\n";
        let stat = StatLine::of(line.as_bytes()).expect("a whole line");
        assert_eq!((stat.field(3), stat.field(24)), (Some(&b"S"[..]), Some(&b"2"[..])));
        assert_eq!((stat.number(4), stat.number(8)), (Some(7), Some(-1)));
        assert_eq!((stat.number(20), stat.start()), (Some(3), Some(9876)));
        assert_eq!((stat.field(0), stat.field(2), stat.field(25)), (None, None, None));
        assert_eq!(stat.number::<u64>(8), None, "negative");
        assert_eq!(StatLine::of(b"42 (cut of"), None);
    }

    #[test]
    fn the_letter_after_the_name_is_the_state() {
        let of = |stat: &str| HostState::of(stat.as_bytes(), true);
        assert_eq!(of("12 (a) b) S 1 2"), HostState::Waiting);
        assert_eq!(of("12 (Z) R 1 2"), HostState::Busy);
        assert_eq!(of("12 (x) D 1"), HostState::Busy);
        assert_eq!(of("12 (x) T 1"), HostState::Stopped);
        assert_eq!(of(""), HostState::Gone);
        let zombie = |threads| format!("12 (x) Z {} {threads} 0", ["0"; 16].join(" "));
        assert_eq!(of(&zombie(1)), HostState::Gone);
        assert_eq!(of(&zombie(2)), HostState::Busy, "its process still ends");
        assert_eq!(HostState::of(zombie(2).as_bytes(), false), HostState::Gone);
        assert_eq!(of("1 (x) S").if_asleep(b"0"), HostState::Busy);
        assert_eq!(of("1 (x) S").if_asleep(b"futex_wait"), HostState::Waiting);
        assert_eq!(of("1 (x) T").if_asleep(b"0"), HostState::Stopped);
    }

    proptest! {
        #[test]
        fn never_panics(line: Vec<u8>, number in 0..60usize, first: bool) {
            let stat = StatLine::of(&line);
            let _ = stat.map(|stat| (stat.field(number), stat.number::<i32>(number), stat.start()));
            let _ = HostState::of(&line, first);
        }
    }
}
