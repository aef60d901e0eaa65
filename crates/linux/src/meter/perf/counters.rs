//! Opening and reading single events of the kernel.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use memweir_core::JobId;
use perf_event::events::{Hardware, Raw};
use perf_event::{Builder, Counter};

use super::events::{Encoding, EventSpec};
use super::media::Sorted;
use super::scaling::{RawCount, Scaled, Trouble};
use crate::OsError;
use crate::meter::{MeterError, Reason};

/// The accesses that are counted, by privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The program's and those that the kernel makes for it.
    UserAndKernel,
    /// The program's alone: all that `perf_event_paranoid` 2 allows without privileges.
    UserOnly,
}

fn builder<'a>(encoding: Encoding, scope: Scope) -> Builder<'a> {
    let mut builder = match encoding {
        Encoding::Raw { config, config1 } => Builder::new(Raw::new(config).config1(config1)),
        Encoding::Instructions => Builder::new(Hardware::INSTRUCTIONS),
        Encoding::Software(event) => Builder::new(event),
    };
    builder.exclude_kernel(scope == Scope::UserOnly);
    // A job that is a hypervisor itself is charged for its guest.
    builder.exclude_hv(false);
    builder
}

fn group_builder(encoding: Encoding, scope: Scope, group: &File, cpu: usize) -> Builder<'_> {
    let mut builder = builder(encoding, scope);
    builder.observe_cgroup(group).one_cpu(cpu).enabled(true);
    builder
}

/// Opens `event` on `cpu` for the control group of this directory, to overflow each time that it
/// has counted `period`. It keeps its counter: one that took turns would miss lines.
pub(super) fn overflowing(
    event: &EventSpec,
    scope: Scope,
    group: &File,
    cpu: usize,
    period: u64,
) -> io::Result<OwnedFd> {
    let mut builder = group_builder(event.encoding, scope, group, cpu);
    let counter = builder.sample_period(period).pinned(true).build()?;
    // SAFETY: the descriptor is the counter's own, which gives it up.
    Ok(unsafe { OwnedFd::from_raw_fd(counter.into_raw_fd()) })
}

/// Returns true if an event of [`overflowing`] counts all that it should. One that has lost its
/// counter, or found none, is in an error state, in which a read returns no bytes.
pub(crate) fn counts(event: BorrowedFd<'_>) -> io::Result<bool> {
    let mut words = [0; 24];
    if nix::unistd::read(event, &mut words)? < words.len() {
        return Ok(false);
    }
    let [count, enabled, running] = [0, 8, 16].map(|at| {
        let word: [u8; 8] = std::array::from_fn(|byte| words[at + byte]);
        u64::from_ne_bytes(word)
    });
    Ok(RawCount { count, enabled, running }.trouble().is_none())
}

/// Opens each event on this process for a moment. Returns the first that is refused, and the error.
pub(super) fn try_events(events: &[EventSpec], scope: Scope) -> Result<(), OsError> {
    try_together(events, |event| builder(event.encoding, scope).build())
}

/// Opens each event on one CPU for a control group for a moment. Returns the first that is refused,
/// and the error.
pub(super) fn try_group_events(
    events: &[EventSpec],
    scope: Scope,
    group: &File,
    cpu: usize,
) -> Result<(), OsError> {
    try_together(events, |event| group_builder(event.encoding, scope, group, cpu).build())
}

/// Opens all of these events together: one may be refused only because another one is open.
fn try_together(
    events: &[EventSpec],
    open: impl Fn(&EventSpec) -> io::Result<Counter>,
) -> Result<(), OsError> {
    let opened = events.iter().map(|event| open(event).map_err(OsError::of(&event.name)));
    opened.collect::<Result<Vec<_>, _>>().map(drop)
}

/// Opens one generic event on this process for a moment, to learn whether there is a PMU.
pub(super) fn try_encoding(encoding: Encoding) -> io::Result<()> {
    builder(encoding, Scope::UserOnly).build().map(drop)
}

