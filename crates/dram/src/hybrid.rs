//! Several memory systems side by side, each with its own channels and clock, such as DRAM beside
//! NVM or memory behind a link. Physical addresses choose among them, and time is in picoseconds.

use memweir_core::input::Refusal;
use memweir_core::{Bytes, Cycles, PhysAddr, Picos};

use crate::command::Command;
use crate::config::MemoryConfig;
use crate::observer::Observer;
use crate::request::{Completion, Full, Request};
use crate::stats::Stats;
use crate::system::MemorySystem;

/// Observer of the parts of a [`Hybrid`].
pub trait HybridObserver {
    /// Part `part` completed a request at `at`. The cycles of the completion are those of the
    /// part's clock; the address is the physical one.
    fn completed(&mut self, part: usize, at: Picos, completion: &Completion) {
        let _ = (part, at, completion);
    }

    /// A command was issued in part `part`, in a cycle of its clock.
    fn command(&mut self, part: usize, command: &Command) {
        let _ = (part, command);
    }
}

impl HybridObserver for () {}

/// One of the memory systems.
#[derive(Clone, Debug)]
struct Part {
    start: u64,
    bytes: u64,
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
    #[must_use]
    pub fn part_of(&self, address: PhysAddr) -> Option<usize> {
        self.parts.iter().position(|part| {
            address.0.checked_sub(part.start).is_some_and(|within| within < part.bytes)
        })
    }

    /// Offers `request` at `now`; its part accepts it in its next cycle.
    ///
    /// # Errors
    /// If the queue has no room; nothing has changed then.
    ///
    /// # Panics
    /// If no part holds the address.
    pub fn enqueue(&mut self, now: Picos, request: Request) -> Result<(), Full> {
        let part = self.part_of(request.address);
        let part = part.unwrap_or_else(|| panic!("no memory at {}", request.address));
        let part = &mut self.parts[part];
        let cycle = part.cycle.max(now.0.div_ceil(part.clock));
        let address = PhysAddr(request.address.0 - part.start);
        part.system.enqueue(Cycles(cycle), Request { address, ..request })
    }

    /// Returns the time of the next event that a caller may wait for.
    #[must_use]
    pub fn next_event(&self) -> Option<Picos> {
        let next = |part: &Part| Some(Picos(part.system.next_event()?.0 * part.clock));
        self.parts.iter().filter_map(next).min()
    }

    /// Advances every part up to and including `to`, one part after the other.
    pub fn advance(&mut self, to: Picos, observer: &mut impl HybridObserver) {
        for (number, part) in self.parts.iter_mut().enumerate() {
            let last = to.0 / part.clock;
            let (start, clock) = (part.start, part.clock);
            part.system.advance(Cycles(last), &mut Within { number, start, clock, observer });
            part.cycle = part.cycle.max(last + 1);
        }
    }

    /// Returns true if no request waits or is being served.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.parts.iter().all(|part| part.system.is_idle())
    }

    /// Returns the clock period of each part.
    pub fn clocks(&self) -> impl Iterator<Item = Picos> + '_ {
        self.parts.iter().map(|part| Picos(part.clock))
    }

    /// Returns the counts of each part.
    #[must_use]
    pub fn stats(&self) -> Vec<Stats> {
        self.parts.iter().map(|part| part.system.stats()).collect()
    }
}

/// Observer of one part that translates its events into parts, physical addresses and picoseconds.
struct Within<'a, O> {
    number: usize,
    start: u64,
    clock: u64,
    observer: &'a mut O,
}

impl<O: HybridObserver> Observer for Within<'_, O> {
    fn completed(&mut self, completion: &Completion) {
        let address = PhysAddr(completion.request.address.0 + self.start);
        let request = Request { address, ..completion.request };
        let at = Picos(completion.done.0 * self.clock);
        self.observer.completed(self.number, at, &Completion { request, ..*completion });
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
    struct Answers(Vec<(usize, u64, u64)>);

    impl HybridObserver for Answers {
        fn completed(&mut self, part: usize, at: Picos, completion: &Completion) {
            self.0.push((part, at.0, completion.request.address.0));
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
            memory.enqueue(Picos(1000), request).unwrap();
        }
        let mut answers = Answers::default();
        while let Some(next) = memory.next_event() {
            memory.advance(next, &mut answers);
        }
        assert!(memory.is_idle());
        // Cycles 2 and 1 are the first not before 1 ns; a read of a closed bank takes 38.
        assert_eq!(answers.0, [(0, 40 * 833, 64), (1, 39 * 2000, (8 << 30) + 64)]);
    }

    #[test]
    fn parts_that_share_addresses_are_refused() {
        let parts = [(PhysAddr(8 << 30), config("0.833")), (PhysAddr(64), config("2"))];
        assert!(Hybrid::new(&parts).unwrap_err().reason.contains("two parts share 0x200000000"));
        assert!(Hybrid::new(&[]).is_err());
    }
}
