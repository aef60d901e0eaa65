//! The low-memory killer (drswap section II): which program ends when there is no room left.

use memweir_abi::preload::page::{PageProcess, PagedState};
use memweir_core::Bytes;

/// Returns the process to end first: the one with the most memory in DRAM and NVM together, since
/// it frees the most; of equals the one with the highest number, which most likely is the youngest.
#[must_use]
pub fn largest(processes: &[PageProcess]) -> Option<PageProcess> {
    let size = |process: &PageProcess| process.resident.0.saturating_add(process.nvm.0);
    let sized = processes.iter().filter(|process| size(process) > 0);
    sized.max_by_key(|process| (size(process), process.process)).copied()
}

/// Selects one process at a time to end, and the next when the memory of the last has come back and
/// was not enough.
#[derive(Clone, Debug, Default)]
pub struct Killer {
    ended: Vec<u32>,
}

impl Killer {
    /// Returns the process to end now, if any: one is due when a process would evict and the NVM is
    /// full, while all together have more than `dram` in DRAM.
    pub fn choose(&mut self, processes: &[PageProcess], dram: Bytes) -> Option<PageProcess> {
        let is_full = processes.iter().any(|process| process.state == PagedState::Full);
        let resident: Bytes = processes.iter().map(|process| process.resident).sum();
        let last = self.ended.last();
        let is_waiting = processes.iter().any(|process| Some(&process.process) == last);
        if !is_full || is_waiting || resident <= dram {
            return None;
        }
        let chosen = largest(processes)?;
        self.ended.push(chosen.process);
        Some(chosen)
    }

    /// Returns the processes that were ended, in order.
    #[must_use]
    pub fn ended(&self) -> &[u32] {
        &self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(process: u32, resident: u64, nvm: u64, state: PagedState) -> PageProcess {
        PageProcess { process, resident: Bytes(resident), nvm: Bytes(nvm), state }
    }

    #[test]
    fn the_largest_ends_first() {
        let ample = |id, resident, nvm| process(id, resident, nvm, PagedState::Ample);
        let chosen = |processes: &[PageProcess]| largest(processes).map(|chosen| chosen.process);
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[ample(7, 0, 0)]), None);
        // 30 + 5 is more than 10 + 20, and more than 31 + 3.
        assert_eq!(chosen(&[ample(7, 10, 20), ample(8, 30, 5), ample(9, 31, 3)]), Some(8));
        assert_eq!(chosen(&[ample(7, 4, 4), ample(9, 8, 0), ample(8, 0, 8)]), Some(9));
    }

    #[test]
    fn one_ends_at_a_time_and_only_while_memory_is_short() {
        let mut killer = Killer::default();
        let pressed =
            [process(7, 60, 10, PagedState::Pressed), process(8, 5, 5, PagedState::Ample)];
        assert_eq!(killer.choose(&pressed, Bytes(50)), None);
        let full = [process(7, 60, 10, PagedState::Full), process(8, 5, 5, PagedState::Ample)];
        assert_eq!(killer.choose(&full, Bytes(65)), None, "all have what they may have");
        assert_eq!(killer.choose(&full, Bytes(50)).map(|chosen| chosen.process), Some(7));
        assert_eq!(killer.choose(&full, Bytes(50)), None, "it is still there");
        let after = [process(8, 55, 5, PagedState::Full)];
        assert_eq!(killer.choose(&after, Bytes(50)).map(|chosen| chosen.process), Some(8));
        assert_eq!(killer.ended(), [7, 8]);
    }
}
