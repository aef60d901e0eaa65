//! Streams of recorded accesses of real programs: the misses that `memweir profile --addresses`
//! writes, or the loads and stores of a trace that was taken before the caches.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use memweir_core::Direction;
use memweir_core::input::InputError;
use memweir_trace as trace;
use memweir_trace::{AddressSpace, Side, ThreadId, Trace};

use crate::machine::Addressing;
use crate::packed::{Reader, put, unzigzag, zigzag};
use crate::stream::{self, AccessKind, Level, Stream};

/// The accesses of one program, packed in memory, by thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MissTrace {
    threads: Vec<Thread>,
    addressing: Addressing,
    side: Side,
}

/// Distance between the address spaces of a recording's processes, as a power of two of bytes: the
/// addresses of a program lie below it.
const SPACE_BITS: u32 = 48;

#[derive(Clone, Debug, Default, PartialEq)]
struct Thread {
    /// Beginning of the address space of its process among those of the recording.
    space: u64,
    /// Per access: instructions times two, plus one for a write; the address as a difference from
    /// the previous one.
    packed: Vec<u8>,
    before: u64,
    instructions: u64,
    accesses: u64,
}

impl MissTrace {
    /// Reads the trace at `path`; see [`of`](Self::of).
    ///
    /// # Errors
    /// If the trace cannot be read, or does not state instructions.
    pub fn read(path: &Path, instructions: u64) -> Result<Self, InputError> {
        Self::of(Trace::open(path, None)?, instructions)
    }

    /// Packs a trace: for each thread, the accesses of its first `instructions` instructions.
    ///
    /// # Errors
    /// If the trace cannot be read, or does not state instructions.
    pub fn of(mut trace: Trace, instructions: u64) -> Result<Self, InputError> {
        let addressing = match trace.header().addresses {
            AddressSpace::Virtual => Addressing::Virtual,
            AddressSpace::Physical | AddressSpace::Unknown => Addressing::Physical,
        };
        let side = trace.header().side;
        let mut misses = Self { threads: Vec::new(), addressing, side };
        let one_thread = !trace.format().has_threads();
        let mut known: HashMap<ThreadId, usize> = HashMap::new();
        // Virtual addresses of different processes are different pages, even if they are equal.
        let mut spaces: HashMap<u32, u64> = HashMap::new();
        while let Some(access) = trace.next_access()? {
            let next = misses.threads.len();
            let thread = *known.entry(access.thread).or_insert(next);
            if thread == next {
                if next == usize::from(u16::MAX) {
                    let reason = format!("the trace has more than {next} threads");
                    return Err(InputError::new(trace.name(), reason));
                }
                let process = spaces.len() as u64;
                let process = *spaces.entry(access.thread.process).or_insert(process);
                let space = match addressing {
                    Addressing::Virtual => process << SPACE_BITS,
                    Addressing::Physical => 0,
                };
                misses.threads.push(Thread { space, ..Thread::default() });
            }
            misses.threads[thread].append(&access, instructions);
            // A trace of one thread may be far longer than what is simulated of it.
            if one_thread && misses.threads[thread].instructions >= instructions {
                break;
            }
        }
        trace.refuse_truncated()?;
        misses.threads.retain(|thread| thread.accesses > 0 && thread.instructions > 0);
        if misses.threads.is_empty() {
            let reason = "the trace does not say how many instructions are between its accesses";
            return Err(InputError::new(trace.name(), reason)
                .help("record one with `memweir profile --addresses`"));
        }
        Ok(misses)
    }

    /// Returns the number of threads.
    #[must_use]
    pub fn threads(&self) -> u16 {
        self.threads.len() as u16
    }

    /// Returns the level of the hierarchy at which its accesses enter.
    #[must_use]
    pub fn level(&self) -> Level {
        match self.side {
            Side::Core => Level::Core,
            Side::Memory => Level::Memory,
        }
    }

    /// Returns the kind of its addresses.
    #[must_use]
    pub fn addressing(&self) -> Addressing {
        self.addressing
    }
}

impl Thread {
    fn append(&mut self, access: &trace::Access, most: u64) {
        if self.instructions >= most {
            return;
        }
        let written = access.direction == Direction::Write;
        // One bit is for the direction; no program executes so many instructions that the lost bit
        // matters.
        put(&mut self.packed, access.gap.min(u64::MAX >> 1) << 1 | u64::from(written));
        let address = access.address.wrapping_add(self.space);
        put(&mut self.packed, zigzag(address.wrapping_sub(self.before)));
        self.before = address;
        self.instructions = self.instructions.saturating_add(access.gap);
        self.accesses += 1;
    }
}

/// A thread's endless pass through its misses.
#[derive(Debug)]
pub struct MissStream {
    trace: Arc<MissTrace>,
    thread: usize,
    reader: Reader,
    before: u64,
}

impl MissStream {
    /// Creates a stream that starts at the beginning. If the trace has fewer threads than the
    /// program, several streams share a recorded thread.
    #[must_use]
    pub fn new(trace: Arc<MissTrace>, thread: u16) -> Self {
        let thread = usize::from(thread) % trace.threads.len();
        Self { trace, thread, reader: Reader::default(), before: 0 }
    }

    fn rewind(&mut self) {
        (self.reader, self.before) = (Reader::default(), 0);
    }
}

impl Stream for MissStream {
    fn next(&mut self) -> stream::Access {
        if self.reader.is_at_end(&self.trace.threads[self.thread].packed) {
            self.rewind();
        }
        let packed = &self.trace.threads[self.thread].packed;
        let head = self.reader.take(packed);
        self.before = self.before.wrapping_add(unzigzag(self.reader.take(packed)));
        let instructions = head >> 1;
        let kind = match (head & 1, instructions) {
            (0, _) => AccessKind::Load,
            (_, 0) if self.trace.side == Side::Memory => AccessKind::WriteBack,
            _ => AccessKind::Store,
        };
        stream::Access { instructions, address: self.before, kind, needs: 0 }
    }

