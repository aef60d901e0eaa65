//! Lines that memory was asked for: the miss-status registers of all cores.

use crate::bank::cache::Line;
use crate::bank::clock::Time;
use crate::bank::window::AccessNumber;

/// An access that waits for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    /// Place of its core.
    pub(super) core: usize,
    /// The access; absent if nobody waits.
    pub(super) number: Option<AccessNumber>,
    /// Whether it writes the line.
    pub(super) written: bool,
}

/// One line.
#[derive(Clone, Debug)]
pub(super) struct Miss {
    pub(super) line: Line,
    /// Who asked first.
    pub(super) first: Waiter,
    /// Who asked since.
    pub(super) others: Vec<Waiter>,
    /// Whether the first one belongs to the instructions that are measured.
    pub(super) counted: bool,
    /// When the request is at memory, before its queue.
    pub(super) arrives: Time,
    /// The bank.
    pub(super) bank: usize,
}

/// No line has this number.
const FREE: Line = u64::MAX;

/// All of them, by register.
#[derive(Clone, Debug, Default)]
pub(super) struct Misses {
    lines: Vec<Line>,
    misses: Vec<Option<Miss>>,
    free: Vec<u32>,
}

impl Misses {
    /// The miss that is under way for a line.
    pub(super) fn find(&mut self, line: Line) -> Option<&mut Miss> {
        let register = self.lines.iter().position(|held| *held == line)?;
        self.misses[register].as_mut()
    }

    /// Puts a miss into a free register; its number.
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

    /// What a register holds.
    pub(super) fn get(&self, register: u32) -> Option<&Miss> {
        self.misses.get(register as usize)?.as_ref()
    }

    /// Empties a register.
    pub(super) fn end(&mut self, register: u32) -> Option<Miss> {
        let miss = self.misses.get_mut(register as usize)?.take()?;
        self.lines[register as usize] = FREE;
        self.free.push(register);
        Some(miss)
    }

    /// How many lines are under way.
    pub(super) fn len(&self) -> usize {
        self.lines.len() - self.free.len()
    }
}
