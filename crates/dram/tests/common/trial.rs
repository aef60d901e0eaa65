//! A random memory system under random load. The rule checker reads its commands, and a witness
//! checks the data of its requests. Everything follows from a seed.

#![allow(dead_code)]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use memweir_core::address_map::{AddressMap, Role, XorFunction};
use memweir_core::names::Named;
use memweir_core::{Cycles, Direction, PhysAddr};
use memweir_dram::check::Checker;
use memweir_dram::command::{BankAddress, Command, CommandKind};
use memweir_dram::config::{PagePolicy, PowerPolicy, RefreshPolicy, Scheduler};
use memweir_dram::request::{Completion, Request, RowOutcome, Source};
use memweir_dram::spec::{BankRefresh, SHIPPED};
use memweir_dram::{MemoryConfig, MemorySpec, MemorySystem, Observer};

/// A stream of random numbers (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Returns a random system of the memory called `name`; `hybrid` is DRAM and STT-RAM on one
/// channel.
pub(crate) fn config(name: &str, random: &mut Random) -> MemoryConfig {
    let ranks = random.of(&[1, 1, 2, 4]);
    let specs: Vec<Arc<MemorySpec>> = if name == "hybrid" {
        let (dram, nvm) = hybrid();
        (0..ranks.max(2)).map(|rank| Arc::clone(if rank % 2 == 0 { &dram } else { &nvm })).collect()
    } else {
        let spec = Arc::new(MemorySpec::shipped(name).unwrap());
        (0..ranks).map(|_| Arc::clone(&spec)).collect()
    };
    let mut config = MemoryConfig::of_ranks(specs, random.of(&[1, 1, 2]));
    config.scheduler = random.of(Scheduler::ALL);
    config.age_limit = random.of(&[None, Some(Cycles(200)), Some(Cycles(10_000))]);
    config.page = random.of(&[
        PagePolicy::Open,
        PagePolicy::Closed { accesses: 1 },
        PagePolicy::Closed { accesses: 4 },
        PagePolicy::Adaptive { timeout: Cycles(128) },
    ]);
    (config.read_queue, config.write_queue) = (random.of(&[1, 4, 32, 64]), random.of(&[1, 8, 32]));
    (config.low_watermark, config.high_watermark) =
        random.of(&[(0.2, 0.8), (0.0, 1.0), (0.5, 0.5)]);
    config.refresh = random.of(RefreshPolicy::ALL);
    if config.refresh == RefreshPolicy::PerBank
        && config.ranks.iter().any(|spec| spec.bank_refresh == BankRefresh::None)
    {
        config.refresh = RefreshPolicy::Staggered;
    }
    let has_refresh = config.ranks.iter().all(|spec| spec.refresh_interval().is_some());
    config.power = PowerPolicy {
        power_down_after: random.of(&[None, Some(Cycles(1)), Some(Cycles(100))]),
        self_refresh_after: random
            .of(&[None, None, Some(Cycles(1)), Some(Cycles(500))])
            .filter(|_| has_refresh),
    };
    scramble(&mut config.map, random);
    config
}

/// Returns DDR3-1600, and STT-RAM with as many rows.
fn hybrid() -> (Arc<MemorySpec>, Arc<MemorySpec>) {
    let (_, text) = SHIPPED.iter().find(|(name, _)| *name == "stt-ram").unwrap();
    let text = text.replace("rows = 32768", "rows = 16384");
    let nvm = MemorySpec::parse("stt-ram", &text).unwrap();
    (Arc::new(MemorySpec::shipped("ddr3-1600").unwrap()), Arc::new(nvm))
}

/// Permutes the address bits above a line, and XORs row bits into the functions that choose banks.
fn scramble(map: &mut AddressMap, random: &mut Random) {
    let mut order: Vec<u32> = (6..map.bits).collect();
    for i in (1..order.len()).rev() {
        if random.once_in(3) {
            order.swap(i, random.below(i as u64 + 1) as usize);
        }
    }
    let dealt = |function: XorFunction| {
        let bit = function.0.trailing_zeros();
        if bit < 6 { function } else { XorFunction(1 << order[bit as usize - 6]) }
    };
    for function in map.row.iter_mut().chain(&mut map.column) {
        *function = dealt(*function);
    }
    let row: u64 = map.row.iter().fold(0, |bits, function| bits | function.0);
    for set in &mut map.functions {
        set.function = dealt(set.function);
        if random.once_in(2) {
            set.function.0 |= random.next() & random.next() & row;
        }
    }
}

