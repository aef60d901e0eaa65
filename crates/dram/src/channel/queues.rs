//! The read and the write queue of a channel, sorted by bank.

use memweir_core::Direction;

use super::slots::{List, NIL, Slot, Slots};
use crate::config::{MemoryConfig, Scheduler};
use crate::decode::Place;
use crate::request::{Request, RowOutcome, Source};
use crate::timer::{BankId, Shape};

/// The requests of a channel that no read or write has served.
///
/// A request waits in the list of its bank and direction, until it is served or a row is opened for
/// it. Then it leaves the list and keeps its slot until it is served.
///
/// - `waiting` is the number of requests in all lists of a direction, `unserved_reads` that of all
///   reads.
/// - A bank has its bit in `work` if and only if its list holds a request.
/// - None in the lists of a direction is older than `oldest`.
/// - The oldest hit and the oldest other request of each list refer to the open row of its bank.
///   After that row has changed, [`sort`](Self::sort) finds them again.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    slots: Slots,
    /// Waiting requests by bank and direction.
    lists: Vec<[List; 2]>,
    /// Masks of the banks with waiting requests, by rank and direction.
    work: Vec<[u64; 2]>,
    /// Number of waiting requests by direction.
    waiting: [u32; 2],
    /// Number of reads, waiting or not.
    unserved_reads: u32,
    /// Lower bound of the cycles in which these arrived, by direction.
    oldest: [u64; 2],
    /// Most requests that may wait, by direction.
    capacity: [u32; 2],
    /// True if each bank has a read queue of its own.
    by_bank: bool,
}

impl Queues {
    pub(super) fn new(config: &MemoryConfig, shape: Shape) -> Self {
        Self {
            slots: Slots::new(),
            lists: vec![[List::EMPTY; 2]; shape.ranks * shape.banks_of_rank()],
            work: vec![[0; 2]; shape.ranks],
            waiting: [0; 2],
            unserved_reads: 0,
            oldest: [0; 2],
            capacity: [config.read_queue, config.write_queue],
            by_bank: config.scheduler == Scheduler::PerBank,
        }
    }

    /// Returns the numbers of waiting reads and writes.
    #[inline]
    pub(super) fn waiting(&self) -> [u32; 2] {
        self.waiting
    }

    /// Returns the number of reads that wait, or whose rows were opened for them.
    #[inline]
    pub(super) fn unserved_reads(&self) -> u32 {
        self.unserved_reads
    }

    /// Returns the mask of the banks of a rank with waiting requests.
    #[inline]
    pub(super) fn work(&self, rank: usize, direction: Direction) -> u64 {
        self.work[rank][direction as usize]
    }

    /// Returns the requests of one direction that wait at a bank.
    #[inline]
    pub(super) fn list(&self, bank: usize, direction: Direction) -> &List {
        &self.lists[bank][direction as usize]
    }

    /// Returns true if a request of one direction has waited since before `cycle`.
    #[inline]
    pub(super) fn any_since_before(&mut self, direction: Direction, cycle: u64) -> bool {
        // Looking for the oldest is left out while the bound suffices: nearly always.
        if self.oldest[direction as usize] < cycle {
            let lists = self.lists.iter().map(|lists| &lists[direction as usize]);
            let heads = lists.map(List::head).filter(|head| *head != NIL);
            let arrivals = heads.map(|head| self.slots.get(head).accepted);
            self.oldest[direction as usize] = arrivals.min().unwrap_or(cycle);
        }
        self.oldest[direction as usize] < cycle
    }

    /// Returns true if a request that waits at the bank is for its open row.
    pub(super) fn has_hit(&self, bank: usize) -> bool {
        self.lists[bank].iter().any(|list| list.hit != NIL)
    }

    #[inline]
    pub(super) fn get(&self, slot: u16) -> &Slot {
        self.slots.get(slot)
    }

    /// Returns true if a request for this bank can be taken.
    #[inline]
    pub(super) fn has_room(&self, bank: usize, direction: Direction) -> bool {
        let of_bank = self.by_bank && direction == Direction::Read;
        let held = match of_bank {
            true => u32::from(self.list(bank, direction).length),
            false => self.waiting[direction as usize],
        };
        held < self.capacity[direction as usize]
    }

