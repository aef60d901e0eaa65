//! A detector's interface to a machine: the latency of two addresses that are read in turn.
//!
//! A [`LatencyOracle`] is live memory ([`Live`](crate::live::Live)) or a simulated machine
//! ([`Synthetic`](crate::synthetic::Synthetic)). Detection has no other access to either.

use std::time::Duration;

use memweir_core::{Bytes, LINE_BYTES, PhysAddr};

/// Processor clock cycles of one round: both addresses read once from memory.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Latency(pub f64);

/// Physically contiguous memory that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte, at the start of a line.
    pub start: PhysAddr,
    /// Length, a multiple of a line.
    pub length: Bytes,
}

impl Region {
    fn lines(self) -> u64 {
        self.length.0 / LINE_BYTES
    }

    fn contains(self, address: PhysAddr) -> bool {
        address.0.checked_sub(self.start.0).is_some_and(|within| within < self.length.0)
    }
}

/// The addresses that can be measured: non-overlapping regions in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    regions: Vec<Region>,
    /// Number of lines in all regions before each.
    before: Vec<u64>,
    lines: u64,
}

impl Reach {
    /// Creates the reach of these regions; empty ones are dropped.
    #[must_use]
    pub fn new(mut regions: Vec<Region>) -> Self {
        regions.retain(|region| region.lines() > 0);
        regions.sort_by_key(|region| region.start);
        let mut lines = 0;
        let mut before = Vec::with_capacity(regions.len());
        for region in &regions {
            before.push(lines);
            lines += region.lines();
        }
        Self { regions, before, lines }
    }

    /// Returns the regions in ascending order.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Returns the number of lines.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the first byte; zero for an empty reach.
    #[must_use]
    pub fn start(&self) -> PhysAddr {
        self.regions.first().map_or(PhysAddr(0), |region| region.start)
    }

    /// Returns the byte after the last; zero for an empty reach.
    #[must_use]
    pub fn end(&self) -> PhysAddr {
        self.regions.last().map_or(PhysAddr(0), |last| PhysAddr(last.start.0 + last.length.0))
    }

    /// Returns the address of line `number` of all, which must be below [`lines`](Self::lines).
    #[must_use]
    pub fn line(&self, number: u64) -> PhysAddr {
        let region = self.before.partition_point(|before| *before <= number) - 1;
        PhysAddr(self.regions[region].start.0 + (number - self.before[region]) * LINE_BYTES)
    }

    /// Returns true if `address` can be measured.
    #[must_use]
    pub fn contains(&self, address: PhysAddr) -> bool {
        let next = self.regions.partition_point(|region| region.start <= address);
        next > 0 && self.regions[next - 1].contains(address)
    }

    /// Returns the part from `start` to before `end`.
    #[must_use]
    pub fn within(&self, start: PhysAddr, end: PhysAddr) -> Self {
        let cut = |region: &Region| {
            let from = region.start.max(start);
            let to = (region.start.0 + region.length.0).min(end.0);
            Region { start: from, length: Bytes(to.saturating_sub(from.0)) }
        };
        Self::new(self.regions.iter().map(cut).collect())
    }
}

/// Reason for which an oracle stopped answering.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OracleError(pub String);

/// A machine whose memory can be timed.
pub trait LatencyOracle {
    /// Returns the addresses that can be measured.
    fn reach(&self) -> &Reach;

    /// Reads `a` and `b` in turn from memory, not from caches, `rounds` times, and returns the
    /// cycles of a round: a quantile of the rounds, so that one slow round has no effect.
    ///
    /// # Errors
    /// If the memory can no longer be measured.
    fn measure(&mut self, a: PhysAddr, b: PhysAddr, rounds: u32) -> Result<Latency, OracleError>;

    /// Returns the time that measuring has taken; simulated time for a simulated machine.
    fn elapsed(&self) -> Duration;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, length: u64) -> Region {
        Region { start: PhysAddr(start), length: Bytes(length) }
    }

    #[test]
    fn lines_are_numbered_through_the_regions() {
        let reach = Reach::new(vec![region(4096, 128), region(0, 64), region(512, 0)]);
        let lines: Vec<u64> = (0..reach.lines()).map(|number| reach.line(number).0).collect();
        assert_eq!(lines, [0, 4096, 4160]);
        assert!(lines.iter().all(|line| reach.contains(PhysAddr(*line))));
        assert!(!reach.contains(PhysAddr(64)) && !reach.contains(PhysAddr(4224)));
        assert_eq!((reach.start(), reach.end()), (PhysAddr(0), PhysAddr(4224)));
        let part = reach.within(PhysAddr(64), PhysAddr(4160));
        assert_eq!(part, Reach::new(vec![region(4096, 64)]));
    }
}
