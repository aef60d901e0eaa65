//! Warming of the shared cache, as if the programs had been running for long.

use memweir_core::input::Refusal;
use memweir_core::units::LINE_BYTES;

use super::System;
use crate::machine::Memory;
use crate::stream::AccessKind;

/// Instructions that a core executes before the next core's turn.
const TURN: u64 = 1_000;
/// Accesses per line of the cache after which warming ends.
const MOST: usize = 4;

impl<M: Memory> System<'_, M> {
    /// Fills the shared cache with the lines that the programs would have in it if all ran at the
    /// same speed. Takes no simulated time and makes no memory request. Leaves out recorded
    /// programs.
    ///
    /// # Errors
    /// If the operating system has no memory left.
    pub fn warm(&mut self) -> Result<(), Refusal> {
        let Some(lines) = self.llc.as_ref().map(|llc| llc.cache.lines()) else { return Ok(()) };
        let warming: Vec<usize> =
            (0..self.cores.len()).filter(|core| self.cores[*core].warms()).collect();
        let (mut filled, mut accesses) = (0, 0);
        // Instructions by which each core is ahead of its turn: a gap may be longer than a turn.
        let mut ahead = vec![0; warming.len()];
        while !warming.is_empty() && filled < lines + lines / 4 && accesses < MOST * lines {
            for (core, ahead) in warming.iter().zip(&mut ahead) {
                while *ahead < TURN {
                    let access = self.cores[*core].peek();
                    *ahead += access.instructions;
                    accesses += 1;
                    filled += usize::from(self.warm_one(*core, access.address, access.kind)?);
                }
                *ahead -= TURN;
            }
        }
        Ok(())
    }

    /// Touches one line. Returns true if it was missing.
    fn warm_one(&mut self, core: usize, address: u64, kind: AccessKind) -> Result<bool, Refusal> {
        let (address, _) = self.translate(core, address)?;
        let Some(llc) = &mut self.llc else { return Ok(false) };
        let (line, written) = (address.0 / LINE_BYTES, kind.writes());
        let missing = !llc.cache.touch(line, written);
        if missing {
            llc.cache.insert(line, core as u16, written);
        }
        Ok(missing)
    }
}
