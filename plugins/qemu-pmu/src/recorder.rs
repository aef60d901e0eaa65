//! Records the accesses of a vCPU to memory.

use memweir_abi::softpmu::LineAccess;
use memweir_abi::softpmu::addresses::CELL_ACCESSES;

use crate::process::Process;

/// Accesses of a thread that were not handed over yet, and its progress at that point.
pub(crate) struct Recorder {
    thread: u32,
    accesses: Vec<LineAccess>,
    /// Instructions before those that the vCPU has not published.
    published: u64,
    /// Instructions up to the previous access.
    told: u64,
}

impl Recorder {
    pub(crate) fn new(thread: u32) -> Self {
        Self { thread, accesses: Vec::with_capacity(CELL_ACCESSES), published: 0, told: 0 }
    }

    /// Takes the lines of an instruction, before which the vCPU has counted `instructions` since it
    /// last published. Blocks are counted when they begin, so an access may be reported up to a
    /// block late; no gap is lost by that.
    pub(crate) fn take(
        &mut self,
        process: &Process,
        lines: &mut Vec<LineAccess>,
        instructions: u32,
    ) {
        for mut access in lines.drain(..) {
            if !access.write {
                let now = self.published + u64::from(instructions);
                // Two accesses at the same count still have one instruction each.
                access.gap = now.saturating_sub(self.told).max(1);
                self.told += access.gap;
            }
            self.accesses.push(access);
            if self.accesses.len() == CELL_ACCESSES {
                process.append_accesses(self.thread, &self.accesses);
                self.accesses.clear();
            }
        }
    }

    /// Records that the vCPU has published this many instructions.
    pub(crate) fn publish(&mut self, instructions: u32) {
        self.published += u64::from(instructions);
    }

    /// Hands over all accesses.
    pub(crate) fn flush(&mut self, process: &Process) {
        if !self.accesses.is_empty() {
            process.append_accesses(self.thread, &self.accesses);
            self.accesses.clear();
        }
    }

    /// Drops accesses that belong to the parent, in the child of a fork.
    pub(crate) fn forget(&mut self) {
        self.accesses.clear();
        self.told = self.published;
    }
}
