//! References to pages of a real program, from a recording of `memweir profile --addresses` or
//! another trace.
//!
//! A recording has the lines that moved between memory and the last-level cache: a line that is
//! written comes in as a read and is written back later. So a read whose line is written back
//! before it is read again counts as a write of its page, at the time of the read. A recording made
//! with small caches shows more of the program's accesses and their times.
//!
//! A trace that was taken before the caches has the program's loads and stores themselves.
//!
//! The references to a page within a window of instructions are merged into one, a write if any of
//! them is. Within a window, references are in the order of the pages, because their order in time
//! is not kept.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use memweir_core::input::InputError;
use memweir_core::{Direction, LINE_BYTES, PAGE};
use memweir_policy::paging::Page;
use memweir_trace as trace;
use memweir_trace::{AddressSpace, Format, Header, Side, ThreadId, Trace, Writer};

/// Default length of a window in instructions.
pub const WINDOW: u64 = 100_000;

/// A page or a line of the program: its process, and its number in the address space of that.
type Place = (u32, u64);

/// The references of a program, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageTrace {
    /// Twice the page, plus one for a write. Pages are numbered by their first reference.
    references: Vec<u32>,
    /// For each window that has references, the number of references up to its end.
    windows: Vec<u32>,
    pages: u32,
    lines: u64,
    instructions: u64,
}

/// Summary of a trace.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Sums {
    /// Pages.
    pub pages: u32,
    /// Pages that are written at least once.
    pub written_pages: u32,
    /// References after merging within windows.
    pub references: u64,
    /// Of these, writes.
    pub writes: u64,
    /// Mean number of lines read per reference; of a trace before the caches, of accesses.
    pub lines_per_reference: f64,
    /// Instructions of all threads.
    pub instructions: u64,
}

/// Builds page references from line accesses.
#[derive(Default)]
struct Collector {
    trace: PageTrace,
    window: u64,
    /// Pages by their places in the program.
    numbers: HashMap<Place, Page>,
    /// Index of each page's reference in the current window.
    current: HashMap<Page, u32>,
    /// Index of the reference for which each line was read, until the line is written back.
    fetched: HashMap<Place, u32>,
    windows_seen: u64,
    side: Side,
}

impl Collector {
    fn take(&mut self, access: &trace::Access) {
        let process = access.thread.process;
        let line = (process, access.address / LINE_BYTES);
        // A read behind the caches counts as at least one instruction, for formats that do not
        // state instructions.
        let behind = self.side == Side::Memory;
        let own = u64::from(behind && access.direction == Direction::Read);
        self.trace.instructions = self.trace.instructions.saturating_add(access.gap.max(own));
        // A write without an instruction of its own is a write-back.
        let goes_back = behind && access.direction == Direction::Write && access.gap == 0;
        if goes_back && let Some(place) = self.fetched.remove(&line) {
            self.trace.references[place as usize] |= 1;
            return;
        }
        let place = self.place((process, access.address / PAGE.0));
        self.trace.lines += 1;
        match access.direction {
            Direction::Write => self.trace.references[place as usize] |= 1,
            Direction::Read if behind => {
                self.fetched.insert(line, place);
            }
            Direction::Read => {}
        }
    }

    /// Returns the index of a page's reference in the current window.
    fn place(&mut self, page: Place) -> u32 {
        let windows = self.trace.instructions / self.window;
        if windows != self.windows_seen {
            self.windows_seen = windows;
            self.end_window();
        }
        let next = self.numbers.len() as Page;
        let page = *self.numbers.entry(page).or_insert(next);
        let references = &mut self.trace.references;
        *self.current.entry(page).or_insert_with(|| {
            references.push(page << 1);
            references.len() as u32 - 1
        })
    }

    fn end_window(&mut self) {
        self.current.clear();
        let end = self.trace.references.len() as u32;
        // The first reference may come after windows without any.
        if end > 0 {
            self.trace.windows.push(end);
        }
    }

    /// Sorts the references of each window, whose order has no meaning; sorted, they take the least
    /// room when written.
    fn finish(mut self) -> PageTrace {
        let mut start = 0;
        for end in &self.trace.windows {
            self.trace.references[start..*end as usize].sort_unstable();
            start = *end as usize;
        }
        self.trace.pages = self.numbers.len() as u32;
        self.trace
    }
}

