//! Rings through which the processes of a job pass cells to one reader.
//!
//! A writer takes the next number, fills the cell with that number, and marks it as finished. The
//! reader takes the cells in the order of their numbers. Nothing is overwritten: a ring that is
//! full refuses further cells.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Number of cells that may be partly written at once; as many stay unused when the ring is full.
pub(super) const WRITERS: u64 = 1024;

/// A ring of `N` cells.
pub(super) struct Ring<'a, C, const N: usize> {
    pub(super) cells: &'a [C; N],
    /// Number of the next cell to write.
    pub(super) head: &'a AtomicU64,
    /// Number of the next cell to read, written by the reader.
    pub(super) tail: &'a AtomicU64,
    /// The word of a cell that is one more than its number once the cell is finished.
    pub(super) sequence: fn(&C) -> &AtomicU64,
}

impl<C, const N: usize> Ring<'_, C, N> {
    /// Appends a cell, which `write` fills, and returns true; returns false if the ring is full.
    pub(super) fn append(&self, write: impl FnOnce(&C)) -> bool {
        let waiting = self.head.load(Relaxed).saturating_sub(self.tail.load(Acquire));
        if waiting >= N as u64 - WRITERS {
            return false;
        }
        let number = self.head.fetch_add(1, AcqRel);
        let cell = &self.cells[number as usize % N];
        write(cell);
        (self.sequence)(cell).store(number + 1, Release);
        true
    }

    /// Takes the next cell, of which `read` makes a copy; `None` if there is none.
    pub(super) fn take<T>(&self, unfinished: Unfinished, read: impl FnOnce(&C) -> T) -> Option<T> {
        loop {
            let number = self.tail.load(Relaxed);
            let head = self.head.load(Acquire);
            if number >= head {
                return None;
            }
            let cell = &self.cells[number as usize % N];
            if (self.sequence)(cell).load(Acquire) == number + 1 {
                let taken = read(cell);
                self.tail.store(number + 1, Release);
                return Some(taken);
            }
            if unfinished == Unfinished::Wait && head - number < WRITERS {
                return None;
            }
            self.tail.store(number + 1, Release);
        }
    }
}

/// Action on a cell that is not finished: its writer may have been killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// Its writer may be alive: try again later.
    Wait,
    /// Every writer is gone: skip it.
    Skip,
}
