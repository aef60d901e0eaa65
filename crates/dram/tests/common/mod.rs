//! The common experiment: its traces (`splitmix64`, seed 1) and its driver loop.

#![allow(dead_code)]

use std::convert::Infallible;

use memweir_core::{Cycles, Direction, PhysAddr};
use memweir_dram::command::{Command, CommandKind};
use memweir_dram::config::MapLayout;
use memweir_dram::drive::{Driven, Mode, Offer, PartObserver, drive};
use memweir_dram::request::{Completion, Source};
use memweir_dram::{MemoryConfig, MemorySpec, MemorySystem, Observer, Stats};

/// Kinds of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    StreamR,
    StreamW,
    BgR,
    RandR,
    RandW,
    /// Six streams, and four requests in ten at random addresses; three in ten are writes.
    Mix,
}

impl Kind {
    #[allow(dead_code)]
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

/// Returns addresses with the lowest bit set for writes, as in the experiment's binary format.
pub(crate) fn trace(kind: Kind) -> impl Iterator<Item = u64> {
    let mut state = if kind == Kind::Mix { 7 } else { 1 };
    let mut streams = [0; 6];
    if kind == Kind::Mix {
        streams = streams.map(|_: u64| splitmix64(&mut state) >> 37);
    }
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
        Kind::Mix => {
            let x = splitmix64(&mut state);
            let writes = (x >> 8) % 100 < 30;
            let line = match streams.get_mut((x % 10) as usize) {
                Some(stream) => {
                    *stream = (*stream + 1) & ((1 << 27) - 1);
                    *stream
                }
                None => x >> 37,
            };
            line << 6 | u64::from(writes)
        }
    })
}

/// Observer that keeps what it sees.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) completions: Vec<Completion>,
    pub(crate) commands: Vec<Command>,
}

impl Observer for Seen {
    fn completed(&mut self, completion: &Completion) {
        self.completions.push(*completion);
    }

    fn command(&mut self, command: &Command) {
        self.commands.push(*command);
    }
}

impl Seen {
    /// Returns the cycles and kinds of the commands.
    pub(crate) fn kinds(&self) -> Vec<(u64, CommandKind)> {
        self.commands.iter().map(|command| (command.at.0, command.kind)).collect()
    }

    /// Returns the latencies of all requests in the order of their completions.
    pub(crate) fn latencies(&self) -> Vec<u64> {
        self.completions.iter().map(|c| c.done.0 - c.accepted.0).collect()
    }
}

/// Result of a run.
pub(crate) struct Run {
    pub(crate) driven: Driven,
    pub(crate) stats: Stats,
}

impl Run {
    pub(crate) fn cycles(&self) -> f64 {
        self.driven.cycles.as_f64()
    }

    pub(crate) fn mean_latency(&self) -> f64 {
        self.driven.latencies.mean().expect("there are reads")
    }
}

/// Observer of the one memory that is driven.
struct Alone<'a, O>(&'a mut O);

impl<O: Observer> PartObserver for Alone<'_, O> {
    fn completed(&mut self, _: usize, completion: &Completion) {
        self.0.completed(completion);
    }

    fn command(&mut self, _: usize, command: &Command) {
        self.0.command(command);
    }
}

/// Runs the driver loop of the common experiment.
pub(crate) fn run(
    config: &MemoryConfig,
    words: impl IntoIterator<Item = u64>,
    mode: Mode,
    observer: &mut impl Observer,
) -> Run {
    let mut memory = MemorySystem::new(config).unwrap();
    let mut words = words.into_iter();
    let mut offered = 0;
    let offers = || {
        let offer = words.next().map(|word| Offer {
            address: PhysAddr(word & !1),
            direction: if word & 1 == 1 { Direction::Write } else { Direction::Read },
            source: Source(0),
            due: Cycles::ZERO,
        });
        offered += u64::from(offer.is_some());
        Ok::<_, Infallible>(offer)
    };
    let driven = drive(&mut memory, mode, offers, &mut Alone(observer)).unwrap().whole;
    let stats = memory.stats();
    driven.verify(offered, &stats).unwrap();
    Run { driven, stats }
}

/// Returns machine H with the address map of the other simulators.
pub(crate) fn machine_h() -> MemoryConfig {
    MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap()).with_layout(MapLayout::Plain)
}
