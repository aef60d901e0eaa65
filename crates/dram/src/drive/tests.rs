use memweir_core::names::Named;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;
use crate::config::{MapLayout, MemoryConfig, PagePolicy, Scheduler};
use crate::energy::EnergyMeter;
use crate::request::{RowCounts, RowOutcome};
use crate::spec::MemorySpec;
use crate::system::MemorySystem;

fn memory(change: impl FnOnce(&mut MemoryConfig)) -> MemorySystem {
    // The addresses of these tests count rows and banks as the plain layout does.
    let config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
    let mut config = config.with_layout(MapLayout::Plain);
    change(&mut config);
    MemorySystem::new(&config).unwrap()
}

fn offer(address: u64, direction: Direction) -> Offer {
    Offer { address: PhysAddr(address), direction, source: Source(0), due: Cycles::ZERO }
}

fn drive_through(
    memory: &mut impl Target,
    plan: impl Into<DrivePlan>,
    offers: &[Offer],
) -> Result<DrivenParts, DriveError<Infallible>> {
    let mut offers = offers.iter().copied();
    drive(memory, plan, || Ok(offers.next()), &mut ())
}

fn drive_all(memory: &mut MemorySystem, mode: Mode, offers: &[Offer]) -> Driven {
    drive_through(memory, mode, offers).unwrap().whole
}

/// The driver's loop as defined, cycle by cycle.
fn naive(memory: &mut MemorySystem, mode: Mode, offers: &[Offer]) -> Driven {
    let mut nobody = ();
    let mut tally = Tally::new(mode.into(), 0, &mut nobody);
    let mut clock = 0;
    while tally.driven.requests() < offers.len() as u64 {
        if let Some(offer) = offers.get(tally.offered as usize) {
            let due = match mode {
                Mode::Pace(pace) => tally.offered * pace,
                Mode::Due => offer.due.0,
                _ => 0,
            };
            let may = clock >= due && tally.may_offer(offer.direction);
            if may && memory.enqueue(Cycles(clock), tally.request(*offer)).is_ok() {
                tally.accepted(offer, clock);
            }
        }
        Target::advance(memory, Cycles(clock), &mut tally);
        clock += 1;
    }
    assert_eq!(tally.driven.cycles, Cycles(clock));
    tally.driven
}

#[test]
fn modes_read_as_they_are_written() {
    for text in ["sat", "mlp:16", "pace:50"] {
        assert_eq!(text.parse::<Mode>().unwrap().to_string(), text);
    }
    for text in
        ["", "sat:1", "mlp", "mlp:0", "mlp:-1", "pace:", "pace:x", "fast", "mlp:99999999999"]
    {
        assert!(text.parse::<Mode>().is_err(), "{text}");
    }
}

#[test]
fn an_unloaded_read_takes_what_its_bank_asks_for() {
    let row = 1 << 17;
    let reads = |addresses: &[u64]| {
        let offers: Vec<_> = addresses.iter().map(|a| offer(*a, Direction::Read)).collect();
        drive_all(&mut memory(|_| {}), Mode::Pace(1000), &offers)
    };
    let closed = reads(&[0]);
    assert_eq!(
        (closed.latencies.max(), closed.cycles, closed.rows.misses),
        (Some(38), Cycles(39), 1)
    );
    let hit = reads(&[0, 64]);
    let faster = hit.latencies.percentile(0.5);
    assert_eq!((faster, hit.cycles, hit.rows.hits), (Some(21), Cycles(1022), 1));
    let conflict = reads(&[0, row]);
    assert_eq!((conflict.latencies.max(), conflict.rows.conflicts), (Some(55), 1));
}

#[test]
fn a_read_that_a_million_others_overtake_waits_since_it_was_due() {
    let mut nobody = ();
    let mut tally = Tally::new(Mode::Due.into(), 0, &mut nobody);
    let mut at = |due: u64| {
        let offer = Offer { due: Cycles(due), ..offer(due * 64, Direction::Read) };
        let request = tally.request(offer);
        tally.accepted(&offer, due);
        request
    };
    let first = at(7);
    let others: Vec<Request> = (8..1_100_000).map(at).collect();
    let done = Cycles(2_000_000);
    let completed = |request| Completion {
        request,
        accepted: Cycles(request.address.0 / 64),
        done,
        outcome: RowOutcome::Hit,
        blamed: None,
    };
    for request in others {
        tally.completed(0, &completed(request));
    }
    assert_eq!(tally.driven.latencies.max(), Some(1_999_992));
    tally.completed(0, &completed(first));
    assert_eq!(tally.driven.latencies.max(), Some(1_999_993));
}

