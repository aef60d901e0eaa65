//! Lines requested from memory: the miss-status registers of all cores.

use crate::cache::Line;
use crate::clock::Time;
use crate::stream::AccessKind;
use crate::window::AccessNumber;

/// An access that waits for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    /// Index of its core.
    pub(super) core: usize,
    /// Its number in the window; absent for accesses without an instruction.
    pub(super) number: Option<AccessNumber>,
    /// Its kind.
    pub(super) kind: AccessKind,
}

/// A line in flight.
#[derive(Clone, Debug)]
pub(super) struct Miss {
    pub(super) line: Line,
    /// The access that requested the line.
    pub(super) first: Waiter,
    /// Later accesses to the line.
    pub(super) others: Vec<Waiter>,
    /// True if the first access belongs to the measured instructions.
    pub(super) counted: bool,
    /// Time at which the request arrives at memory, before its queue.
    pub(super) arrives: Time,
    /// Number of the bank.
    pub(super) bank: usize,
}

/// Marks a free register: no line has this number.
const FREE: Line = u64::MAX;

/// All lines in flight, by register.
#[derive(Clone, Debug, Default)]
pub(super) struct Misses {
    lines: Vec<Line>,
    misses: Vec<Option<Miss>>,
    free: Vec<u32>,
}

impl Misses {
    /// Returns the miss in flight for a line.
    pub(super) fn find(&mut self, line: Line) -> Option<&mut Miss> {
        let register = self.lines.iter().position(|held| *held == line)?;
        self.misses[register].as_mut()
    }

    /// Puts a miss into a free register and returns the register's number.
    pub(super) fn begin(&mut self, miss: Miss) -> u32 {
        let register = self.free.pop().unwrap_or_else(|| {
            self.lines.push(FREE);
            self.misses.push(None);
            self.lines.len() as u32 - 1
        });
        self.lines[register as usize] = miss.line;
        self.misses[register as usize] = Some(miss);
        register
    }

    /// Returns the miss in a register.
    pub(super) fn get(&self, register: u32) -> Option<&Miss> {
        self.misses.get(register as usize)?.as_ref()
    }

    /// Frees a register and returns its miss.
    pub(super) fn end(&mut self, register: u32) -> Option<Miss> {
        let miss = self.misses.get_mut(register as usize)?.take()?;
        self.lines[register as usize] = FREE;
        self.free.push(register);
        Some(miss)
    }

    /// Returns the number of lines in flight.
    pub(super) fn len(&self) -> usize {
        self.lines.len() - self.free.len()
    }
}
