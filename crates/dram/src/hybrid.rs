//! Several memory systems side by side, each with its own channels and clock, such as DRAM beside
//! NVM or memory behind a link. Physical addresses choose among them, and time is in cycles of the
//! first one's clock.

use memweir_core::input::Refusal;
use memweir_core::{Bytes, Cycles, PhysAddr};

use crate::command::Command;
use crate::config::MemoryConfig;
use crate::drive::{PartObserver, Target};
use crate::observer::Observer;
use crate::request::{Completion, Full, Request};
use crate::stats::Stats;
use crate::system::MemorySystem;

/// One of the memory systems.
#[derive(Clone, Debug)]
struct Part {
    start: u64,
    bytes: u64,
    /// Clock period in picoseconds.
    clock: u64,
    /// The first cycle that the part has not advanced through.
    cycle: u64,
    system: MemorySystem,
}

/// Memory systems side by side.
#[derive(Clone, Debug)]
pub struct Hybrid {
    parts: Vec<Part>,
}

impl Hybrid {
    /// Builds the parts, each with the physical address at which it begins.
    ///
    /// # Errors
    /// If there is none, one cannot work, or two share addresses.
    pub fn new(parts: &[(PhysAddr, MemoryConfig)]) -> Result<Self, Refusal> {
        if parts.is_empty() {
            return Err(Refusal::new("a memory of no parts", "at least one"));
        }
        let mut ranges: Vec<(u64, u64)> =
            parts.iter().map(|(start, config)| (start.0, config.capacity().0)).collect();
        ranges.sort_unstable();
        let overlap = ranges.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0);
        if let Some(pair) = overlap {
            let (second, first) = (PhysAddr(pair[1].0), Bytes(pair[0].1));
            return Err(Refusal::new(
                format!("two parts share {second}"),
                format!("the part before it is as large as {first}"),
            ));
        }
        let part = |(start, config): &(PhysAddr, MemoryConfig)| {
            Ok(Part {
                start: start.0,
                bytes: config.capacity().0,
                clock: config.spec().clock.0,
                cycle: 0,
                system: MemorySystem::new(config)?,
            })
        };
        Ok(Self { parts: parts.iter().map(part).collect::<Result<_, Refusal>>()? })
    }

    /// Returns the part that holds `address`.
    fn part_of(&self, address: PhysAddr) -> Option<usize> {
        self.parts.iter().position(|part| {
            address.0.checked_sub(part.start).is_some_and(|within| within < part.bytes)
        })
    }

    /// Returns the clock period of the first part, in picoseconds.
    fn clock(&self) -> u64 {
        self.parts[0].clock
    }
}

impl Target for Hybrid {
    fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Offers `request`, which its part accepts in its own next cycle.
    ///
    /// # Errors
    /// If the queue has no room; nothing has changed then.
    ///
    /// # Panics
    /// If no part holds the address.
    fn enqueue(&mut self, now: Cycles, request: Request) -> Result<(), Full> {
        let now = now.0 * self.clock();
        let part = self.part_of(request.address);
        let part = part.unwrap_or_else(|| panic!("no memory at {}", request.address));
        let part = &mut self.parts[part];
        let cycle = part.cycle.max(now.div_ceil(part.clock));
        let address = PhysAddr(request.address.0 - part.start);
        part.system.enqueue(Cycles(cycle), Request { address, ..request })
    }

    fn next_event(&self) -> Option<Cycles> {
        let next = |part: &Part| Some(part.system.next_event()?.0 * part.clock);
        self.parts.iter().filter_map(next).min().map(|at| Cycles(at / self.clock()))
    }