/// Result of a trial. Faults that must never happen panic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) commands: u64,
    pub(crate) requests: u64,
    pub(crate) longest: u64,
}

/// Events within which a full queue must get room, and a system must become idle.
const MOST_EVENTS: u64 = 100_000;

/// A cycle that no trial reaches.
const FAR: u64 = 1 << 50;

/// Sends `requests` random requests through `config`.
pub(crate) fn run(config: &MemoryConfig, requests: u64, random: &mut Random) -> Outcome {
    let mut system = MemorySystem::new(config).unwrap();
    let mut watch = Watch {
        checker: Checker::new(config).unwrap(),
        witness: Witness::new(config, requests),
        last: VecDeque::new(),
    };
    let (mut load, mut now, mut sent) = (Load::new(config, random), 0, 0);
    while sent < requests {
        let mut offers = load.offers(random);
        while offers > 0 && sent < requests {
            let request = load.request(sent as u32, random);
            let mut patience = MOST_EVENTS;
            while system.enqueue(Cycles(now), request).is_err() {
                patience -= 1;
                assert!(patience > 0, "no room for {request:?} until {now}: {:?}", watch.last);
                let event = system.next_event().expect("a full queue that nothing will empty");
                assert!(
                    event.0 >= now && event.0 < FAR,
                    "event {event:?} at {now}: {:?}",
                    watch.last
                );
                system.advance(event, &mut watch);
                now = event.0 + 1;
            }
            watch.witness.accepted(now, &request);
            (sent, offers) = (sent + 1, offers - 1);
        }
        system.advance(Cycles(now), &mut watch);
        now += 1 + load.gap(random);
        system.advance(Cycles(now - 1), &mut watch);
    }
    let mut patience = MOST_EVENTS;
    while let Some(event) = system.next_event() {
        patience -= 1;
        assert!(patience > 0, "no end of {} requests until {now}: {:?}", requests, watch.last);
        assert!(event.0 >= now && event.0 < FAR, "event {event:?} at {now}: {:?}", watch.last);
        system.advance(event, &mut watch);
        now = event.0;
    }
    assert!(system.is_idle(), "requests wait and no event will come");
    watch.finish(&system, now)
}

struct Watch {
    checker: Checker,
    witness: Witness,
    last: VecDeque<Command>,
}

impl Watch {
    fn finish(mut self, system: &MemorySystem, now: u64) -> Outcome {
        self.checker.finish(Cycles(now));
        if let Some(first) = self.checker.violations().first() {
            panic!("{} violations, the first: {first}", self.checker.count());
        }
        let (witness, stats) = (&self.witness, system.stats());
        assert_eq!(stats.requests(), witness.outstanding.len() as u64);
        assert!(
            witness.outstanding.iter().all(|request| request.is_none()),
            "an answer is missing"
        );
        let outcomes = stats.row_hits + stats.row_misses + stats.row_conflicts;
        assert_eq!(outcomes, stats.requests(), "{stats:?}");
        assert_eq!(witness.from_queue, stats.forwarded + stats.coalesced);
        assert!(witness.bursts.is_empty(), "data that nobody asked for: {:?}", witness.bursts);
        assert_eq!(witness.activates, stats.activates);
        Outcome {
            commands: self.checker.commands(),
            requests: stats.requests(),
            longest: witness.longest,
        }
    }
}

impl Observer for Watch {
    fn completed(&mut self, completion: &Completion) {
        self.witness.completed(completion);
    }

    fn command(&mut self, command: &Command) {
        self.checker.check(command);
        self.last.truncate(7);
        self.last.push_front(*command);
        self.witness.command(command);
    }
}

/// Checks that each request is answered once, by a burst in the right direction at the location
/// that the address map (not the controller's decoder) gives.
struct Witness {
    config: MemoryConfig,
    outstanding: Vec<Option<(u64, Request)>>,
    /// Bursts by channel and the cycle of their end.
    bursts: HashMap<(u16, u64), Command>,
    from_queue: u64,
    activates: u64,
    longest: u64,
}

impl Witness {
    fn new(config: &MemoryConfig, requests: u64) -> Self {
        Self {
            config: config.clone(),
            outstanding: Vec::with_capacity(requests as usize),
            bursts: HashMap::new(),
            from_queue: 0,
            activates: 0,
            longest: 0,
        }
    }

    fn accepted(&mut self, now: u64, request: &Request) {
        assert_eq!(request.tag as usize, self.outstanding.len());
        self.outstanding.push(Some((now, *request)));
    }

