//! The common experiment: its traces (`splitmix64`, seed 1) and its driver loop.

#![allow(dead_code)]

use memweir_core::{Cycles, PhysAddr};
use memweir_dram::request::{Completion, Direction, Request, Source};
use memweir_dram::{MemoryConfig, MemorySpec, MemorySystem, Observer, Stats};

/// Kinds of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    StreamR,
    StreamW,
    BgR,
    RandR,
    RandW,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] =
        [Kind::StreamR, Kind::StreamW, Kind::BgR, Kind::RandR, Kind::RandW];
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Addresses with the lowest bit set for writes, as the binary format of the experiment has them.
pub(crate) fn trace(kind: Kind) -> impl Iterator<Item = u64> {
    let mut state = 1;
    (0u64..).map(move |i| match kind {
        Kind::StreamR => (i & ((1 << 27) - 1)) << 6,
        Kind::StreamW => (i & ((1 << 27) - 1)) << 6 | u64::from(i % 3 == 2),
        Kind::BgR => {
            let (group, column, bank, row) = (i & 3, i >> 2 & 127, i >> 9 & 3, i >> 11 & 65535);
            (column | group << 7 | bank << 9 | row << 11) << 6
        }
        Kind::RandR | Kind::RandW => {
            let x = splitmix64(&mut state);
            let writes = kind == Kind::RandW && ((x & 0xffff) * 100) >> 16 < 33;
            (x >> 37) << 6 | u64::from(writes)
        }
    })
}

/// When requests are offered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    Sat,
    Mlp(u64),
    Pace(u64),
}

/// What a run showed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) cycles: u64,
    pub(crate) stats: Stats,
    pub(crate) latencies: Vec<u32>,
}

impl Run {
    pub(crate) fn mean(&self) -> f64 {
        self.latencies.iter().map(|l| f64::from(*l)).sum::<f64>() / self.latencies.len() as f64
    }

    pub(crate) fn percentile(&self, share: f64) -> u32 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        sorted[((sorted.len() - 1) as f64 * share) as usize]
    }
}

struct Counter {
    outstanding: u64,
    pace: u64,
    last: u64,
    latencies: Vec<u32>,
}

impl Observer for Counter {
    fn completed(&mut self, completion: &Completion) {
        self.last = completion.done.0;
        if completion.request.direction == Direction::Read {
            self.outstanding -= 1;
            let from = match self.pace {
                0 => completion.accepted.0,
                pace => u64::from(completion.request.tag) * pace,
            };
            self.latencies.push((completion.done.0 - from) as u32);
        }
    }
}

/// The driver loop of the common experiment: at most one request per cycle, in order.
pub(crate) fn drive(config: &MemoryConfig, requests: impl Iterator<Item = u64>, mode: Mode) -> Run {
    let mut memory = MemorySystem::new(config).unwrap();
    let mut counter = Counter { outstanding: 0, pace: 0, last: 0, latencies: Vec::new() };
    if let Mode::Pace(pace) = mode {
        counter.pace = pace;
    }
    let mut now = 0;
    for (tag, word) in requests.enumerate() {
        let direction = if word & 1 == 1 { Direction::Write } else { Direction::Read };
        let address = PhysAddr(word & !1);
        let request = Request { address, direction, source: Source(0), tag: tag as u32 };
        if let Mode::Pace(pace) = mode {
            now = now.max(tag as u64 * pace);
            if now > 0 {
                memory.advance(Cycles(now - 1), &mut counter);
            }
        }
        loop {
            let may = match mode {
                Mode::Mlp(most) => direction == Direction::Write || counter.outstanding < most,
                _ => true,
            };
            if may && memory.enqueue(Cycles(now), request).is_ok() {
                break;
            }
            now = now.max(memory.next_event().unwrap().0);
            memory.advance(Cycles(now), &mut counter);
            now += 1;
        }
        if direction == Direction::Read {
            counter.outstanding += 1;
        }
        memory.advance(Cycles(now), &mut counter);
        now += 1;
    }
    while let Some(next) = memory.next_event() {
        memory.advance(next, &mut counter);
    }
    let stats = memory.stats();
    assert_eq!(stats.requests(), stats.row_hits + stats.row_misses + stats.row_conflicts);
    Run { cycles: counter.last + 1, stats, latencies: counter.latencies }
}

/// Machine H.
pub(crate) fn machine_h() -> MemoryConfig {
    MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap())
}
