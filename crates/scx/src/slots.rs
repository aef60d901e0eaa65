//! The slots of jobs, each of which has a dispatch queue in the kernel.

use std::collections::BTreeSet;

use crate::SLOTS;

/// The place of a job in the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// Returns the slot of this index, if there is one.
    #[must_use]
    pub fn new(index: usize) -> Option<Self> {
        u16::try_from(index).ok().filter(|_| index < SLOTS).map(Self)
    }

    /// Returns its number, below [`SLOTS`].
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// Returns its number as an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Slots that are free.
#[cfg_attr(not(feature = "libbpf"), allow(dead_code))]
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Slots below this were taken at some time.
    used: usize,
    returned: BTreeSet<Slot>,
}

#[cfg_attr(not(feature = "libbpf"), allow(dead_code))]
impl Slots {
    /// Takes a free slot, if there is one.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        if let Some(slot) = self.returned.pop_first() {
            return Some(slot);
        }
        let slot = Slot::new(self.used)?;
        self.used += 1;
        Some(slot)
    }

    /// Returns a taken slot.
    pub(crate) fn give_back(&mut self, slot: Slot) {
        self.returned.insert(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_taken_once_until_it_is_given_back() {
        let mut slots = Slots::default();
        let all: BTreeSet<Slot> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(all.len(), SLOTS);
        let slot = Slot::new(17).unwrap();
        slots.give_back(slot);
        assert_eq!((slots.take(), slots.take()), (Some(slot), None));
    }
}
