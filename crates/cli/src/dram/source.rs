//! Turns a trace into requests to a memory: checks addresses, numbers threads, shows progress.

use std::collections::HashMap;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use memweir_bank::cached_trace::CachedTrace;
use memweir_core::input::InputError;
use memweir_core::units::PAGE;
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

    /// The distance by which addresses of a process are moved, the first one's by nothing, so that
    /// equal virtual addresses of two processes do not meet: golden sections of all bytes, which
    /// lie far from each other, however many there are.
    fn shift(&self, process: usize) -> u64 {
        const GOLDEN_SECTION: f64 = 0.618_033_988_749_894_8;
        let pages = self.size().0 / PAGE.0;
        let section = (pages as f64 * GOLDEN_SECTION) as u64;
        (process as u64).wrapping_mul(section) % pages.max(1) * PAGE.0
    }
}

/// A thread of a trace as the memory sees it.
#[derive(Clone, Copy)]
struct Requester {
    source: Source,
    /// Distance by which its virtual addresses are moved.
    shift: u64,
}

/// The requests of a trace.
pub(super) struct Requests {
    trace: CachedTrace,
    space: Space,
    beyond: Beyond,
    requesters: HashMap<ThreadId, Requester>,
    last: Option<(ThreadId, Requester)>,
    /// Distance by which the addresses of each process are moved.
    shifts: HashMap<u32, u64>,
    progress: Progress,
    /// Requests taken so far.
    pub(super) taken: u64,
}

impl Requests {
    pub(super) fn new(trace: CachedTrace, space: Space, beyond: Beyond) -> Self {
        let progress = Progress::new(trace.trace().progress().size);
        let (requesters, shifts) = (HashMap::new(), HashMap::new());
        Self { trace, space, beyond, requesters, last: None, shifts, progress, taken: 0 }
    }

    /// Returns the next request; `None` after the last.
    pub(super) fn next_offer(&mut self) -> Result<Option<Offer>, InputError> {
        let Some(access) = self.trace.next_access()? else { return Ok(None) };
        self.taken += 1;
        if self.taken.is_multiple_of(LOOK_EVERY) {
            self.progress.show(self.trace.trace().progress().taken);
        }
        let Requester { source, shift } = match self.last {
            Some((thread, requester)) if thread == access.thread => requester,
            _ => self.requester(access.thread)?,
        };
        let mut address = access.address;
        if shift > 0 || !self.space.holds(address) {
            match self.beyond {
                Beyond::Refuse => return Err(self.outside(address)),
                Beyond::Wrap => address = self.space.wrapped(address.wrapping_add(shift)),
            }
        }
        let (address, direction) = (PhysAddr(address), access.direction);
        Ok(Some(Offer { address, direction, source, due: Cycles::ZERO }))
    }

    fn requester(&mut self, thread: ThreadId) -> Result<Requester, InputError> {
        let known = self.requesters.get(&thread).copied();
        let requester = known.map_or_else(|| self.add(thread), Ok)?;
        self.last = Some((thread, requester));
        Ok(requester)
    }

    /// Adds a thread that has made no request before.
    fn add(&mut self, thread: ThreadId) -> Result<Requester, InputError> {
        let source = u16::try_from(self.requesters.len()).map_err(|_| {
            let most = u32::from(u16::MAX) + 1;
            self.trace.trace().refuse(format!("the trace has more than {most} threads"))
        })?;
        let is_moved = self.beyond == Beyond::Wrap
            && self.trace.trace().header().addresses == AddressSpace::Virtual;
        let next = if is_moved { self.space.shift(self.shifts.len()) } else { 0 };
        let shift = *self.shifts.entry(thread.process).or_insert(next);
        let requester = Requester { source: Source(source), shift };
        self.requesters.insert(thread, requester);
        Ok(requester)
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

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use memweir_core::Direction;
    use memweir_dram::MemorySpec;
    use memweir_trace::{Access, Format, Header, Trace, Writer};

    use super::*;

    /// Where a memory of 8 GiB is asked for these addresses of these processes.
    fn asked(addresses: AddressSpace, accesses: &[(u32, u64)]) -> Vec<(u64, u16)> {
        let mut requests = requests(addresses, accesses);
        let offers = std::iter::from_fn(|| requests.next_offer().unwrap());
        offers.map(|offer| (offer.address.0, offer.source.0)).collect()
    }

    fn requests(addresses: AddressSpace, accesses: &[(u32, u64)]) -> Requests {
        let header = Header { addresses, ..Header::default() };
        let mut writer = Writer::start(Vec::new(), Format::Memweir, &header).unwrap();
        for (process, address) in accesses.iter().copied() {
            let thread = ThreadId { process, thread: 1 };
            let access = Access { address, gap: 1, thread, direction: Direction::Read };
            writer.push(&access).unwrap();
        }
        let (bytes, _) = writer.finish().unwrap();
        let trace = Trace::read("trace", Box::new(Cursor::new(bytes)), None).unwrap();
        let config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
        let space = Space::of(&[(PhysAddr(0), config)]);
        Requests::new(CachedTrace::new(trace, None), space, Beyond::Wrap)
    }

    #[test]
    fn more_threads_than_there_are_numbers_are_refused() {
        let accesses: Vec<_> = (0..=1 << 16).map(|process| (process, 0)).collect();
        let mut requests = requests(AddressSpace::Physical, &accesses);
        for number in 0..=u16::MAX {
            assert_eq!(requests.next_offer().unwrap().map(|offer| offer.source.0), Some(number));
        }
        let refusal = requests.next_offer().map(|_| ()).unwrap_err().to_string();
        assert_eq!(refusal, "trace: access 65537: the trace has more than 65536 threads");
    }

    #[test]
    fn equal_addresses_of_two_processes_are_two_places() {
        let accesses = [(7, 0x40_0040), (9, 0x40_0040), (7, 0x40_0080), (9, 0x40_0080)];
        // 0.618 of 2,097,152 pages are 1,296,111.
        let second = 1_296_111 << 12;
        let moved =
            [(0x40_0040, 0), (second + 0x40_0040, 1), (0x40_0080, 0), (second + 0x40_0080, 1)];
        assert_eq!(asked(AddressSpace::Virtual, &accesses), moved);
        let stayed = [(0x40_0040, 0), (0x40_0040, 1), (0x40_0080, 0), (0x40_0080, 1)];
        assert_eq!(asked(AddressSpace::Physical, &accesses), stayed);
        // Behind the end the first process goes on at the beginning.
        assert_eq!(asked(AddressSpace::Virtual, &[(7, (3 << 33) + 64)]), [(64, 0)]);
    }
}