    /// Appends a request that arrives at `now` to the list of its bank, whose open row is `open`.
    #[inline]
    pub(super) fn push(
        &mut self,
        request: Request,
        now: u64,
        place: Place,
        bank: BankId,
        open: u32,
    ) {
        let direction = request.direction as usize;
        let slot = Slot::new(request, now, place.row, place.column);
        self.slots.append(&mut self.lists[bank.index][direction], open, slot);
        self.work[bank.rank][direction] |= bank.mask();
        self.waiting[direction] += 1;
        match request.direction {
            Direction::Read => self.unserved_reads += 1,
            Direction::Write => self.slots.write_waits(request.address),
        }
    }

    /// Removes a request, the oldest hit or the oldest other of its list, from the list; `open` is
    /// the open row of its bank.
    #[inline]
    pub(super) fn take(&mut self, slot: u16, bank: BankId, open: u32) {
        let direction = self.slots.get(slot).request.direction as usize;
        let list = &mut self.lists[bank.index][direction];
        self.slots.unlink(list, open, slot);
        self.waiting[direction] -= 1;
        if list.length == 0 {
            self.work[bank.rank][direction] &= !bank.mask();
        }
    }

    /// Finds the oldest hit and the oldest other request of a bank again, whose row `open` was
    /// opened, or which was closed ([`CLOSED`](super::slots::CLOSED)).
    #[inline]
    pub(super) fn sort(&mut self, bank: usize, open: u32) {
        for list in &mut self.lists[bank] {
            self.slots.sort(list, open);
        }
    }

    /// Fixes the row-buffer outcome of a request, and the requester that opened the row in its way,
    /// if this is the first command for it; returns false if it is not.
    #[inline]
    pub(super) fn settle(&mut self, slot: u16, outcome: RowOutcome, opener: Source) -> bool {
        let slot = self.slots.get_mut(slot);
        if slot.outcome.is_some() {
            return false;
        }
        slot.outcome = Some(outcome);
        slot.blamed = (outcome == RowOutcome::Conflict).then_some(opener);
        true
    }

    /// Frees the slot of a request that was served and has left its list.
    #[inline]
    pub(super) fn release(&mut self, slot: u16) {
        let request = self.slots.get(slot).request;
        match request.direction {
            Direction::Read => self.unserved_reads -= 1,
            Direction::Write => self.slots.write_leaves(request.address),
        }
        self.slots.release(slot);
    }