    fn restart(&mut self) -> Option<stream::Access> {
        self.rewind();
        Some(self.next())
    }
}

#[cfg(test)]
mod tests {
    use memweir_trace::{Format, Header, Writer};

    use super::*;

    const READ: Direction = Direction::Read;

    /// Records accesses of two threads in a file.
    fn recorded(accesses: &[(u32, u64, u64, Direction)]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let header =
            Header { name: "p".to_owned(), addresses: AddressSpace::Virtual, ..Header::default() };
        let mut writer = Writer::start(file, Format::Memweir, &header).unwrap();
        for (thread, gap, address, direction) in accesses {
            let thread = ThreadId { process: 7, thread: *thread };
            let (gap, address, direction) = (*gap, *address, *direction);
            writer.push(&trace::Access { address, gap, thread, direction }).unwrap();
        }
        writer.finish().unwrap().0
    }

    #[test]
    fn gaps_at_the_end_of_their_range_do_not_wrap() {
        let file = recorded(&[(0, u64::MAX, 0x40, READ), (0, u64::MAX, 0x80, READ)]);
        let trace = Arc::new(MissTrace::read(file.path(), u64::MAX).unwrap());
        let mut stream = MissStream::new(trace, 0);
        assert_eq!((stream.next().instructions, stream.next().address), (u64::MAX >> 1, 0x40));
    }

    #[test]
    fn more_threads_than_can_be_numbered_are_refused() {
        let accesses: Vec<_> = (0..=u32::from(u16::MAX)).map(|n| (n, 1, 0x40, READ)).collect();
        let threads = MissTrace::read(recorded(&accesses[1..]).path(), 10).unwrap().threads();
        assert_eq!(threads, u16::MAX);
        let error = MissTrace::read(recorded(&accesses).path(), 10).unwrap_err().to_string();
        assert!(error.ends_with("the trace has more than 65535 threads"), "{error}");
    }

    #[test]
    fn each_thread_goes_through_its_own_misses() {
        let file = recorded(&[
            (0, 10, 0x7f00_0000_1000, READ),
            (1, 30, 0x2000, READ),
            (0, 0, 0x40, Direction::Write),
            (1, 5, 0x1000, READ),
            (0, 20, 0x7f00_0000_1040, READ),
            (0, 20, 0x9000, READ),
        ]);
        // Accesses after 30 instructions are dropped.
        let trace = Arc::new(MissTrace::read(file.path(), 30).unwrap());
        assert_eq!((trace.threads(), trace.addressing()), (2, Addressing::Virtual));
        let access =
            |instructions, address, kind| stream::Access { instructions, address, kind, needs: 0 };
        let mut first = MissStream::new(Arc::clone(&trace), 0);
        for _ in 0..2 {
            assert_eq!(first.next(), access(10, 0x7f00_0000_1000, AccessKind::Load));
            assert_eq!(first.next(), access(0, 0x40, AccessKind::WriteBack));
            assert_eq!(first.next(), access(20, 0x7f00_0000_1040, AccessKind::Load));
        }
        let mut second = MissStream::new(trace, 1);
        assert_eq!(second.next(), access(30, 0x2000, AccessKind::Load));
        assert_eq!(second.next(), access(30, 0x2000, AccessKind::Load));
    }

    #[test]
    fn each_process_has_an_address_space_of_its_own() {
        let header = Header { addresses: AddressSpace::Virtual, ..Header::default() };
        let mut writer = Writer::start(Vec::new(), Format::Memweir, &header).unwrap();
        for (process, thread) in [(7, 0), (9, 0), (7, 1)] {
            let thread = ThreadId { process, thread };
            let access = trace::Access { address: 0x1000, gap: 5, thread, direction: READ };
            writer.push(&access).unwrap();
        }
        let bytes = writer.finish().unwrap().0;
        let trace = Trace::read("t", Box::new(std::io::Cursor::new(bytes)), None).unwrap();
        let trace = Arc::new(MissTrace::of(trace, 30).unwrap());
        let first = |thread| MissStream::new(Arc::clone(&trace), thread).next().address;
        assert_eq!([first(0), first(1), first(2)], [0x1000, (1 << 48) + 0x1000, 0x1000]);
    }

    #[test]
    fn stores_of_a_trace_before_the_caches_are_no_write_backs() {
        let text = "I  0400,4\n M 1000,8\nI  0404,4\nI  0408,4\n L 2000,8\nI  040c,4\n L 3000,8\n";
        let trace = Trace::read("t", Box::new(std::io::Cursor::new(text)), None).unwrap();
        let trace = Arc::new(MissTrace::of(trace, 3).unwrap());
        assert_eq!((trace.level(), trace.addressing()), (Level::Core, Addressing::Virtual));
        let mut stream = MissStream::new(trace, 0);
        let access =
            |instructions, address, kind| stream::Access { instructions, address, kind, needs: 0 };
        for _ in 0..2 {
            assert_eq!(stream.next(), access(1, 0x1000, AccessKind::Load));
            assert_eq!(stream.next(), access(0, 0x1000, AccessKind::Store));
            assert_eq!(stream.next(), access(2, 0x2000, AccessKind::Load));
        }
    }

    #[test]
    fn a_trace_without_instructions_is_refused() {
        let file = recorded(&[(0, 0, 64, READ)]);
        let error = MissTrace::read(file.path(), 30).unwrap_err().to_string();
        assert!(error.contains("how many instructions"), "{error}");
    }
}
