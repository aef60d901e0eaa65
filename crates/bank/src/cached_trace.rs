//! A trace of a core's loads and stores, behind caches: the lines that move between the last level
//! and memory.
//!
//! Each thread has private first- and second-level caches, and all share the last level; each is
//! set-associative and write-back with LRU replacement. As in the software meter, the levels are
//! neither inclusive nor exclusive: a miss fills every level, a dirty victim is written into the
//! next one, and an eviction from the last level leaves private copies alone. Lines that are dirty
//! at the end of the trace stay in the caches. Prefetchers and instruction fetches are not modeled.
//!
//! Equal virtual addresses of two processes are different lines.
//!
//! ```
//! use std::io::Cursor;
//!
//! use memweir_bank::cached_trace::CachedTrace;
//! use memweir_core::Bytes;
//! use memweir_core::cache::{CacheGeometry, CacheHierarchy};
//! use memweir_trace::Trace;
//!
//! // Two loads of one line, three instructions apart.
//! let text = "I  0400,4\n L 1000,8\nI  0404,4\nI  0408,4\n L 1008,8\n";
//! let trace = Trace::read("example", Box::new(Cursor::new(text)), None)?;
//! let cache = |kib: u64| CacheGeometry::new(Bytes(kib << 10), 8);
//! let caches = CacheHierarchy { l1d: cache(32), l2: cache(256), llc: cache(1024) };
//! let mut behind = CachedTrace::new(trace, Some(caches));
//! assert_eq!(behind.next_access()?.map(|access| access.address), Some(0x1000));
//! assert_eq!(behind.next_access()?, None);
//! # Ok::<(), memweir_core::input::InputError>(())
//! ```

use std::collections::{HashMap, VecDeque};

use memweir_core::cache::CacheHierarchy;
use memweir_core::input::InputError;
use memweir_core::{Direction, LINE_BYTES};
use memweir_trace::{Access, AddressSpace, ThreadId, Trace};

use crate::cache::{Cache, Line, Victim};

/// Most threads, each with private caches.
const MOST_THREADS: usize = 1024;
/// Bits of a line's number that an entry of a cache holds.
const LINE_BITS: u32 = 48;
const LINES: Line = 1 << LINE_BITS;
/// Distance between the lines of one process and those of the next, if they have address spaces of
/// their own: a golden section of all lines, so that processes lie far from each other, however
/// many there are. It is a multiple of a page.
const NEXT_PROCESS: Line = 0x9E37_79B9_7F4A_7C15 >> (u64::BITS - LINE_BITS) & !63;

/// A trace with or without caches before it.
pub struct CachedTrace {
    trace: Trace,
    caches: Option<Box<Caches>>,
}

impl CachedTrace {
    /// Puts `trace` behind caches, which have been [validated](CacheHierarchy::validate); without
    /// them, it stays as it is.
    #[must_use]
    pub fn new(trace: Trace, caches: Option<CacheHierarchy>) -> Self {
        let addresses = trace.header().addresses;
        let caches = caches.map(|geometry| Box::new(Caches::new(geometry, addresses)));
        Self { trace, caches }
    }

    /// Returns the next access to memory; `None` after the last.
    ///
    /// # Errors
    /// If the trace cannot be read, has more than 1,024 threads, or an address that no processor
    /// has.
    #[inline]
    pub fn next_access(&mut self) -> Result<Option<Access>, InputError> {
        let Some(caches) = &mut self.caches else { return self.trace.next_access() };
        loop {
            if let Some(access) = caches.out.pop_front() {
                return Ok(Some(access));
            }
            let Some(access) = self.trace.next_access()? else { return Ok(None) };
            caches.take(&access).map_err(|reason| self.trace.refuse(reason))?;
        }
    }

    /// Returns the trace.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Returns the geometry of the caches, if there are any.
    #[must_use]
    pub fn caches(&self) -> Option<&CacheHierarchy> {
        self.caches.as_ref().map(|caches| &caches.geometry)
    }
}

/// The caches of all threads, and the accesses that leave them.
struct Caches {
    geometry: CacheHierarchy,
    addresses: AddressSpace,
    numbers: HashMap<ThreadId, usize>,
    cores: Vec<Core>,
    /// Distance by which the lines of each process are moved.
    shifts: HashMap<u32, Line>,
    last_level: Cache,
    out: VecDeque<Access>,
}

/// A thread with its private caches.
struct Core {
    thread: ThreadId,
    /// Distance by which the lines of its process are moved.
    shift: Line,
    first: Cache,
    second: Cache,
    /// Instructions since its last access to memory.
    gap: u64,
}

