//! Waiting requests: slots in a slab, linked by bank in the order of arrival.

use memweir_core::PhysAddr;

use crate::request::{Request, RowOutcome, Source};

/// Marks the absence of a slot.
pub(crate) const NIL: u16 = u16::MAX;

/// A waiting request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) request: Request,
    pub(crate) accepted: u64,
    /// Number of the request in the order of arrival.
    pub(crate) number: u64,
    pub(crate) row: u32,
    pub(crate) column: u32,
    next: u16,
    pub(crate) blamed: Option<Source>,
    /// Set by the first command for the request.
    pub(crate) outcome: Option<RowOutcome>,
}

/// The requests of one direction for one bank, in the order of arrival, and the two that matter to
/// the scheduler: the oldest for the open row, and the oldest for another row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u16,
    tail: u16,
    /// The oldest request for the open row.
    pub(crate) hit: u16,
    /// The oldest request for another row; the oldest of all while the bank is closed.
    pub(crate) other: u16,
    /// Number of requests.
    pub(crate) length: u16,
}

impl List {
    pub(crate) const EMPTY: Self = Self { head: NIL, tail: NIL, hit: NIL, other: NIL, length: 0 };

    /// Returns the oldest request.
    pub(crate) fn head(&self) -> u16 {
        self.head
    }
}

/// Marks a bank without an open row; no row has this number.
pub(crate) const CLOSED: u32 = u32::MAX;

/// Buckets of [`Slots::lines`], a power of two.
const BUCKETS: usize = 256;

/// The slots of a channel.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// Waiting writes by a hash of their line, so that a search for one is rarely needed.
    lines: [u16; BUCKETS],
    next_number: u64,
}

impl Slots {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), lines: [0; BUCKETS], next_number: 0 }
    }

    #[inline]
    pub(crate) fn get(&self, slot: u16) -> &Slot {
        &self.slots[slot as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u16) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// Stores a request in a slot and appends it to `list`; `open` is the open row of its bank.
    pub(crate) fn append(&mut self, list: &mut List, open: u32, mut slot: Slot) -> u16 {
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
    pub(crate) fn unlink(&mut self, list: &mut List, open: u32, slot: u16) {
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
    pub(crate) fn sort(&self, list: &mut List, open: u32) {
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
    pub(crate) fn release(&mut self, slot: u16) {
        self.free.push(slot);
    }

    /// Counts a write to the line of `address` that begins to wait.
    pub(crate) fn write_waits(&mut self, address: PhysAddr) {
        self.lines[bucket(address)] += 1;
    }

    /// Removes a write to the line of `address` from the count.
    pub(crate) fn write_leaves(&mut self, address: PhysAddr) {
        self.lines[bucket(address)] -= 1;
    }

    /// Returns true if a write to the line of `address` may be waiting.
    pub(crate) fn write_may_wait(&self, address: PhysAddr) -> bool {
        self.lines[bucket(address)] > 0
    }

    /// Returns true if `list` holds a request for this line.
    pub(crate) fn holds(&self, list: &List, row: u32, column: u32) -> bool {
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
    pub(crate) fn new(request: Request, accepted: u64, row: u32, column: u32) -> Self {
        Self { request, accepted, number: 0, row, column, next: NIL, blamed: None, outcome: None }
    }
}

fn bucket(address: PhysAddr) -> usize {
    // Fibonacci hashing of the line number.
    ((address.0 >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize & (BUCKETS - 1)
}
