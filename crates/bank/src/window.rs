//! The reorder window of a core, in closed form.
//!
//! A core inserts and retires up to `width` instructions per cycle, in program order; an
//! instruction may enter once the one `depth` before it has retired. Time is counted in *slots*,
//! `width` of them per cycle. Nothing has to be simulated between two memory accesses: with I(x)
//! the slot at which instruction x enters and R(x) the slot at which it retires,
//!
//! * I(x) = max(I(x - 1) + 1, R(x - depth)),
//! * R(x) = max(R(x - 1) + 1, ready(x)),
//!
//! and an instruction that does not wait for memory is ready a cycle after it entered. So after an
//! access s, R(x) = R(s) + (x - s) up to the next access, and one entry per access is enough.

use std::collections::VecDeque;

/// Slot of an event that is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// One access in the window.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Number of its instruction in the program, counted from one.
    instruction: u64,
    /// First slot at which it may retire.
    ready: u64,
    /// Slot at which it retires.
    retire: u64,
}

impl Entry {
    /// Returns the slot at which a later instruction retires if only the order holds it up:
    /// R(s) + (x - s).
    fn in_order(self, instruction: u64) -> u64 {
        self.retire + (instruction - self.instruction)
    }
}

/// The number of an access of a core, in program order.
pub type AccessNumber = u64;

/// The window of one core.
#[derive(Clone, Debug)]
pub struct Window {
    width: u64,
    depth: u64,
    /// Accesses in program order. The front alone determines the retirement of the instructions up
    /// to the next access; older entries are dropped.
    entries: VecDeque<Entry>,
    /// Number of the front access.
    front: AccessNumber,
    /// Number of entries, from the front, with a known retirement; at least one.
    known: usize,
    /// Instruction and entry slot of the last access.
    last: (u64, u64),
    watched: Option<Watched>,
}

/// The watched instruction.
#[derive(Clone, Copy, Debug)]
struct Watched {
    instruction: u64,
    /// First slot at which it may retire by its own entry, which a stall delays; known once a later
    /// instruction has entered or stalled.
    ready: Option<u64>,
    /// Its retirement slot once known.
    retire: Option<u64>,
}

impl Window {
    /// Creates an empty window of `depth` instructions, of which `width` enter and retire per
    /// cycle; both are at least one.
    #[must_use]
    pub fn new(width: u32, depth: u32) -> Self {
        let start = Entry { instruction: 0, ready: 0, retire: 0 };
        Self {
            width: u64::from(width.max(1)),
            depth: u64::from(depth.max(1)),
            entries: VecDeque::from([start]),
            front: 0,
            known: 1,
            last: (0, 0),
            watched: None,
        }
    }

    /// Returns the slots per cycle.
    #[must_use]
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Returns the slot at which `instruction`, which is after all that entered, can enter; `None`
    /// while that depends on an unanswered access.
    pub fn entry_slot(&mut self, instruction: u64) -> Option<u64> {
        let (last, slot) = self.last;
        let unhindered = slot + (instruction - last);
        let Some(leaving) = instruction.checked_sub(self.depth) else { return Some(unhindered) };
        while self.entries.get(1).is_some_and(|next| next.instruction <= leaving) {
            if self.known < 2 {
                return None;
            }
            self.entries.pop_front();
            self.front += 1;
            self.known -= 1;
        }
        let front = self.entries[0];
        if front.instruction > leaving {
            return Some(unhindered);
        }
        Some(unhindered.max(front.in_order(leaving)))
    }

    /// Enters the access of `instruction` at `slot`. [`answered`](Self::answered) reports its
    /// answer.
    pub fn enter(&mut self, instruction: u64, slot: u64) -> AccessNumber {
        self.entries.push_back(Entry { instruction, ready: UNKNOWN, retire: UNKNOWN });
        self.pass(instruction);
        self.last = (instruction, slot);
        self.front + self.entries.len() as u64 - 1
    }

    /// Stalls the core at `instruction`, which is after all that entered: no later instruction
    /// enters before `slot`.
    pub fn stall(&mut self, instruction: u64, slot: u64) {
        self.pass(instruction);
        let entered = self.last.1 + (instruction - self.last.0);
        self.last = (instruction, entered.max(slot));
    }

    /// Records when the watched instruction entered, if the window is about to pass it.
    fn pass(&mut self, instruction: u64) {
        if let Some(watched) = self.watched
            && watched.ready.is_none()
            && watched.instruction <= instruction
        {
            let ready = Some(self.ready(watched.instruction));
            self.watched = Some(Watched { ready, ..watched });
        }
    }