impl Caches {
    fn new(geometry: CacheHierarchy, addresses: AddressSpace) -> Self {
        Self {
            geometry,
            addresses,
            numbers: HashMap::new(),
            cores: Vec::new(),
            shifts: HashMap::new(),
            last_level: Cache::new(&geometry.llc),
            out: VecDeque::new(),
        }
    }

    fn core(&mut self, thread: ThreadId) -> Result<usize, String> {
        if let Some(number) = self.numbers.get(&thread) {
            return Ok(*number);
        }
        let number = self.cores.len();
        if number == MOST_THREADS {
            return Err(format!("the trace has more than {MOST_THREADS} threads"));
        }
        let (first, second) = (Cache::new(&self.geometry.l1d), Cache::new(&self.geometry.l2));
        let shift = self.shift(thread.process);
        self.cores.push(Core { thread, shift, first, second, gap: 0 });
        self.numbers.insert(thread, number);
        Ok(number)
    }

    /// Returns the distance by which the lines of a process are moved, the first one's by nothing.
    fn shift(&mut self, process: u32) -> Line {
        let next = match self.addresses {
            AddressSpace::Virtual => (self.shifts.len() as u64).wrapping_mul(NEXT_PROCESS) % LINES,
            AddressSpace::Physical | AddressSpace::Unknown => 0,
        };
        *self.shifts.entry(process).or_insert(next)
    }

    fn take(&mut self, access: &Access) -> Result<(), String> {
        let line = packed(access.address)
            .ok_or_else(|| format!("{:#x} is no address of a processor", access.address))?;
        let number = self.core(access.thread)?;
        let line = (line + self.cores[number].shift) % LINES;
        let written = access.direction == Direction::Write;
        let owner = number as u16;
        let core = &mut self.cores[number];
        core.gap = core.gap.saturating_add(access.gap);
        if core.first.touch(line, written) {
            return Ok(());
        }
        let in_second = core.second.touch(line, false);
        if !in_second && !self.last_level.touch(line, false) {
            let (gap, thread) = (std::mem::take(&mut core.gap), core.thread);
            let direction = Direction::Read;
            self.out.push_back(Access {
                address: access.address / LINE_BYTES * LINE_BYTES,
                gap,
                thread,
                direction,
            });
            let victim = self.last_level.insert(line, owner, false);
            self.leave(victim, owner);
        }
        let core = &mut self.cores[number];
        if !in_second {
            let victim = core.second.insert(line, owner, false);
            self.write_into_last(victim);
        }
        let core = &mut self.cores[number];
        if let Some(Victim { line, dirty: true, .. }) = core.first.insert(line, owner, written)
            && !core.second.touch(line, true)
        {
            let victim = core.second.insert(line, owner, true);
            self.write_into_last(victim);
        }
        Ok(())
    }

    /// Writes a dirty victim of a second level into the last one.
    fn write_into_last(&mut self, victim: Option<Victim>) {
        let Some(Victim { line, owner, dirty: true }) = victim else { return };
        if !self.last_level.touch(line, true) {
            let victim = self.last_level.insert(line, owner, true);
            self.leave(victim, owner);
        }
    }

    /// Writes a dirty victim of the last level back to memory, on behalf of the core that has
    /// evicted it. A line of another address space is written by the core that brought it in.
    fn leave(&mut self, victim: Option<Victim>, by: u16) {
        let Some(Victim { line, owner, dirty: true }) = victim else { return };
        let [by, owner] = [by, owner].map(|core| &self.cores[usize::from(core)]);
        let thread = if by.shift == owner.shift { by.thread } else { owner.thread };
        let line = line.wrapping_sub(owner.shift) % LINES;
        let (address, direction) = (unpacked(line), Direction::Write);
        self.out.push_back(Access { address, gap: 0, thread, direction });
    }
}

/// Returns the line of an address as the caches store it; `None` if the address is not the sign
/// extension of its lower bits, as the addresses of processors are.
fn packed(address: u64) -> Option<Line> {
    let line = (address / LINE_BYTES) & ((1 << LINE_BITS) - 1);
    (unpacked(line) == address / LINE_BYTES * LINE_BYTES).then_some(line)
}

/// Returns the address of a line as the caches store it.
fn unpacked(line: Line) -> u64 {
    let above = u64::BITS - LINE_BITS;
    ((line << above) as i64 >> (above - LINE_BYTES.trailing_zeros())) as u64
}

#[cfg(test)]
mod tests;
