//! A simulated machine with a known map, for measurement in place of a real one.
//!
//! It answers with latencies like those measured on real machines (see [`Noise`]) and reveals
//! nothing else: the map stays private.

mod machine;
mod noise;

pub use machine::Machine;
pub use noise::Noise;

use std::time::Duration;

use memweir_core::address_map::AddressMap;
use memweir_core::{LINE_BYTES, PhysAddr};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::hash::scramble;
use crate::oracle::{Latency, LatencyOracle, OracleError, Reach, Region};

/// Cycles per second of the simulated clock.
const CLOCK: f64 = 2.6e9;
/// Rounds from which on a loop is timed as a whole instead of round by round.
const LONG_LOOP: u32 = 1000;
/// Cycles that two reads of one line save: only the first goes to memory.
const SAME_LINE: f64 = 150.0;

/// A simulated machine as an oracle.
#[derive(Clone, Debug)]
pub struct Synthetic {
    machine: Machine,
    reach: Reach,
    noise: Noise,
    random: ChaCha8Rng,
    /// Seed of the addresses' costs, which change when the (virtual) processor moves.
    costs: u64,
    /// Cycles since the start.
    now: f64,
    moves_at: f64,
    /// Remaining measurements of the present burst, and the cycles that it adds to each.
    burst: (u32, f64),
}

impl Synthetic {
    /// Creates a machine with the map `map`, whose memory begins at the map's offset and has all
    /// the addresses that the map covers. `seed` decides everything that is random.
    #[must_use]
    pub fn new(map: &AddressMap, noise: Noise, seed: u64) -> Self {
        let machine = Machine::of(map);
        let region = Region { start: PhysAddr(map.offset), length: machine.memory() };
        let reach = Reach::new(vec![region]);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let costs = random.next_u64();
        let moves_at = exponential(&mut random) * noise.stays_for * CLOCK;
        Self { machine, reach, noise, random, costs, now: 0.0, moves_at, burst: (0, 0.0) }
    }

    /// Returns the cycles that an address adds to each of its measurements: 13 of 100 addresses are
    /// slow, the others differ little.
    fn cost(&self, address: PhysAddr) -> f64 {
        let hash = scramble((address.0 / LINE_BYTES) ^ self.costs);
        let slow = if hash % 100 < 13 { 2.62 } else { 0.0 };
        self.noise.per_address * (slow + 0.52 * normal(scramble(hash)))
    }

    /// Draws an event of probability `share`: 1 if it happens, else 0; for a long loop, the share
    /// of its rounds.
    fn happens(&mut self, share: f64, rounds: u32) -> f64 {
        match rounds >= LONG_LOOP {
            true => share,
            false => f64::from(u8::from(self.random.random::<f64>() < share)),
        }
    }

    /// Returns the cycles that a burst adds to this measurement.
    fn burst(&mut self) -> f64 {
        let (left, adds) = self.burst;
        if left > 0 {
            self.burst.0 -= 1;
            return adds;
        }
        if self.random.random::<f64>() < self.noise.bursts {
            let length = 1.0 + 40.0 * exponential(&mut self.random);
            self.burst = (length as u32, 30.0 + 120.0 * self.random.random::<f64>());
        }
        0.0
    }
}

impl LatencyOracle for Synthetic {
    fn reach(&self) -> &Reach {
        &self.reach
    }

    fn measure(&mut self, a: PhysAddr, b: PhysAddr, rounds: u32) -> Result<Latency, OracleError> {
        let mut latency = self.noise.base + self.cost(a) + self.cost(b);
        if a.0 / LINE_BYTES == b.0 / LINE_BYTES {
            latency -= SAME_LINE;
        } else if self.machine.conflict(a, b) {
            latency += self.noise.conflict * (1.0 - self.happens(self.noise.missed, rounds));
        }
        let per_round = self.noise.jitter_per_round;
        let sd = self.noise.jitter.hypot(per_round / f64::from(rounds.max(1)).sqrt());
        latency += sd * normal(self.random.next_u64());
        self.now += latency * f64::from(rounds);
        // A long loop averages over bursts and excludes outliers.
        if rounds < LONG_LOOP {
            latency += self.burst();
            let slow = self.happens(self.noise.outliers, rounds);
            if slow > 0.0 {
                let stopped = 400.0 * (15.0 * self.random.random::<f64>()).exp2();
                (latency, self.now) = (latency + stopped, self.now + stopped);
            }
            latency = (latency / self.noise.quantum).floor() * self.noise.quantum;
        }
        if self.now > self.moves_at {
            self.costs = self.random.next_u64();
            self.moves_at += exponential(&mut self.random) * self.noise.stays_for * CLOCK;
        }
        Ok(Latency(latency))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs_f64(self.now / CLOCK)
    }
}

/// Returns a nearly standard normal value: the sum of four uniform parts of `bits`.
pub(crate) fn normal(bits: u64) -> f64 {
    let parts = (0..4).map(|i| f64::from((bits >> (16 * i)) as u16) / 65536.0);
    (parts.sum::<f64>() - 2.0) * 3.0f64.sqrt()
}

/// Returns an exponential value with mean 1.
fn exponential(random: &mut ChaCha8Rng) -> f64 {
    -(1.0 - random.random::<f64>()).ln()
}

#[cfg(test)]
pub(crate) mod tests;