    fn command(&mut self, command: &Command) {
        self.activates += u64::from(command.kind == CommandKind::Activate);
        let spec = &self.config.ranks[usize::from(command.to.rank)];
        let latency = match command.kind.direction() {
            Some(Direction::Read) => spec.read_latency,
            Some(Direction::Write) => spec.write_latency,
            None => return,
        };
        let end = command.at + latency + spec.burst;
        let before = self.bursts.insert((command.to.channel, end.0), *command);
        assert!(before.is_none(), "two bursts end at {}", end.0);
    }

    fn completed(&mut self, completion: &Completion) {
        let Completion { request, accepted, done, outcome, .. } = completion;
        let slot = self.outstanding.get_mut(request.tag as usize).and_then(Option::take);
        let (since, sent) = slot.unwrap_or_else(|| panic!("answered twice: {completion:?}"));
        assert_eq!((sent, since), (*request, accepted.0));
        self.longest = self.longest.max(done.0 - accepted.0);
        let map = &self.config.map;
        let value = |role| map.value_of(role, request.address) as u16;
        let organization = &self.config.spec().organization;
        let channel =
            value(Role::Channel) * organization.sub_channels as u16 + value(Role::SubChannel);
        if done.0 == accepted.0 + 1 {
            assert_eq!(*outcome, RowOutcome::Hit);
            self.from_queue += 1;
            return;
        }
        let (rank, group, bank) = (value(Role::Rank), value(Role::BankGroup), value(Role::Bank));
        let to = BankAddress { channel, rank, group, bank };
        let place = map.decode(request.address);
        let is_its = |burst: &Command| {
            (burst.to, burst.kind.direction()) == (to, Some(request.direction))
                && (u64::from(burst.row), u64::from(burst.column)) == (place.row, place.column >> 6)
        };
        let key = match self.config.spec().link {
            None => Some((channel, done.0)),
            // The answer came over the link some time after the burst.
            Some(_) => {
                let bursts = self.bursts.iter();
                let its = bursts.filter(|((_, end), burst)| *end < done.0 && is_its(burst));
                its.map(|(key, _)| *key).min()
            }
        };
        let Some(burst) = key.and_then(|key| self.bursts.remove(&key)) else {
            // The link hides which requests were answered from the queue.
            assert!(self.config.spec().link.is_some(), "no data came for {completion:?}");
            self.from_queue += 1;
            return;
        };
        assert!(is_its(&burst), "{completion:?} by {burst:?}");
    }
}

/// Distribution of the addresses and times of requests.
struct Load {
    bytes: u64,
    shape: Shape,
    writes: u64,
    next: u64,
    rows: Vec<u64>,
}

#[derive(Clone, Copy)]
enum Shape {
    Stream,
    Uniform,
    FewRows,
    FewLines,
}

impl Load {
    fn new(config: &MemoryConfig, random: &mut Random) -> Self {
        let bytes = 1 << config.map.bits;
        Self {
            bytes,
            shape: random.of(&[Shape::Stream, Shape::Uniform, Shape::FewRows, Shape::FewLines]),
            writes: random.of(&[0, 33, 50, 100]),
            next: random.below(bytes),
            rows: (0..8).map(|_| random.below(bytes)).collect(),
        }
    }

    /// Returns the number of requests that arrive at once.
    fn offers(&mut self, random: &mut Random) -> u64 {
        if random.once_in(500) {
            let shapes = [Shape::Stream, Shape::Uniform, Shape::FewRows, Shape::FewLines];
            (self.shape, self.writes) = (random.of(&shapes), random.of(&[0, 10, 33, 50, 100]));
        }
        random.of(&[1, 1, 1, 4, 40])
    }

    fn gap(&mut self, random: &mut Random) -> u64 {
        match random.below(2000) {
            0 => random.below(30_000),
            1..20 => random.below(1000),
            20..600 => random.below(20),
            _ => 0,
        }
    }

    fn request(&mut self, tag: u32, random: &mut Random) -> Request {
        let address = match self.shape {
            Shape::Stream => {
                self.next += 64;
                self.next
            }
            Shape::Uniform => random.next(),
            Shape::FewRows => self.rows[random.below(8) as usize] ^ (random.below(128) << 6),
            Shape::FewLines => self.rows[random.below(8) as usize] ^ (random.below(2) << 20),
        };
        let writes = random.below(100) < self.writes;
        Request {
            address: PhysAddr((address % self.bytes) & !63),
            direction: if writes { Direction::Write } else { Direction::Read },
            source: Source(random.below(4) as u16),
            tag,
        }
    }
}
