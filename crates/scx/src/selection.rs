//! The memory that the scheduler shares with the kernel, and the exchange of a selection in it.
//!
//! There are two selections, of which one is active. A new one is written into the other and made
//! active by one store, so that the kernel never sees half of it. The empty selection needs no
//! memory: no index is active then.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering, fence};

use crate::{Ended, Slot};

/// Jobs that can be in the scheduler at once; `MAX_SLOTS` in `bpf/memweir.bpf.c`.
pub const SLOTS: usize = 4096;

/// Bytes of a text; `TEXT` in `bpf/memweir.bpf.c`.
const TEXT: usize = 256;
/// The value of `active` at which nothing is selected.
const NOTHING: u32 = 2;

/// `struct selection` in `bpf/memweir.bpf.c`.
#[repr(C)]
struct Selection {
    count: AtomicU32,
    slots: [AtomicU16; SLOTS],
    is_selected: [AtomicU8; SLOTS],
}

/// `struct shared` in `bpf/memweir.bpf.c`.
#[cfg_attr(not(feature = "libbpf"), allow(dead_code))]
#[repr(C)]
pub(crate) struct Shared {
    active: AtomicU32,
    exit_kind: AtomicU32,
    exit_reason: [AtomicU8; TEXT],
    exit_message: [AtomicU8; TEXT],
    selections: [Selection; 2],
}

#[cfg_attr(not(feature = "libbpf"), allow(dead_code))]
impl Shared {
    /// Makes exactly these slots the active selection. One caller at a time.
    pub(crate) fn select(&self, slots: &[Slot]) {
        let next = u32::from(self.active.load(Ordering::Relaxed) == 0);
        if slots.is_empty() {
            self.active.store(NOTHING, Ordering::Release);
        } else {
            self.selections[next as usize].write(slots);
            self.active.store(next, Ordering::Release);
        }
        // The kernel must see it before it looks for CPUs to kick.
        fence(Ordering::SeqCst);
    }

    /// Returns the end of the scheduler that the kernel has noted.
    pub(crate) fn ended(&self) -> Option<Ended> {
        (self.exit_kind.load(Ordering::Acquire) != 0)
            .then(|| Ended { reason: text(&self.exit_reason), message: text(&self.exit_message) })
    }
}

impl Selection {
    fn write(&self, slots: &[Slot]) {
        // Only the slots of the earlier list have their flags set.
        let listed = self.count.load(Ordering::Relaxed) as usize;
        for slot in self.slots.iter().take(listed) {
            self.is_selected[usize::from(slot.load(Ordering::Relaxed))].store(0, Ordering::Relaxed);
        }
        for (place, slot) in self.slots.iter().zip(slots) {
            place.store(slot.number(), Ordering::Relaxed);
            self.is_selected[slot.index()].store(1, Ordering::Relaxed);
        }
        let count = u32::try_from(slots.len().min(SLOTS)).expect("few slots");
        self.count.store(count, Ordering::Relaxed);
    }
}

/// Text up to the first zero byte.
fn text(bytes: &[AtomicU8]) -> String {
    let bytes: Vec<u8> = bytes
        .iter()
        .map(|byte| byte.load(Ordering::Relaxed))
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> Box<Shared> {
        let selection = || Selection {
            count: AtomicU32::new(0),
            slots: std::array::from_fn(|_| AtomicU16::new(0)),
            is_selected: std::array::from_fn(|_| AtomicU8::new(0)),
        };
        Box::new(Shared {
            active: AtomicU32::new(0),
            exit_kind: AtomicU32::new(0),
            exit_reason: std::array::from_fn(|_| AtomicU8::new(0)),
            exit_message: std::array::from_fn(|_| AtomicU8::new(0)),
            selections: [selection(), selection()],
        })
    }

    /// Reads the active selection as the kernel does: by list, and by flag.
    fn active(shared: &Shared) -> (Vec<u16>, Vec<u16>) {
        let Some(selection) = shared.selections.get(shared.active.load(Ordering::Relaxed) as usize)
        else {
            return (Vec::new(), Vec::new());
        };
        let count = selection.count.load(Ordering::Relaxed) as usize;
        let listed = selection.slots[..count].iter().map(|slot| slot.load(Ordering::Relaxed));
        let flagged = (0..SLOTS)
            .filter(|slot| selection.is_selected[*slot].load(Ordering::Relaxed) == 1)
            .map(|slot| u16::try_from(slot).unwrap());
        (listed.collect(), flagged.collect())
    }

    #[test]
    fn a_selection_replaces_the_one_before_and_leaves_that_untouched() {
        let shared = shared();
        let slots = |numbers: &[usize]| -> Vec<Slot> {
            numbers.iter().map(|number| Slot::new(*number).unwrap()).collect()
        };
        for numbers in [&[1, 3][..], &[], &[0, 3, SLOTS - 1], &[2], &[], &[]] {
            let before = shared.active.load(Ordering::Relaxed);
            shared.select(&slots(numbers));
            let wanted: Vec<u16> = numbers.iter().map(|n| u16::try_from(*n).unwrap()).collect();
            assert_eq!(active(&shared), (wanted.clone(), wanted));
            assert!(numbers.is_empty() || shared.active.load(Ordering::Relaxed) != before);
        }
    }

    #[test]
    fn an_end_is_told_with_its_reason() {
        let shared = shared();
        assert_eq!(shared.ended(), None);
        for (byte, value) in shared.exit_reason.iter().zip(b"runnable task stall") {
            byte.store(*value, Ordering::Relaxed);
        }
        shared.exit_kind.store(1026, Ordering::Relaxed);
        assert_eq!(shared.ended().unwrap().to_string(), "runnable task stall");
    }

    #[test]
    fn the_layout_is_that_of_the_program() {
        let source = include_str!("../bpf/memweir.bpf.c");
        assert!(source.contains(&format!("#define MAX_SLOTS {SLOTS}\n")));
        assert!(source.contains(&format!("#define TEXT {TEXT}\n")));
        assert_eq!(std::mem::size_of::<Shared>(), 8 + 2 * TEXT + 2 * (4 + 3 * SLOTS));
    }
}