impl PageTrace {
    /// Reads a recording with windows of `window` instructions.
    ///
    /// # Errors
    /// If it cannot be read, or has no access.
    pub fn read(trace: &mut Trace, window: u64) -> Result<Self, InputError> {
        let side = trace.header().side;
        let mut collector = Collector { window: window.max(1), side, ..Collector::default() };
        while let Some(access) = trace.next_access()? {
            collector.take(&access);
            if collector.trace.references.len() >= (u32::MAX >> 1) as usize {
                return Err(trace.refuse("too many references").help("a larger window"));
            }
        }
        trace.refuse_truncated()?;
        collector.end_window();
        Ok(collector.finish())
    }

    /// Reads the recording at `path`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn open(path: &Path, window: u64) -> Result<Self, InputError> {
        Self::read(&mut Trace::open(path, None)?, window)
    }

    /// Writes the references as a trace with one access each. It reads as the same references with
    /// the same `window`, if that has more instructions than a window has references. The result
    /// can stand for a recording a hundred times its size.
    ///
    /// # Errors
    /// If `out` cannot be written to.
    pub fn write<W: Write>(&self, name: &str, out: W, window: u64) -> io::Result<W> {
        let header =
            Header { name: name.to_owned(), addresses: AddressSpace::Virtual, ..Header::default() };
        let mut writer = Writer::start(out, Format::Memweir, &header)?;
        let (mut start, mut instructions) = (0, 0);
        for end in &self.windows {
            for (place, reference) in self.references[start..*end as usize].iter().enumerate() {
                // The gap of the first reference leads to the start of its window. All gaps are at
                // least one, because a write without an instruction would read as a write-back.
                let gap = if place == 0 { window - instructions % window } else { 1 };
                instructions += gap;
                writer.push(&trace::Access {
                    address: u64::from(reference >> 1) * PAGE.0,
                    gap,
                    thread: ThreadId::default(),
                    direction: if reference & 1 == 1 { Direction::Write } else { Direction::Read },
                })?;
            }
            start = *end as usize;
        }
        Ok(writer.finish()?.0)
    }

    /// Returns the number of pages of the program.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns a summary of the trace.
    #[must_use]
    pub fn sums(&self) -> Sums {
        let mut written = vec![false; self.pages as usize];
        let mut writes = 0;
        for reference in self.references.iter().filter(|reference| *reference & 1 == 1) {
            written[(reference >> 1) as usize] = true;
            writes += 1;
        }
        let references = self.references.len() as u64;
        Sums {
            pages: self.pages,
            written_pages: written.iter().filter(|written| **written).count() as u32,
            references,
            writes,
            lines_per_reference: self.lines as f64 / references.max(1) as f64,
            instructions: self.instructions,
        }
    }
}

/// A program that replays its trace, a part in each turn.
#[derive(Clone, Debug)]
pub struct Player {
    trace: Arc<PageTrace>,
    first: Page,
    parts: u32,
    next: u32,
}

impl Player {
    /// Creates a player with pages from `first` on. It plays the trace in `parts` turns and then
    /// starts again.
    #[must_use]
    pub fn new(trace: Arc<PageTrace>, first: Page, parts: u32) -> Self {
        Self { trace, first, parts: parts.max(1), next: 0 }
    }

    /// Restarts the trace, because the program was killed.
    pub fn restart(&mut self) {
        self.next = 0;
    }

    /// Plays the part of one turn.
    pub fn play(&mut self, mut refer: impl FnMut(Page, crate::Access)) {
        let references = &self.trace.references;
        let at = |part: u32| {
            (references.len() as u64 * u64::from(part) / u64::from(self.parts)) as usize
        };
        for reference in &references[at(self.next)..at(self.next + 1)] {
            let access =
                if reference & 1 == 1 { crate::Access::Write } else { crate::Access::Read };
            refer(self.first + (reference >> 1), access);
        }
        self.next = (self.next + 1) % self.parts;
    }
}
