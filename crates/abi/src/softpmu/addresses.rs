//! The ring that passes the memory accesses of a job's threads to their recorder.
//!
//! Threads collect a cell's worth and append it; the reader takes cells in the order in which they
//! were appended, so that the accesses of one thread stay in order and those of different threads
//! interleave by the cell. Nothing is overwritten: a thread that finds the ring full waits for the
//! reader while the reader is alive.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::layout::JobHeader;
use super::ring::{Ring, Unfinished};

/// Number of accesses in one cell.
pub const CELL_ACCESSES: usize = 62;

/// Number of cells in the ring.
pub const ADDRESS_CELLS: usize = 8192;

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
        of_addresses(header, ring).append(|cell| {
            cell.thread.store(thread, Relaxed);
            cell.count.store(accesses.len().min(CELL_ACCESSES) as u32, Relaxed);
            for (words, access) in cell.accesses.iter().zip(accesses) {
                let word = u64::from(access.space) << SPACE_SHIFT
                    | access.line << LINE_SHIFT
                    | u64::from(access.write);
                words[0].store(word, Relaxed);
                words[1].store(access.gap, Relaxed);
            }
        })
    }

    /// Takes the next batch out of the ring, if there is one. A writer that was killed in the
    /// middle leaves a cell that is never finished; see [`Unfinished`].
    pub fn take(
        header: &JobHeader,
        ring: &[Self; ADDRESS_CELLS],
        unfinished: Unfinished,
    ) -> Option<LineBatch> {
        let access = |words: &[AtomicU64; 2]| {
            let word = words[0].load(Relaxed);
            LineAccess {
                line: word >> LINE_SHIFT & ((1 << (SPACE_SHIFT - LINE_SHIFT)) - 1),
                space: (word >> SPACE_SHIFT) as u32,
                write: word & 1 == 1,
                gap: words[1].load(Relaxed),
            }
        };
        of_addresses(header, ring).take(unfinished, |cell| {
            let count = (cell.count.load(Relaxed) as usize).min(CELL_ACCESSES);
            let accesses = cell.accesses[..count].iter().map(access).collect();
            LineBatch { thread: cell.thread.load(Relaxed), accesses }
        })
    }
}

fn of_addresses<'a>(
    header: &'a JobHeader,
    cells: &'a [AddressCell; ADDRESS_CELLS],
) -> Ring<'a, AddressCell, ADDRESS_CELLS> {
    let (head, tail) = (&header.address_head, &header.address_tail);
    Ring { cells, head, tail, sequence: |cell| &cell.sequence }
}

const _: () = assert!(size_of::<AddressCell>() == 1024);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_come_out_as_they_went_in() {
        let header = JobHeader::default();
        let cells: Vec<AddressCell> = (0..ADDRESS_CELLS).map(|_| AddressCell::default()).collect();
        let ring: Box<[AddressCell; ADDRESS_CELLS]> = cells.into_boxed_slice().try_into().unwrap();
        let accesses = [
            LineAccess { line: (1 << 41) - 1, space: (1 << 20) - 1, write: true, gap: 0 },
            LineAccess { line: 0, space: 1, write: false, gap: u64::MAX },
        ];
        assert!(AddressCell::append(&header, &ring, 7, &accesses));
        let batch = AddressCell::take(&header, &ring, Unfinished::Wait).unwrap();
        assert_eq!(batch, LineBatch { thread: 7, accesses: accesses.to_vec() });
        assert_eq!(AddressCell::take(&header, &ring, Unfinished::Wait), None);
    }
}