#[test]
fn sums_are_held_against_each_other() {
    let offers: Vec<_> = (0..500).map(|i| offer(i * 64, Direction::Read)).collect();
    let mut memory = memory(|_| {});
    let mut driven = drive_all(&mut memory, Mode::Saturate, &offers);
    driven.verify(500, &memory.stats()).unwrap();
    assert!(driven.verify(501, &memory.stats()).is_err());
    driven.rows.hits += 1;
    assert!(driven.verify(500, &memory.stats()).unwrap_err().contains("hits"));
}

/// 125 requests in 1,000 cycles of 0.833 ns, on two channels that draw 34 mA at 1.2 V in each of
/// eight devices.
#[test]
fn a_report_has_its_figures_in_their_units() {
    let config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
    let mut latencies = Latencies::default();
    (1..=100).for_each(|latency| latencies.record(latency));
    let rows = RowCounts { hits: 60, misses: 40, conflicts: 25 };
    let driven = Driven { reads: 100, writes: 25, cycles: Cycles(1_000), rows, latencies };
    let first = Stats { activates: 50, refreshes: 2, data_cycles: 400, ..Stats::default() };
    let second = Stats { activates: 15, refreshes: 1, data_cycles: 100, ..Stats::default() };
    let energy = EnergyMeter::new(&config).report(Cycles(1_000));
    let measured = |stats| Measured { config: &config, stats, energy: Some(&energy) };
    let memories = [measured(&first), measured(&second)];
    let served = Served::new(&memories, config.spec().clock, &driven);
    assert_eq!(
        (served.requests, served.reads, served.writes, served.cycles),
        (125, 100, 25, 1_000)
    );
    assert_eq!((served.row_hits, served.row_misses, served.row_conflicts), (60, 40, 25));
    assert_eq!((served.activates, served.refreshes), (65, 3));
    let read = &served.read_latency_cycles;
    assert_eq!((read.mean, read.p50, read.p90), (Some(50.5), Some(50), Some(90)));
    assert_eq!((read.p99, read.max), (Some(99), Some(100)));
    let near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 1e-12;
    assert!(near(served.bandwidth_bytes_per_s, 8_000.0 / 833e-9), "{served:?}");
    assert!(near(served.bus_utilisation, 0.25), "{served:?}");
    let milliwatts = 2.0 * 8.0 * 1.2 * 34.0;
    assert!(near(served.average_power_mw.unwrap(), milliwatts), "{served:?}");
    let picojoules = served.energy_pj.unwrap()["precharge_standby"];
    assert!(near(picojoules, milliwatts * 833.0), "{picojoules}");
    let memories = [memories[0], Measured { energy: None, ..memories[1] }];
    let served = Served::new(&memories, config.spec().clock, &driven);
    assert_eq!((served.energy_pj, served.average_power_mw), (None, None));
}

/// The begin of a measurement, and the latencies of all reads.
#[derive(Default)]
struct Watch {
    begins: Option<Cycles>,
    reads: Vec<u64>,
}

impl PartObserver for Watch {
    fn measured(&mut self, _: usize, _: &Completion, latency: Option<u64>) {
        self.reads.extend(latency);
    }

    fn begins(&mut self, at: Cycles) {
        self.begins = Some(at);
    }
}

#[test]
fn a_warm_up_is_served_but_not_measured() {
    let offers = [0, 64, 128].map(|address| offer(address, Direction::Read));
    let plan = DrivePlan { mode: Mode::Pace(1000), warm_up: 1 };
    let mut memory = memory(|_| {});
    let (mut rest, mut watch) = (offers.into_iter(), Watch::default());
    let driven = drive(&mut memory, plan, || Ok::<_, Infallible>(rest.next()), &mut watch).unwrap();
    assert_eq!((watch.begins, watch.reads), (Some(Cycles(1000)), [38, 21, 21].to_vec()));
    // The first read opens the row, and is answered before the second is due.
    let (whole, before) = (&driven.whole, &driven.warm_up.as_ref().unwrap().whole);
    assert_eq!((before.cycles, before.rows.misses, before.reads), (Cycles(1000), 1, 1));
    assert_eq!((whole.cycles, whole.rows.hits, whole.reads), (Cycles(1022), 2, 2));
    assert_eq!((driven.stats[0].activates, memory.stats().activates), (0, 1));
    assert_eq!(driven.end(), Cycles(2022));
    let plan = DrivePlan { warm_up: 3, ..plan };
    let refused = drive_through(&mut self::memory(|_| {}), plan, &offers).unwrap_err();
    assert!(matches!(refused, DriveError::NothingMeasured { requests: 3 }), "{refused}");
}

