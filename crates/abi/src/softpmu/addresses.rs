//! The ring that passes the memory accesses of a job's threads to their recorder.
//!
//! Threads collect a cell's worth and append it; the reader takes cells in the order in which they
//! were appended, so that the accesses of one thread stay in order and those of different threads
//! interleave by the cell. Nothing is overwritten: a thread that finds the ring full waits for the
//! reader while the reader is alive.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::layout::JobHeader;
use super::totals::Unfinished;

/// Number of accesses in one cell.
pub const CELL_ACCESSES: usize = 62;

/// Number of cells in the ring.
pub const ADDRESS_CELLS: usize = 8192;

/// Number of cells that may be partly written at once; as many stay unused when the ring is full.
const WRITERS: u64 = 1024;

/// A line that was read from memory or written back to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineAccess {
    /// Number of the line within its address space, below 2^41.
    pub line: u64,
    /// Number of the address space, below 2^20.
    pub space: u32,
    /// True if it was written back.
    pub write: bool,
    /// Instructions of the thread since its previous access; zero for an access that none of its
    /// instructions waits for.
    pub gap: u64,
}

/// Accesses that a thread appends at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineBatch {
    /// Number of the thread within its process.
    pub thread: u32,
    /// Accesses in the order of the thread's execution, at most [`CELL_ACCESSES`].
    pub accesses: Vec<LineAccess>,
}

/// One cell: the words of an access are `space << 42 | line << 1 | write`, and the gap.
#[repr(C, align(1024))]
#[derive(Debug)]
pub struct AddressCell {
    /// One more than the cell's number, written last (release).
    pub sequence: AtomicU64,
    /// Number of the thread.
    pub thread: AtomicU32,
    /// Number of accesses that follow.
    pub count: AtomicU32,
    /// The accesses.
    pub accesses: [[AtomicU64; 2]; CELL_ACCESSES],
}

const LINE_SHIFT: u32 = 1;
const SPACE_SHIFT: u32 = 42;

impl Default for AddressCell {
    fn default() -> Self {
        Self {
            sequence: AtomicU64::new(0),
            thread: AtomicU32::new(0),
            count: AtomicU32::new(0),
            accesses: [const { [const { AtomicU64::new(0) }; 2] }; CELL_ACCESSES],
        }
    }
}

impl AddressCell {
    /// Appends the accesses of `thread`, at most [`CELL_ACCESSES`]; returns false if the ring is
    /// full, so that the caller should wait.
    #[must_use]
    pub fn append(
        header: &JobHeader,
        ring: &[Self; ADDRESS_CELLS],
        thread: u32,
        accesses: &[LineAccess],
    ) -> bool {
        let waiting =
            header.address_head.load(Relaxed).saturating_sub(header.address_tail.load(Acquire));
        if waiting >= ADDRESS_CELLS as u64 - WRITERS {
            return false;
        }
        let number = header.address_head.fetch_add(1, AcqRel);
        let cell = &ring[number as usize % ADDRESS_CELLS];
        cell.thread.store(thread, Relaxed);
        cell.count.store(accesses.len().min(CELL_ACCESSES) as u32, Relaxed);
        for (words, access) in cell.accesses.iter().zip(accesses) {
            let word = u64::from(access.space) << SPACE_SHIFT
                | access.line << LINE_SHIFT
                | u64::from(access.write);
            words[0].store(word, Relaxed);
            words[1].store(access.gap, Relaxed);
        }
        cell.sequence.store(number + 1, Release);
        true
    }

    /// Takes the next batch out of the ring, if there is one. A writer that was killed in the
    /// middle leaves a cell that is never finished; see [`Unfinished`].
    pub fn take(
        header: &JobHeader,
        ring: &[Self; ADDRESS_CELLS],
        unfinished: Unfinished,
    ) -> Option<LineBatch> {
        loop {
            let number = header.address_tail.load(Relaxed);
            let head = header.address_head.load(Acquire);
            if number >= head {
                return None;
            }
            let cell = &ring[number as usize % ADDRESS_CELLS];
            if cell.sequence.load(Acquire) != number + 1 {
                if unfinished == Unfinished::Wait && head - number < WRITERS {
                    return None;
                }
                header.address_tail.store(number + 1, Release);
                continue;
            }
            let count = (cell.count.load(Relaxed) as usize).min(CELL_ACCESSES);
            let access = |words: &[AtomicU64; 2]| {
                let word = words[0].load(Relaxed);
                LineAccess {
                    line: word >> LINE_SHIFT & ((1 << (SPACE_SHIFT - LINE_SHIFT)) - 1),
                    space: (word >> SPACE_SHIFT) as u32,
                    write: word & 1 == 1,
                    gap: words[1].load(Relaxed),
                }
            };
            let accesses = cell.accesses[..count].iter().map(access).collect();
            let batch = LineBatch { thread: cell.thread.load(Relaxed), accesses };
            header.address_tail.store(number + 1, Release);
            return Some(batch);
        }
    }
}

const _: () = assert!(size_of::<AddressCell>() == 1024);

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> (JobHeader, Box<[AddressCell; ADDRESS_CELLS]>) {
        let cells: Vec<AddressCell> = (0..ADDRESS_CELLS).map(|_| AddressCell::default()).collect();
        (JobHeader::default(), cells.into_boxed_slice().try_into().unwrap())
    }

    #[test]
    fn accesses_come_out_as_they_went_in() {
        let (header, ring) = ring();
        let accesses = [
            LineAccess { line: (1 << 41) - 1, space: (1 << 20) - 1, write: true, gap: 0 },
            LineAccess { line: 0, space: 1, write: false, gap: u64::MAX },
        ];
        assert!(AddressCell::append(&header, &ring, 7, &accesses));
        let batch = AddressCell::take(&header, &ring, Unfinished::Wait).unwrap();
        assert_eq!(batch, LineBatch { thread: 7, accesses: accesses.to_vec() });
        assert_eq!(AddressCell::take(&header, &ring, Unfinished::Wait), None);
    }

    #[test]
    fn a_full_ring_refuses_until_something_was_taken() {
        let (header, ring) = ring();
        let one = [LineAccess::default()];
        let written = (0..).take_while(|n| AddressCell::append(&header, &ring, *n, &one)).count();
        assert_eq!(written as u64, ADDRESS_CELLS as u64 - WRITERS);
        assert_eq!(AddressCell::take(&header, &ring, Unfinished::Wait).unwrap().thread, 0);
        assert!(AddressCell::append(&header, &ring, 99, &one));
    }

    #[test]
    fn the_cell_of_a_killed_writer_is_stepped_over_at_the_end() {
        let (header, ring) = ring();
        header.address_head.fetch_add(1, Relaxed);
        assert!(AddressCell::append(&header, &ring, 5, &[LineAccess::default()]));
        assert_eq!(AddressCell::take(&header, &ring, Unfinished::Wait), None);
        assert_eq!(AddressCell::take(&header, &ring, Unfinished::Skip).unwrap().thread, 5);
    }
}
