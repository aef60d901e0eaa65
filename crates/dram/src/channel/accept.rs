//! Accepts requests and queues their completions.

use memweir_core::Cycles;

use super::{Channel, index};
use crate::config::Scheduler;
use crate::decode::Place;
use crate::queue::{NIL, Slot};
use crate::request::{Completion, Direction, Full, Request, RowOutcome};

impl Channel {
    /// Accepts a request in cycle `now`.
    #[inline]
    pub(crate) fn enqueue(&mut self, now: u64, request: Request, place: Place) -> Result<(), Full> {
        let bank = place.bank as usize;
        if self.slots.write_may_wait(request.address) && self.write_waits(place) {
            self.answer_from_queue(now, request);
            return Ok(());
        }
        let way = index(request.direction);
        let state = &mut self.banks[bank];
        let (open, list) = (state.row, &mut state.lists[way]);
        let is_full = if self.options.scheduler == Scheduler::PerBank && way == 0 {
            u32::from(list.length) >= self.options.capacity[way]
        } else {
            self.waiting[way] >= self.options.capacity[way]
        };
        if is_full {
            return Err(Full);
        }
        let slot = Slot::new(request, now, place.row, place.column);
        self.slots.append(list, open, slot);
        let (rank, bit) = (self.shape().rank_of(bank), self.bit(bank));
        self.ranks[rank].work[way] |= 1 << bit;
        self.ranks[rank].stale[way] |= 1 << bit;
        self.ranks[rank].last_use = now;
        self.waiting[way] += 1;
        self.outstanding += 1;
        match request.direction {
            Direction::Read => self.stats.reads += 1,
            Direction::Write => {
                self.stats.writes += 1;
                self.slots.write_waits(request.address);
            }
        }
        self.floor = self.floor.max(now);
        self.select_after_arrival(bank, way);
        Ok(())
    }

    /// Returns true if a write to this line waits, in a list or as the request for which its row
    /// was opened.
    fn write_waits(&self, place: Place) -> bool {
        let bank = &self.banks[place.bank as usize];
        let active = (bank.active != NIL).then(|| self.slots.get(bank.active));
        let is_active = active.is_some_and(|slot| {
            slot.request.direction == Direction::Write
                && (slot.row, slot.column) == (place.row, place.column)
        });
        is_active || self.slots.holds(&bank.lists[1], place.row, place.column)
    }

    /// Completes a request from a waiting write to the same line: a read returns the data of the
    /// write, and a write replaces it.
    fn answer_from_queue(&mut self, now: u64, request: Request) {
        match request.direction {
            Direction::Read => {
                self.stats.reads += 1;
                self.stats.forwarded += 1;
            }
            Direction::Write => {
                self.stats.writes += 1;
                self.stats.coalesced += 1;
            }
        }
        self.stats.row_hits += 1;
        self.outstanding += 1;
        self.answer(Completion {
            request,
            accepted: Cycles(now),
            done: Cycles(now + 1),
            outcome: RowOutcome::Hit,
            blamed: None,
        });
    }

    /// Queues a completion; the queue is ordered by time of completion.
    pub(super) fn answer(&mut self, completion: Completion) {
        let later = self.answers.iter().rev().take_while(|other| other.done > completion.done);
        let place = self.answers.len() - later.count();
        self.answers.insert(place, completion);
    }
}