    /// Returns the first slot at which `instruction` may retire by its own entry, with no access or
    /// stall between it and the last one.
    fn ready(&self, instruction: u64) -> u64 {
        self.last.1 + (instruction - self.last.0) + self.width
    }

    /// Returns the last instruction that has entered by `slot`, where `next` is the instruction of
    /// the next access to enter. It may be wrong by what the window holds.
    pub fn reached(&mut self, next: u64, slot: u64) -> u64 {
        let limit = match self.entry_slot(next) {
            Some(entry) => next - entry.saturating_sub(slot).min(next),
            // The oldest access without an answer keeps its place.
            None => self.entries.get(self.known).map_or(next, |e| e.instruction) + self.depth - 1,
        };
        let (last, since) = self.last;
        limit.min(last + slot.saturating_sub(since)).min(next - 1).max(last)
    }

    /// Watches the retirement of `instruction`, which [`retired`](Self::retired) returns.
    pub fn watch(&mut self, instruction: u64) {
        self.watched = Some(Watched { instruction, ready: None, retire: None });
    }

    /// Returns the slot at which the watched instruction retires, where `next` is the instruction
    /// of the next access or stall; `None` until the accesses before the watched instruction, or
    /// one behind it, have their answers.
    #[must_use]
    pub fn retired(&self, next: u64) -> Option<u64> {
        let Watched { instruction, ready, retire } = self.watched?;
        retire.or_else(|| {
            let is_next = self.is_answered() && next > instruction;
            let last = self.entries.back().filter(|_| is_next)?;
            Some(last.in_order(instruction).max(ready.unwrap_or_else(|| self.ready(instruction))))
        })
    }

    fn see(&mut self, before: Entry, entry: Entry) {
        if let Some(watched) = &mut self.watched
            && watched.retire.is_none()
            && entry.instruction >= watched.instruction
        {
            watched.retire = Some(if entry.instruction == watched.instruction {
                entry.retire
            } else {
                before.in_order(watched.instruction).max(watched.ready.unwrap_or(0))
            });
        }
    }

    /// Records that an access was answered at `slot`.
    pub fn answered(&mut self, access: AccessNumber, slot: u64) {
        let at = (access - self.front) as usize;
        self.entries[at].ready = slot;
        while let Some(entry) = self.entries.get(self.known).filter(|e| e.ready != UNKNOWN) {
            let before = self.entries[self.known - 1];
            let retire = before.in_order(entry.instruction).max(entry.ready);
            let entry = Entry { retire, ..*entry };
            self.entries[self.known] = entry;
            self.see(before, entry);
            self.known += 1;
        }
    }

    /// Returns the slot at which an access was answered: zero for accesses that retired long ago,
    /// `None` if it has no answer yet.
    #[must_use]
    pub fn answer_of(&self, access: AccessNumber) -> Option<u64> {
        let Some(at) = access.checked_sub(self.front) else { return Some(0) };
        let ready = self.entries.get(at as usize).map_or(0, |entry| entry.ready);
        (ready != UNKNOWN).then_some(ready)
    }

