//! CXL link model: adds latency and caps bandwidth in each direction between a host and a memory.

use std::collections::VecDeque;

use memweir_core::{Cycles, Direction, LINE_BYTES, Picos};

use crate::command::Command;
use crate::controllers::Controllers;
use crate::observer::Observer;
use crate::request::{Completion, Full, Request};
use crate::spec::Link as LinkSpec;
use crate::tagged::Tagged;
use crate::timer::NEVER;

/// One direction of a link; it sends lines one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// Time at which the last line has been sent, in picoseconds.
    free: u64,
}

/// A link with the requests and completions in flight on it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    latency: u64,
    /// Time to send a line, in picoseconds.
    line: u64,
    clock: u64,
    /// Direction to the memory, which carries written lines; read requests take no bandwidth.
    down: Lane,
    /// Direction to the host, which carries lines that were read.
    up: Lane,
    /// Requests that have not arrived, with the cycles of their arrival and their acceptance.
    requests: VecDeque<(u64, Cycles, Request)>,
    /// Requests that the controllers have not completed, with the cycles of their acceptance. The
    /// controllers see these tags in place of the requests' own.
    known: Tagged<(Cycles, Request)>,
    answers: VecDeque<Completion>,
    /// Cycle before which the controllers have no room for the request that has arrived.
    retry: u64,
}

/// Requests that a link holds before the memory accepts them, and lines that may wait to be sent to
/// the host before it accepts another read: the buffers of a CXL controller.
const CAPACITY: usize = 64;

impl Link {
    pub(crate) fn new(spec: LinkSpec, clock: Picos) -> Self {
        Self {
            latency: spec.latency.0,
            line: (LINE_BYTES as f64 / spec.bandwidth.0 * 1e12).round() as u64,
            clock: clock.0,
            down: Lane::default(),
            up: Lane::default(),
            requests: VecDeque::new(),
            known: Tagged::new(),
            answers: VecDeque::new(),
            retry: 0,
        }
    }

    /// Sends a request at `now`.
    pub(crate) fn send(&mut self, now: Cycles, request: Request) -> Result<(), Full> {
        if self.requests.len() >= CAPACITY {
            return Err(Full);
        }
        let takes = if request.direction == Direction::Write { self.line } else { 0 };
        let sent = self.down.send(now.0 * self.clock, takes);
        let arrival = (sent + self.latency).div_ceil(self.clock);
        self.requests.push_back((arrival, now, request));
        Ok(())
    }

    fn next_arrival(&self) -> u64 {
        self.requests.front().map_or(NEVER, |(arrival, _, _)| self.retry.max(*arrival))
    }

    fn next_answer(&self) -> u64 {
        self.answers.front().map_or(NEVER, |answer| answer.done.0)
    }

    /// Returns the cycle of the next event on the link.
    pub(crate) fn next(&self) -> u64 {
        self.next_arrival().min(self.next_answer())
    }

    /// Processes all events up to and including `to`, on the link and in the controllers.
    pub(crate) fn advance(
        &mut self,
        controllers: &mut Controllers,
        to: u64,
        observer: &mut impl Observer,
    ) {
        loop {
            let now = self.next().min(controllers.next());
            if now > to {
                return;
            }
            while self.next_answer() <= now
                && let Some(answer) = self.answers.pop_front()
            {
                observer.completed(&answer);
            }
            self.arrive(controllers, now);
            controllers.advance(now, &mut Relay { link: self, observer });
        }
    }

    /// Returns the first cycle in which at most [`CAPACITY`] lines wait to be sent to the host.
    fn room_for_lines(&self) -> u64 {
        self.up.free.saturating_sub(CAPACITY as u64 * self.line).div_ceil(self.clock)
    }

    /// Passes arrived requests to the controllers, as long as these and the direction to the host
    /// have room.
    fn arrive(&mut self, controllers: &mut Controllers, now: u64) {
        while self.next_arrival() <= now
            && let Some((_, accepted, request)) = self.requests.front().copied()
        {
            if request.direction == Direction::Read && self.room_for_lines() > now {
                self.retry = self.room_for_lines();
                return;
            }
            let tag = self.known.next_tag();
            if controllers.enqueue(now, Request { tag, ..request }).is_err() {
                // A command makes room, which can be used in the cycle after it.
                self.retry = controllers.next_for_requests().max(now) + 1;
                return;
            }
            self.requests.pop_front();
            self.known.insert((accepted, request));
        }
    }

    /// Sends a completion back to the host. That of a write carries no data.
    fn answer(&mut self, completion: &Completion) {
        let (accepted, request) = self.known.remove(completion.request.tag);
        let takes = if request.direction == Direction::Read { self.line } else { 0 };
        let sent = self.up.send(completion.done.0 * self.clock, takes);
        let done = Cycles((sent + self.latency).div_ceil(self.clock));
        self.answers.push_back(Completion { request, accepted, done, ..*completion });
    }

    /// Returns true if no request is in flight, on the link or behind it.
    pub(crate) fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.answers.is_empty() && self.known.is_empty()
    }
}

