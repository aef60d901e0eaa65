//! What a vCPU collects where a job's accesses to memory are recorded.

use memweir_core::softpmu::LineAccess;
use memweir_core::softpmu::addresses::CELL_ACCESSES;

use crate::process::Process;

/// The accesses of a thread that were not handed over yet, and how far its execution was then.
pub(crate) struct Recorder {
    thread: u32,
    accesses: Vec<LineAccess>,
    /// Instructions before those that the vCPU still counts by itself.
    published: u64,
    /// Instructions up to the access before.
    told: u64,
}

impl Recorder {
    pub(crate) fn new(thread: u32) -> Self {
        Self { thread, accesses: Vec::with_capacity(CELL_ACCESSES), published: 0, told: 0 }
    }

    /// Takes the lines of an instruction, before which the vCPU has counted `instructions` since it
    /// last published. Blocks are counted when they begin, so an access may be told up to a block
    /// late; no gap is lost by it.
    pub(crate) fn take(
        &mut self,
        process: &Process,
        lines: &mut Vec<LineAccess>,
        instructions: u32,
    ) {
        for mut access in lines.drain(..) {
            if !access.write {
                let now = self.published + u64::from(instructions);
                // Of two accesses at one place each has an instruction all the same.
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

    /// The vCPU has published so many instructions.
    pub(crate) fn publish(&mut self, instructions: u32) {
        self.published += u64::from(instructions);
    }

    /// Hands over everything.
    pub(crate) fn flush(&mut self, process: &Process) {
        if !self.accesses.is_empty() {
            process.append_accesses(self.thread, &self.accesses);
            self.accesses.clear();
        }
    }

    /// In the child of a fork: what was collected is the parent's.
    pub(crate) fn forget(&mut self) {
        self.accesses.clear();
        self.told = self.published;
    }
}