    /// Returns true if all accesses that entered have been answered.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.known == self.entries.len()
    }

    /// Returns the slot at which `instruction` retires, with no access between it and the last one
    /// that entered; `None` while an earlier access has no answer.
    #[must_use]
    pub fn retirement(&self, instruction: u64) -> Option<u64> {
        let last = self.entries.back().filter(|_| self.is_answered())?;
        Some(self.ready(instruction).max(last.in_order(instruction)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_memory_a_core_keeps_its_width() {
        let mut window = Window::new(4, 128);
        assert_eq!(window.entry_slot(1000), Some(1000));
        assert_eq!(window.retirement(1000), Some(1004));
    }

    #[test]
    fn a_watched_instruction_is_told_when_no_access_comes_before_it() {
        let mut window = Window::new(4, 128);
        window.watch(20);
        let first = window.enter(10, 10);
        assert_eq!(window.retired(30), None);
        window.answered(first, 500);
        assert_eq!(window.retired(20), None, "the access of the instruction itself is to come");
        assert_eq!(window.retired(21), Some(510));
    }

    #[test]
    fn a_watched_instruction_is_told_when_the_access_behind_it_is_known() {
        let mut window = Window::new(4, 128);
        window.watch(20);
        let [first, second] = [10, 30].map(|instruction| window.enter(instruction, instruction));
        window.answered(first, 500);
        assert_eq!(window.retired(50), None);
        window.answered(second, 40);
        assert_eq!(window.retired(50), Some(510));
    }

    #[test]
    fn a_watched_instruction_behind_a_stall_retires_after_it_entered() {
        let mut window = Window::new(4, 128);
        window.watch(20);
        let fault = window.enter(10, 10);
        window.answered(fault, 14);
        window.stall(10, 4_000);
        assert_eq!(window.retired(30), Some(4_014));
        let next = window.enter(30, 4_020);
        window.stall(30, 9_000);
        window.answered(next, 5_000);
        // Instruction 20 enters in slot 4010 and retires a cycle later.
        assert_eq!(window.retired(50), Some(4_014));
    }

    #[test]
    fn a_full_window_waits_for_its_oldest_access() {
        let mut window = Window::new(4, 128);
        assert_eq!(window.entry_slot(1), Some(1));
        let access = window.enter(1, 1);
        assert_eq!(window.entry_slot(128), Some(128));
        assert_eq!(window.entry_slot(129), None);
        window.answered(access, 800);
        // Instruction 1 retires at slot 800, where 129 enters; 131 needs 3, which retires at 802.
        assert_eq!(window.entry_slot(129), Some(800));
        assert_eq!(window.entry_slot(131), Some(802));
    }

    #[test]
    fn instructions_between_accesses_enter_one_by_one() {
        let mut window = Window::new(4, 128);
        assert_eq!([0, 500, 2_000].map(|slot| window.reached(1_000, slot)), [0, 500, 999]);
        let access = window.enter(1, 1);
        assert_eq!(window.reached(1_000, 500), 128, "the access keeps its place");
        window.answered(access, 800);
        // Instruction 101 retires at slot 900, where 229 enters.
        assert_eq!(window.reached(1_000, 900), 229);
        window.stall(229, 5_000);
        assert_eq!(window.entry_slot(1_000), Some(5_771));
    }

    #[test]
    fn instructions_behind_a_late_access_enter_behind_it() {
        let mut window = Window::new(4, 128);
        window.enter(10, 500);
        assert_eq!(window.entry_slot(20), Some(510));
    }

    #[test]
    fn answers_out_of_order_retire_in_order() {
        let mut window = Window::new(1, 8);
        let [first, second] = [1, 2].map(|instruction| {
            let slot = window.entry_slot(instruction).unwrap();
            window.enter(instruction, slot)
        });
        window.answered(second, 5);
        assert_eq!((window.answer_of(second), window.answer_of(first)), (Some(5), None));
        assert_eq!(window.retirement(3), None);
        window.answered(first, 50);
        assert_eq!(window.retirement(3), Some(52));
    }

    /// Computes the entry slots of the accesses without the closed form: each instruction on its
    /// own.
    fn by_the_book(depth: u64, width: u64, accesses: &[(u64, u64)]) -> Vec<u64> {
        let (mut enter, mut retire) = (vec![0u64], vec![0u64]);
        let mut of_accesses = Vec::new();
        for (gap, latency) in accesses {
            for place in 1..=*gap {
                let x = enter.len() as u64;
                let leaves = x.checked_sub(depth).map_or(0, |left| retire[left as usize]);
                let slot = (enter[enter.len() - 1] + 1).max(leaves);
                let ready = slot + if place == *gap { *latency + width } else { width };
                let before = retire[retire.len() - 1];
                enter.push(slot);
                retire.push((before + 1).max(ready));
            }
            of_accesses.push(enter[enter.len() - 1]);
        }
        of_accesses
    }

    proptest! {
        #[test]
        fn closed_form_is_instruction_by_instruction(
            accesses in prop::collection::vec((1u64..60, 0u64..300), 1..60),
            depth in 8u32..64, width in 1u32..6,
        ) {
            let mut window = Window::new(width, depth.max(2 * width));
            let mut slots = Vec::new();
            let mut instruction = 0;
            for (gap, latency) in &accesses {
                instruction += gap;
                let slot = window.entry_slot(instruction).expect("all are answered");
                let access = window.enter(instruction, slot);
                window.answered(access, slot + latency + u64::from(width));
                slots.push(slot);
            }
            let book = by_the_book(u64::from(depth.max(2 * width)), u64::from(width), &accesses);
            prop_assert_eq!(slots, book);
        }
    }
}