impl Lane {
    /// Sends an item that is ready at `from` and occupies the link for `takes`; returns the time at
    /// which it has been sent.
    fn send(&mut self, from: u64, takes: u64) -> u64 {
        self.free = self.free.max(from) + takes;
        self.free
    }
}

/// Observer of the controllers that sends completions over the link and passes commands on.
struct Relay<'a, O> {
    link: &'a mut Link,
    observer: &'a mut O,
}

impl<O: Observer> Observer for Relay<'_, O> {
    fn completed(&mut self, completion: &Completion) {
        self.link.answer(completion);
    }

    fn command(&mut self, command: &Command) {
        self.observer.command(command);
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::PhysAddr;

    use super::*;
    use crate::command::CommandKind;
    use crate::request::Source;
    use crate::{MemoryConfig, MemorySpec, MemorySystem};

    #[derive(Default)]
    struct Answers(Vec<(u64, u32)>, Vec<(u64, CommandKind)>);

    impl Observer for Answers {
        fn completed(&mut self, completion: &Completion) {
            self.0.push((completion.done.0 - completion.accepted.0, completion.request.tag));
        }

        fn command(&mut self, command: &Command) {
            self.1.push((command.at.0, command.kind));
        }
    }

    /// A memory with a cycle of 1 ns behind a link.
    fn memory(link: &str) -> MemorySystem {
        let text = format!("{}\n[link]\n{link}\n", include_str!("../data/ddr4-2400.toml"));
        let text = text.replace("clock_ns = 0.833", "clock_ns = 1");
        MemorySystem::new(&MemoryConfig::new(MemorySpec::parse("x", &text).unwrap())).unwrap()
    }

    /// Returns the latencies and tags of `count` reads of neighboring lines, offered in cycle zero
    /// or as soon as there is room, and the last cycle.
    fn reads(count: u32, link: &str) -> (Vec<(u64, u32)>, u64) {
        let mut memory = memory(link);
        let mut answers = Answers::default();
        let mut now = 0;
        for tag in 0..count {
            let address = PhysAddr(u64::from(tag) * 64);
            let direction = Direction::Read;
            let request = Request { address, direction, source: Source(0), tag };
            while memory.enqueue(Cycles(now), request).is_err() {
                let next = memory.next_event().unwrap();
                memory.advance(next, &mut answers);
                now = next.0 + 1;
            }
        }
        while let Some(next) = memory.next_event() {
            memory.advance(next, &mut answers);
            now = next.0;
        }
        assert!(memory.is_idle());
        (answers.0, now)
    }

    #[test]
    fn a_read_pays_the_latency_twice_and_its_line_once() {
        // 30 there, 38 in a closed bank, 2 for 64 bytes at 32 GB/s, 30 back.
        assert_eq!(reads(1, "latency_ns = 30\ngb_per_s = 32").0, [(100, 0)]);
    }

    /// Two writes 500 ns after a read of the same row, in which every fourth line is. Each line
    /// takes 16 ns, and the answer none.
    #[test]
    fn written_lines_take_turns_on_their_way_there() {
        let mut memory = memory("latency_ns = 30\ngb_per_s = 4");
        let mut answers = Answers::default();
        let requests = [(1, Direction::Read), (500, Direction::Write), (500, Direction::Write)];
        for (tag, (now, direction)) in (0..).zip(requests) {
            memory.advance(Cycles(now - 1), &mut answers);
            let address = PhysAddr(u64::from(tag) * 256);
            let request = Request { address, direction, source: Source(0), tag };
            memory.enqueue(Cycles(now), request).unwrap();
            assert!(!memory.is_idle());
        }
        while let Some(next) = memory.next_event() {
            memory.advance(next, &mut answers);
        }
        assert!(memory.is_idle());
        // The read: 30 there, 38 in a closed bank, 16 and 30 back. A write: 16 and 30 there,
        // CWL + BL/2 = 16, and 30 back.
        assert_eq!(answers.0, [(114, 0), (92, 1), (108, 2)]);
        use CommandKind as C;
        let commands = [(31, C::Activate), (48, C::Read), (546, C::Write), (562, C::Write)];
        assert_eq!(answers.1, commands);
    }

    #[test]
    fn no_more_comes_back_than_the_link_carries() {
        // 64 bytes at 4 GB/s are 16 ns: far slower than the memory.
        let (answers, end) = reads(1000, "latency_ns = 30\ngb_per_s = 4");
        // Before a read there are at most 64 on the link, 48 in the queue and the banks, and 64
        // lines on the way back.
        let longest = answers.iter().map(|(latency, _)| *latency).max().unwrap();
        assert!((64 * 16..177 * 16 + 98).contains(&longest), "{longest}");
        let mut tags: Vec<u32> = answers.into_iter().map(|(_, tag)| tag).collect();
        tags.sort_unstable();
        assert!(tags.into_iter().eq(0..1000), "each is answered once");
        assert!((16_000..16_200).contains(&end), "{end}");
    }
}