    /// Returns true if a write to the line of `request` waits, in the list of its bank or as
    /// `active`, the request for which the row of the bank was opened ([`NIL`] if there is none).
    #[inline]
    pub(super) fn holds_write(&self, request: &Request, place: Place, active: u16) -> bool {
        let is_line = |slot: &Slot| {
            slot.request.direction == Direction::Write
                && (slot.row, slot.column) == (place.row, place.column)
        };
        let list = self.list(place.bank as usize, Direction::Write);
        self.slots.write_may_wait(request.address)
            && (active != NIL && is_line(self.slots.get(active))
                || self.slots.holds(list, place.row, place.column))
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::PhysAddr;

    use super::super::slots::CLOSED;
    use super::*;
    use crate::spec::MemorySpec;

    /// Two ranks of two groups of two banks, each queue with room for three.
    fn queues(scheduler: Scheduler) -> (Queues, Shape) {
        let mut config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
        (config.read_queue, config.write_queue) = (3, 3);
        config.scheduler = scheduler;
        let shape = Shape { ranks: 2, groups: 2, banks: 2 };
        (Queues::new(&config, shape), shape)
    }

    fn request(tag: u32, direction: Direction) -> Request {
        Request { address: PhysAddr(u64::from(tag) * 64), direction, source: Source(0), tag }
    }

    fn place(bank: u16, row: u32, column: u32) -> Place {
        Place { channel: 0, bank, row, column }
    }

    #[test]
    fn what_waits_is_counted_and_marked_until_it_leaves() {
        let (mut queues, shape) = queues(Scheduler::FrFcfs);
        let bank = shape.bank(6);
        for tag in 0..3 {
            assert!(queues.has_room(6, Direction::Read));
            let row = 10 + (tag & 1);
            queues.push(request(tag, Direction::Read), 0, place(6, row, tag), bank, 11);
        }
        assert!(!queues.has_room(0, Direction::Read), "the queue is that of the channel");
        assert!(queues.has_room(6, Direction::Write));
        assert_eq!((queues.waiting(), queues.work(1, Direction::Read)), ([3, 0], 0b100));
        let list = *queues.list(6, Direction::Read);
        assert_eq!([list.hit, list.other].map(|slot| queues.get(slot).request.tag), [1, 0]);
        queues.take(list.hit, bank, 11);
        assert!(!queues.has_hit(6));
        queues.sort(6, 10);
        assert!(queues.has_hit(6));
        while queues.waiting() != [0, 0] {
            queues.take(queues.list(6, Direction::Read).hit, bank, 10);
        }
        assert_eq!(queues.work(1, Direction::Read), 0);
    }

    #[test]
    fn requests_of_both_directions_are_sorted_when_a_row_is_opened() {
        let (mut queues, shape) = queues(Scheduler::FrFcfs);
        let bank = shape.bank(6);
        for (tag, direction) in (0..).zip([Direction::Read, Direction::Write]) {
            for row in [10, 11] {
                queues.push(request(tag, direction), 0, place(6, row, tag), bank, CLOSED);
            }
        }
        queues.sort(6, 10);
        for direction in [Direction::Read, Direction::Write] {
            let list = *queues.list(6, direction);
            assert_eq!([list.hit, list.other].map(|slot| queues.get(slot).row), [10, 11]);
            queues.take(list.other, bank, 10);
            assert_eq!(queues.list(6, direction).other, NIL);
        }
    }

    #[test]
    fn banks_with_queues_of_their_own_fill_one_by_one() {
        let (mut queues, shape) = queues(Scheduler::PerBank);
        for tag in 0..3 {
            queues.push(request(tag, Direction::Read), 0, place(1, 0, tag), shape.bank(1), CLOSED);
        }
        assert!(!queues.has_room(1, Direction::Read));
        assert!(queues.has_room(2, Direction::Read));
    }

    #[test]
    fn the_first_command_decides_the_outcome() {
        let (mut queues, shape) = queues(Scheduler::FrFcfs);
        queues.push(request(0, Direction::Read), 4, place(0, 1, 0), shape.bank(0), 2);
        let slot = queues.list(0, Direction::Read).other;
        assert!(queues.settle(slot, RowOutcome::Conflict, Source(5)));
        assert!(!queues.settle(slot, RowOutcome::Hit, Source(6)));
        queues.take(slot, shape.bank(0), 2);
        let served = queues.get(slot);
        assert_eq!((served.outcome, served.blamed), (Some(RowOutcome::Conflict), Some(Source(5))));
        assert_eq!(served.accepted, 4);
    }

    #[test]
    fn a_write_is_found_until_it_is_served() {
        let (mut queues, shape) = queues(Scheduler::FrFcfs);
        let (write, at) = (request(7, Direction::Write), place(3, 1, 9));
        assert!(!queues.holds_write(&write, at, NIL));
        queues.push(write, 0, at, shape.bank(3), CLOSED);
        assert!(queues.holds_write(&write, at, NIL));
        let slot = queues.list(3, Direction::Write).other;
        queues.take(slot, shape.bank(3), 1);
        assert!(!queues.holds_write(&write, at, NIL));
        assert!(queues.holds_write(&write, at, slot), "its row was opened for it");
        queues.release(slot);
        assert!(!queues.holds_write(&write, at, slot));
    }

    /// Lines 0 and 233 share a bucket of the hash.
    #[test]
    fn no_other_line_and_no_read_is_taken_for_a_waiting_write() {
        let (mut queues, shape) = queues(Scheduler::FrFcfs);
        let (write, at) = (request(0, Direction::Write), place(3, 1, 9));
        let (read, other) = (request(233, Direction::Read), place(3, 1, 10));
        queues.push(write, 0, at, shape.bank(3), CLOSED);
        let slot = queues.list(3, Direction::Write).other;
        assert!(!queues.holds_write(&read, other, NIL));
        queues.push(read, 0, other, shape.bank(3), CLOSED);
        let waiting = queues.list(3, Direction::Read).other;
        assert!(!queues.holds_write(&read, other, waiting));
        queues.take(slot, shape.bank(3), 1);
        assert!(!queues.holds_write(&read, other, slot));
        assert!(queues.holds_write(&write, at, slot));
    }
}
