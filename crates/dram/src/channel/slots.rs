//! Waiting requests: slots in a slab, linked by bank in the order of arrival.

use memweir_core::PhysAddr;

use crate::request::{Request, RowOutcome, Source};

/// Marks the absence of a slot.
pub(super) const NIL: u16 = u16::MAX;

/// A waiting request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) request: Request,
    pub(super) accepted: u64,
    /// Number of the request in the order of arrival.
    pub(super) number: u64,
    pub(super) row: u32,
    pub(super) column: u32,
    next: u16,
    pub(super) blamed: Option<Source>,
    /// Set by the first command for the request.
    pub(super) outcome: Option<RowOutcome>,
}

/// The requests of one direction for one bank, in the order of arrival, and the two that matter to
/// the scheduler: the oldest for the open row, and the oldest for another row.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u16,
    tail: u16,
    /// The oldest request for the open row.
    pub(super) hit: u16,
    /// The oldest request for another row; the oldest of all while the bank is closed.
    pub(super) other: u16,
    /// Number of requests.
    pub(super) length: u16,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: NIL, tail: NIL, hit: NIL, other: NIL, length: 0 };

    /// Returns the oldest request.
    pub(super) fn head(&self) -> u16 {
        self.head
    }
}

/// Marks a bank without an open row; no row has this number.
pub(super) const CLOSED: u32 = u32::MAX;

/// Buckets of [`Slots::lines`], a power of two.
const BUCKETS: usize = 256;

/// The slots of a channel.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// Waiting writes by a hash of their line, so that a search for one is rarely needed.
    lines: [u16; BUCKETS],
    next_number: u64,
}

impl Slots {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), lines: [0; BUCKETS], next_number: 0 }
    }

    #[inline]
    pub(super) fn get(&self, slot: u16) -> &Slot {
        &self.slots[slot as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: u16) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// Stores a request in a slot and appends it to `list`; `open` is the open row of its bank.
    pub(super) fn append(&mut self, list: &mut List, open: u32, mut slot: Slot) -> u16 {
        slot.number = self.next_number;
        slot.next = NIL;
        self.next_number += 1;
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u16
            }
        };
        if list.tail == NIL {
            list.head = place;
        } else {
            self.slots[list.tail as usize].next = place;
        }
        list.tail = place;
        list.length += 1;
        let oldest = if slot.row == open { &mut list.hit } else { &mut list.other };
        if *oldest == NIL {
            *oldest = place;
        }
        place
    }

    /// Removes `slot`, which is the oldest hit or the oldest other of its list, from the list,
    /// without freeing it.
    pub(super) fn unlink(&mut self, list: &mut List, open: u32, slot: u16) {
        let next = self.slots[slot as usize].next;
        if list.head == slot {
            list.head = next;
            if next == NIL {
                list.tail = NIL;
            }
        } else {
            let mut before = list.head;
            while self.slots[before as usize].next != slot {
                before = self.slots[before as usize].next;
            }
            self.slots[before as usize].next = next;
            if next == NIL {
                list.tail = before;
            }
        }
        list.length -= 1;
        if list.hit == slot {
            list.hit = self.find(next, |row| row == open);
        } else {
            list.other = self.find(next, |row| row != open);
        }
    }

    /// Finds the oldest hit and the oldest other again after a row was opened or closed.
    pub(super) fn sort(&self, list: &mut List, open: u32) {
        if open == CLOSED {
            (list.hit, list.other) = (NIL, list.head);
        } else {
            list.hit = self.find(list.head, |row| row == open);
            list.other = self.find(list.head, |row| row != open);
        }
    }

    fn find(&self, from: u16, wanted: impl Fn(u32) -> bool) -> u16 {
        let mut slot = from;
        while slot != NIL && !wanted(self.slots[slot as usize].row) {
            slot = self.slots[slot as usize].next;
        }
        slot
    }

    /// Frees a slot.
    pub(super) fn release(&mut self, slot: u16) {
        self.free.push(slot);
    }

    /// Counts a write to the line of `address` that begins to wait.
    pub(super) fn write_waits(&mut self, address: PhysAddr) {
        self.lines[bucket(address)] += 1;
    }

    /// Removes a write to the line of `address` from the count.
    pub(super) fn write_leaves(&mut self, address: PhysAddr) {
        self.lines[bucket(address)] -= 1;
    }

    /// Returns true if a write to the line of `address` may be waiting.
    pub(super) fn write_may_wait(&self, address: PhysAddr) -> bool {
        self.lines[bucket(address)] > 0
    }

    /// Returns true if `list` holds a request for this line.
    pub(super) fn holds(&self, list: &List, row: u32, column: u32) -> bool {
        let mut slot = list.head;
        while slot != NIL {
            let waiting = &self.slots[slot as usize];
            if (waiting.row, waiting.column) == (row, column) {
                return true;
            }
            slot = waiting.next;
        }
        false
    }
}

impl Slot {
    pub(super) fn new(request: Request, accepted: u64, row: u32, column: u32) -> Self {
        Self { request, accepted, number: 0, row, column, next: NIL, blamed: None, outcome: None }
    }
}

fn bucket(address: PhysAddr) -> usize {
    // Fibonacci hashing of the line number.
    ((address.0 >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize & (BUCKETS - 1)
}