/// One event of one job, or of one control group on one CPU.
#[derive(Debug)]
pub(super) struct EventCounter {
    sorted: Sorted,
    name: String,
    weight: f64,
    counter: Counter,
    scaled: Scaled,
}

impl EventCounter {
    /// Starts to count `event` for process `pid`, which has not called exec yet, and for all of
    /// its future threads and children. Counting begins at its exec.
    pub(super) fn of_job(
        sorted: Sorted,
        event: &EventSpec,
        scope: Scope,
        pid: i32,
    ) -> io::Result<Self> {
        let mut builder = builder(event.encoding, scope);
        builder.observe_pid(pid).any_cpu().inherit(true).enable_on_exec(true);
        Ok(Self::new(sorted, event, builder.build()?))
    }

    /// Starts to count `event` on `cpu` for the control group of this directory.
    pub(super) fn of_group(
        sorted: Sorted,
        event: &EventSpec,
        scope: Scope,
        group: &File,
        cpu: usize,
    ) -> io::Result<Self> {
        let counter = group_builder(event.encoding, scope, group, cpu).build()?;
        Ok(Self::new(sorted, event, counter))
    }

    fn new(sorted: Sorted, event: &EventSpec, counter: Counter) -> Self {
        let (name, weight) = (event.name.clone(), event.weight);
        Self { sorted, name, weight, counter, scaled: Scaled::default() }
    }

    /// Returns the quantity and the medium that the event adds to.
    pub(super) fn sorted(&self) -> Sorted {
        self.sorted
    }

    /// Returns the event's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns its count since the start, times its weight.
    pub(super) fn read(&mut self) -> io::Result<f64> {
        let raw = self.counter.read_count_and_time()?;
        let raw =
            RawCount { count: raw.count, enabled: raw.time_enabled, running: raw.time_running };
        Ok(self.scaled.update(raw) as f64 * self.weight)
    }

    /// Returns the trouble with the last reading that users should know of, if any.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.scaled.trouble()
    }
}

/// Returns the error of opening an event for a job, with help.
pub(super) fn open_error(source: io::Error, event: &str, job: JobId) -> MeterError {
    let text = match source.raw_os_error() {
        Some(libc::EMFILE) => format!(
            "job {job} cannot be counted: the limit of open files is reached; each job takes one \
             per event (raise it with `ulimit -n`)"
        ),
        Some(libc::ESRCH) => format!("job {job} cannot be counted: its process is gone already"),
        _ => format!("opening event {event} for job {job}: {source}"),
    };
    MeterError { reason: Reason::of(&source), text }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    /// Asks about an event of which a read returns these words.
    fn asked(words: &[u64]) -> bool {
        let (reader, mut writer) = io::pipe().unwrap();
        for word in words {
            writer.write_all(&word.to_ne_bytes()).unwrap();
        }
        drop(writer);
        counts(reader.as_fd()).unwrap()
    }

    #[test]
    fn errors_with_help_keep_their_kind() {
        for (errno, help, reason) in [
            (libc::EMFILE, "`ulimit -n`", Reason::Limit),
            (libc::ESRCH, "gone already", Reason::Gone),
            (libc::EACCES, "opening event E for job 3: ", Reason::Permission),
        ] {
            let error = open_error(io::Error::from_raw_os_error(errno), "E", JobId(3));
            assert!(error.text.contains(help), "{error}");
            assert_eq!(error.reason, reason, "{error}");
        }
    }

    #[test]
    fn an_event_in_the_error_state_counts_nothing() {
        assert!(!asked(&[]));
    }

    #[test]
    fn an_event_without_a_counter_counts_nothing_and_one_in_turns_too_little() {
        let second = 1_000_000_000;
        assert!(asked(&[5, second, second]));
        assert!(asked(&[0, 0, 0]), "the job has not run on this CPU");
        assert!(!asked(&[0, second, 0]));
        assert!(!asked(&[5, second, second / 2]));
    }
}
