//! Turns a trace into requests to a memory: checks addresses, numbers threads, shows progress.

use std::collections::HashMap;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use memweir_bank::cached_trace::CachedTrace;
use memweir_core::input::InputError;
use memweir_core::{Bytes, Cycles, PhysAddr};
use memweir_dram::MemoryConfig;
use memweir_dram::drive::Offer;
use memweir_dram::request::Source;
use memweir_trace::{AddressSpace, ThreadId};

/// Treatment of addresses beyond the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beyond {
    /// They are refused.
    Refuse,
    /// They are taken modulo the memory's size.
    Wrap,
}

/// The addresses that memories side by side have.
pub(super) struct Space {
    /// Beginning and bytes of each memory; ascending.
    parts: Vec<(u64, u64)>,
}

impl Space {
    pub(super) fn of(systems: &[(PhysAddr, MemoryConfig)]) -> Self {
        let parts = systems.iter().map(|(from, config)| (from.0, config.capacity().0));
        Self { parts: parts.collect() }
    }

    /// All bytes.
    fn size(&self) -> Bytes {
        Bytes(self.parts.iter().map(|(_, bytes)| bytes).sum())
    }

    #[inline]
    fn holds(&self, address: u64) -> bool {
        self.parts.iter().any(|(from, bytes)| address.wrapping_sub(*from) < *bytes)
    }

    /// The place of `address` modulo the bytes of all, the memories one after another.
    fn wrapped(&self, address: u64) -> u64 {
        let mut rest = address % self.size().0;
        for (from, bytes) in &self.parts {
            match rest.checked_sub(*bytes) {
                Some(behind) => rest = behind,
                None => return from + rest,
            }
        }
        rest
    }
}

/// The requests of a trace.
pub(super) struct Requests {
    trace: CachedTrace,
    space: Space,
    beyond: Beyond,
    sources: HashMap<ThreadId, Source>,
    last: Option<(ThreadId, Source)>,
    progress: Progress,
    /// Requests taken so far.
    pub(super) taken: u64,
}

impl Requests {
    pub(super) fn new(trace: CachedTrace, space: Space, beyond: Beyond) -> Self {
        let progress = Progress::new(trace.trace().progress().size);
        let sources = HashMap::new();
        Self { trace, space, beyond, sources, last: None, progress, taken: 0 }
    }

    /// Returns the next request; `None` after the last.
    pub(super) fn next_offer(&mut self) -> Result<Option<Offer>, InputError> {
        let Some(access) = self.trace.next_access()? else { return Ok(None) };
        self.taken += 1;
        if self.taken.is_multiple_of(LOOK_EVERY) {
            self.progress.show(self.trace.trace().progress().taken);
        }
        let mut address = access.address;
        if !self.space.holds(address) {
            match self.beyond {
                Beyond::Refuse => return Err(self.outside(address)),
                Beyond::Wrap => address = self.space.wrapped(address),
            }
        }
        let source = match self.last {
            Some((thread, source)) if thread == access.thread => source,
            _ => self.source(access.thread),
        };
        let (address, direction) = (PhysAddr(address), access.direction);
        Ok(Some(Offer { address, direction, source, due: Cycles::ZERO }))
    }

    fn source(&mut self, thread: ThreadId) -> Source {
        let next = Source(self.sources.len() as u16);
        let source = *self.sources.entry(thread).or_insert(next);
        self.last = Some((thread, source));
        source
    }

    fn outside(&self, address: u64) -> InputError {
        let reason = format!("{address:#x} lies outside the memory of {}", self.space.size());
        let help = match self.trace.trace().header().addresses {
            AddressSpace::Virtual => {
                "the trace has virtual addresses; `--wrap` takes them modulo the memory's size"
            }
            _ => {
                "`--wrap` takes addresses modulo the memory's size; `--channels` and `--ranks` make it larger"
            }
        };
        self.trace.trace().refuse(reason).help(help)
    }

    /// Takes the progress off the terminal, and returns the trace.
    pub(super) fn finish(self) -> CachedTrace {
        self.progress.bar.finish_and_clear();
        self.trace
    }
}

/// Requests between two checks of the clock.
pub(super) const LOOK_EVERY: u64 = 1 << 14;
/// Work that is over sooner shows no progress.
const PROGRESS_DELAY: Duration = Duration::from_secs(2);

/// A bar at the foot of the terminal after two seconds, hidden where standard error is not a
/// terminal.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Creates the progress through `size` bytes, if that is known.
    pub(super) fn new(size: Option<u64>) -> Self {
        Self { bar: ProgressBar::with_draw_target(size, ProgressDrawTarget::hidden()) }
    }

    /// Shows that `taken` bytes are done.
    pub(super) fn show(&self, taken: u64) {
        if self.bar.elapsed() < PROGRESS_DELAY {
            return;
        }
        if self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            let template = match self.bar.length() {
                Some(_) => "{wide_bar} {percent:>3} %  {bytes} of {total_bytes}, {eta} left",
                None => "{spinner} {bytes} read, {elapsed}",
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                self.bar.set_style(style);
            }
        }
        self.bar.set_position(taken);
    }

    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}