    /// Advances up to the end of cycle `to`, one part after the other. A cycle lasts until the next
    /// begins, so events of parts with other clocks within it have happened before the next request
    /// is offered.
    fn advance(&mut self, to: Cycles, observer: &mut impl PartObserver) {
        let clock = self.clock();
        let end = (to.0 + 1) * clock - 1;
        for (number, part) in self.parts.iter_mut().enumerate() {
            let last = end / part.clock;
            let clocks = [part.clock, clock];
            let mut within = Within { number, start: part.start, clocks, observer };
            part.system.advance(Cycles(last), &mut within);
            part.cycle = part.cycle.max(last + 1);
        }
    }

    fn stats(&self) -> Vec<Stats> {
        self.parts.iter().map(|part| part.system.stats()).collect()
    }
}

/// Observer of one part that translates its events into parts, physical addresses and cycles of the
/// first part's clock.
struct Within<'a, O> {
    number: usize,
    start: u64,
    /// Clock periods of this part and of the first.
    clocks: [u64; 2],
    observer: &'a mut O,
}

impl<O: PartObserver> Observer for Within<'_, O> {
    fn completed(&mut self, completion: &Completion) {
        let [own, first] = self.clocks;
        let address = PhysAddr(completion.request.address.0 + self.start);
        let request = Request { address, ..completion.request };
        let accepted = Cycles(completion.accepted.0 * own / first);
        let done = Cycles((completion.done.0 * own).div_ceil(first));
        let completion = Completion { request, accepted, done, ..*completion };
        self.observer.completed(self.number, &completion);
    }

    fn command(&mut self, command: &Command) {
        self.observer.command(self.number, command);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Source;
    use crate::spec::MemorySpec;
    use memweir_core::Direction;

    #[derive(Default)]
    struct Answers(Vec<(usize, [u64; 2], u64)>, Vec<(usize, Command)>);

    impl PartObserver for Answers {
        fn completed(&mut self, part: usize, completion: &Completion) {
            let times = [completion.accepted.0, completion.done.0];
            self.0.push((part, times, completion.request.address.0));
        }

        fn command(&mut self, part: usize, command: &Command) {
            self.1.push((part, *command));
        }
    }

    fn config(clock_ns: &str) -> MemoryConfig {
        let text = include_str!("../data/ddr4-2400.toml");
        let text = text.replace("clock_ns = 0.833", &format!("clock_ns = {clock_ns}"));
        MemoryConfig::new(MemorySpec::parse("x", &text).unwrap())
    }

    #[test]
    fn each_part_keeps_its_own_time() {
        let parts = [(PhysAddr(0), config("0.833")), (PhysAddr(8 << 30), config("2"))];
        let mut memory = Hybrid::new(&parts).unwrap();
        for address in [64, (8 << 30) + 64] {
            let request = Request {
                address: PhysAddr(address),
                direction: Direction::Read,
                source: Source(0),
                tag: 0,
            };
            memory.enqueue(Cycles(2), request).unwrap();
        }
        let mut answers = Answers::default();
        while let Some(next) = memory.next_event() {
            memory.advance(next, &mut answers);
        }
        // Cycle 1 of 2 ns is the first that is not before cycle 2 of 0.833 ns, in which it begins;
        // a read of a closed bank takes 38.
        let second = (39 * 2000_u64).div_ceil(833);
        assert_eq!(answers.0, [(0, [2, 40], 64), (1, [2, second], (8 << 30) + 64)]);
        // Commands are in cycles of their part's clock.
        let commands = answers.1.iter().map(|(part, command)| (*part, command.at.0));
        let of_part = |wanted| commands.clone().filter(move |(part, _)| *part == wanted);
        assert!(of_part(0).eq([(0, 2), (0, 19)]) && of_part(1).eq([(1, 1), (1, 18)]));
    }

    #[test]
    fn parts_that_share_addresses_are_refused() {
        let parts = [(PhysAddr(8 << 30), config("0.833")), (PhysAddr(64), config("2"))];
        assert!(Hybrid::new(&parts).unwrap_err().reason.contains("two parts share 0x200000000"));
        assert!(Hybrid::new(&[]).is_err());
    }
}
