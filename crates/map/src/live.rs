//! This machine's memory as an oracle.
//!
//! [`memweir_linux::arena`] provides the mechanisms (huge pages, their physical addresses, timed
//! reads); this module wraps them in a [`LatencyOracle`].

use std::time::{Duration, Instant};

use memweir_core::{Bytes, PhysAddr};
use memweir_linux::arena::{Arena, ArenaError, HUGE};

use crate::oracle::{Latency, LatencyOracle, OracleError, Reach, Region};

/// Upper limit of the memory that is taken as huge pages.
const MEMORY: Bytes = Bytes(2 << 30);
/// End of the hole for devices: memory above it may have an offset.
const HOLE_END: PhysAddr = PhysAddr(4 << 30);
/// Number of measurements between two checks for moved pages: some ten seconds.
const LOOK_EVERY: u64 = 1 << 18;

/// Memory at known physical addresses that can be timed: an [`Arena`], or a fake in tests.
pub trait Memory {
    /// Returns the physical start of each huge page, ascending.
    fn pages(&self) -> Vec<PhysAddr>;

    /// Returns the cycles of a round; `None` if an address is not in the memory.
    fn time(&mut self, a: PhysAddr, b: PhysAddr, rounds: u32) -> Option<f64>;

    /// Returns true if no page has moved.
    ///
    /// # Errors
    /// If that cannot be determined; the error is the reason.
    fn unmoved(&self) -> Result<bool, String>;
}

impl Memory for Arena {
    fn pages(&self) -> Vec<PhysAddr> {
        Arena::pages(self).collect()
    }

    fn time(&mut self, a: PhysAddr, b: PhysAddr, rounds: u32) -> Option<f64> {
        Arena::time(self, a, b, rounds)
    }

    fn unmoved(&self) -> Result<bool, String> {
        Arena::unmoved(self).map_err(|error| error.to_string())
    }
}

/// The memory of this machine.
#[derive(Debug)]
pub struct Live<M = Arena> {
    memory: M,
    reach: Reach,
    opened: Instant,
    measured: u64,
}

impl Live {
    /// Takes huge pages and looks up their physical addresses.
    ///
    /// # Errors
    /// If this machine's memory cannot be timed; the error has the reason and help.
    pub fn open() -> Result<Self, ArenaError> {
        Ok(Self::of(Arena::open(MEMORY)?))
    }
}

impl<M: Memory> Live<M> {
    /// Creates the oracle over `memory`. If half of it or more lies above 4 GiB, the rest is
    /// excluded, because the hole below may shift the two parts against each other.
    pub fn of(memory: M) -> Self {
        let pages = memory.pages();
        let above = pages.partition_point(|page| *page < HOLE_END);
        let pages = if 2 * above <= pages.len() { &pages[above..] } else { &pages[..] };
        let region = |start: &PhysAddr| Region { start: *start, length: HUGE };
        let reach = Reach::new(pages.iter().map(region).collect());
        Self { memory, reach, opened: Instant::now(), measured: 0 }
    }
}

impl<M: Memory> LatencyOracle for Live<M> {
    fn reach(&self) -> &Reach {
        &self.reach
    }

    fn measure(&mut self, a: PhysAddr, b: PhysAddr, rounds: u32) -> Result<Latency, OracleError> {
        self.measured += 1;
        if self.measured.is_multiple_of(LOOK_EVERY)
            && !self.memory.unmoved().map_err(OracleError)?
        {
            return Err(OracleError(
                "the kernel moved pages while they were measured; try again, or stop it for that \
                 time (echo 0 > /proc/sys/vm/compaction_proactiveness)"
                    .to_owned(),
            ));
        }
        self.memory
            .time(a, b, rounds)
            .map(Latency)
            .ok_or_else(|| OracleError(format!("{:#x} or {:#x} is out of reach", a.0, b.0)))
    }

    fn elapsed(&self) -> Duration {
        self.opened.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake {
        pages: Vec<PhysAddr>,
        moved: bool,
    }

    impl Memory for Fake {
        fn pages(&self) -> Vec<PhysAddr> {
            self.pages.clone()
        }

        fn time(&mut self, a: PhysAddr, b: PhysAddr, _: u32) -> Option<f64> {
            let there = |address: PhysAddr| {
                self.pages.iter().any(|page| (page.0..page.0 + HUGE.0).contains(&address.0))
            };
            (there(a) && there(b)).then_some(500.0)
        }

        fn unmoved(&self) -> Result<bool, String> {
            Ok(!self.moved)
        }
    }

    fn pages(numbers: &[u64]) -> Vec<PhysAddr> {
        numbers.iter().map(|number| PhysAddr(number * HUGE.0)).collect()
    }

    #[test]
    fn memory_below_the_hole_is_left_out_where_there_is_enough_above() {
        let above = Live::of(Fake { pages: pages(&[3, 2048, 2049]), moved: false });
        assert_eq!(above.reach().start(), HOLE_END);
        let below = Live::of(Fake { pages: pages(&[3, 4, 2049]), moved: false });
        assert_eq!(below.reach().start(), PhysAddr(3 * HUGE.0));
    }

    #[test]
    fn pages_that_moved_end_the_measuring() {
        let mut live = Live::of(Fake { pages: pages(&[2048]), moved: true });
        live.measured = LOOK_EVERY - 1;
        let error = live.measure(HOLE_END, HOLE_END, 1).unwrap_err();
        assert!(error.0.contains("moved pages"), "{error}");
        assert_eq!(live.measure(HOLE_END, HOLE_END, 1), Ok(Latency(500.0)));
        assert!(live.measure(HOLE_END, PhysAddr(0), 1).is_err());
    }
}