#[test]
fn a_warm_up_has_the_requests_that_are_on_their_way_over_a_link() {
    let config = MemoryConfig::new(MemorySpec::shipped("cxl-ddr4").unwrap());
    let offers: Vec<_> = (0..40).map(|i| offer(i * 64, Direction::Read)).collect();
    let plan = DrivePlan { mode: Mode::Saturate, warm_up: 20 };
    let mut memory = MemorySystem::new(&config).unwrap();
    let driven = drive_through(&mut memory, plan, &offers).unwrap();
    // The link takes more than 20 cycles, so that the memory has seen none.
    let before = driven.warm_up.as_ref().unwrap();
    assert_eq!((before.all_stats().requests(), driven.accepted), (0, 20));
    assert_eq!(WarmUp::of(&driven), Some(WarmUp { requests: 20, cycles: 20 }));
    driven.verify(40).unwrap();
    assert!(driven.verify(41).is_err());
}

fn any_mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        Just(Mode::Saturate),
        (1u32..40).prop_map(Mode::Parallel),
        (1u64..300).prop_map(Mode::Pace),
        Just(Mode::Due)
    ]
}

fn any_offers() -> impl Strategy<Value = Vec<Offer>> {
    // Few banks, rows and columns, so that all outcomes and merged requests occur.
    let one = (0u64..8, 0u64..4, 0u64..3, 0u32..3).prop_map(|(column, bank, row, write)| {
        let direction = if write == 0 { Direction::Write } else { Direction::Read };
        offer(column << 6 | bank << 13 | row << 17, direction)
    });
    prop::collection::vec((one, 0u64..60), 1..300).prop_map(|offers| {
        let mut due = 0;
        let at = |(offer, gap): (Offer, u64)| {
            due += gap;
            Offer { due: Cycles(due), ..offer }
        };
        offers.into_iter().map(at).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_warm_up_changes_nothing_but_the_beginning_of_the_measurement(
        offers in any_offers(),
        mode in any_mode(),
        part in 0.0..1.0f64,
    ) {
        let warm_up = (part * offers.len() as f64) as u64;
        let run = |warm_up| {
            drive_through(&mut memory(|_| {}), DrivePlan { mode, warm_up }, &offers).unwrap()
        };
        let (plain, warm) = (run(0), run(warm_up));
        prop_assert!(warm.verify(offers.len() as u64).is_ok());
        prop_assert_eq!(warm.warm_up.is_some(), warm_up > 0);
        prop_assert_eq!(plain.end(), warm.end());
        let before = warm.warm_up.as_deref();
        let mut both = before.map_or_else(Driven::default, |before| before.whole.clone());
        both += &warm.whole;
        prop_assert_eq!(both, plain.whole);
        prop_assert_eq!(before.map_or(0, |before| before.accepted), warm_up);
        prop_assert_eq!(warm.accepted, plain.accepted - warm_up);
    }

    #[test]
    fn jumping_over_cycles_changes_nothing(
        mode in any_mode(),
        offers in any_offers(),
        queue in 1u32..40,
        scheduler in 0usize..4,
        page in 0usize..3,
    ) {
        let change = |config: &mut MemoryConfig| {
            config.read_queue = queue;
            config.write_queue = queue;
            config.scheduler = Scheduler::ALL[scheduler];
            config.page = [PagePolicy::Open, "closed:2".parse().unwrap(), "adaptive:60".parse().unwrap()][page];
        };
        let jumped = drive_all(&mut memory(change), mode, &offers);
        prop_assert_eq!(jumped, naive(&mut memory(change), mode, &offers));
    }
}

mod parts {
    use super::*;
    use crate::hybrid::Hybrid;
    use memweir_core::Direction;

    fn shipped(name: &str) -> MemoryConfig {
        MemoryConfig::new(MemorySpec::shipped(name).unwrap())
    }

    /// Requests of two media in turn, random in each, every third a write, and when they are due.
    fn offers(second: u64, count: u64) -> Vec<Offer> {
        let mut state = 7u64;
        let offer = |i: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let within = (state >> 37) % (1 << 20) * 64;
            Offer {
                address: PhysAddr(within + if i % 2 == 1 { second } else { 0 }),
                direction: if i % 3 == 2 { Direction::Write } else { Direction::Read },
                source: Source(0),
                due: Cycles(i * 40),
            }
        };
        (0..count).map(offer).collect()
    }

    fn of_part(offers: &[Offer], second: u64, wanted: bool) -> Vec<Offer> {
        let chosen = offers.iter().filter(|offer| (offer.address.0 >= second) == wanted);
        let within = |offer: &Offer| {
            let address = PhysAddr(offer.address.0 - if wanted { second } else { 0 });
            Offer { address, ..*offer }
        };
        chosen.map(within).collect()
    }

    fn alone(config: &MemoryConfig, offers: &[Offer], mode: Mode) -> (Driven, Stats) {
        let driven = drive_through(&mut MemorySystem::new(config).unwrap(), mode, offers).unwrap();
        (driven.whole, driven.stats[0])
    }

    fn together(parts: &[(PhysAddr, MemoryConfig)], offers: &[Offer], mode: Mode) -> DrivenParts {
        drive_through(&mut Hybrid::new(parts).unwrap(), mode, offers).unwrap()
    }

    /// Memories with one clock that share nothing behave side by side as each does alone.
    #[test]
    fn media_side_by_side_do_what_each_does_alone() {
        let configs = [shipped("ddr4-2400"), shipped("nvm-2400")];
        let second = configs[0].capacity().0;
        let offers = offers(second, 20_000);
        let parts = [(PhysAddr(0), configs[0].clone()), (PhysAddr(second), configs[1].clone())];
        let found = together(&parts, &offers, Mode::Due);
        let mut sum = Driven::default();
        for (part, wanted) in [(0, false), (1, true)] {
            let (mut by_itself, mut counts) =
                alone(&configs[part], &of_part(&offers, second, wanted), Mode::Due);
            sum.reads += by_itself.reads;
            sum.writes += by_itself.writes;
            sum.rows = sum.rows.and(by_itself.rows);
            by_itself.cycles = found.whole.cycles;
            // Alone, its refreshes end with its last answer.
            counts.refreshes = found.stats[part].refreshes;
            assert_eq!(found.parts[part], by_itself);
            assert_eq!(found.stats[part], counts);
        }
        let whole = &found.whole;
        assert_eq!((whole.reads, whole.writes, whole.rows), (sum.reads, sum.writes, sum.rows));
        assert_eq!(whole.latencies.count(), whole.reads);
    }

    /// If all requests go to the first memory, the second changes nothing, whatever its clock.
    #[test]
    fn a_second_memory_that_nobody_uses_changes_nothing() {
        let first = shipped("ddr4-2400");
        let second = first.capacity().0;
        let offers = of_part(&offers(second, 20_000), second, false);
        for name in ["pcm-lpddr2", "nvm-2400", "ddr5-4800", "cxl-ddr4"] {
            let parts = [(PhysAddr(0), first.clone()), (PhysAddr(second), shipped(name))];
            for mode in [Mode::Saturate, Mode::Parallel(16), Mode::Pace(50), Mode::Due] {
                let found = together(&parts, &offers, mode);
                let (by_itself, counts) = alone(&first, &offers, mode);
                assert_eq!((&found.whole, found.stats[0]), (&by_itself, counts), "{name} {mode}");
                assert_eq!(found.parts[0], by_itself);
                assert_eq!(found.parts[1].requests(), 0);
            }
        }
    }

    /// Unloaded reads of PCM at 2.5 ns beside DRAM at 0.833 ns: tRCD 48, CL 6, tDQSCK 3 and a burst
    /// of 8 take 162.5 ns after the first cycle that is not before the offer.
    #[test]
    fn a_slower_clock_keeps_its_time_beside_a_faster() {
        let first = shipped("ddr4-2400");
        let second = first.capacity().0;
        let parts = [(PhysAddr(0), first), (PhysAddr(second), shipped("pcm-lpddr2"))];
        let read = |due| Offer {
            address: PhysAddr(second + due * 4096 * 64),
            direction: Direction::Read,
            source: Source(0),
            due: Cycles(due),
        };
        for due in 0..7 {
            let found = together(&parts, &[read(due)], Mode::Due);
            let taken = (due * 833).div_ceil(2500);
            let done = ((taken + 48 + 6 + 3 + 8) * 2500).div_ceil(833);
            assert_eq!(found.whole.latencies.max(), Some(done - due), "{due}");
            assert_eq!(found.whole.cycles, Cycles(done + 1));
        }
    }
}
