use std::convert::Infallible;

use proptest::prelude::*;

use super::*;
use crate::config::{MemoryConfig, PagePolicy, Scheduler};
use crate::spec::MemorySpec;

fn memory(change: impl FnOnce(&mut MemoryConfig)) -> MemorySystem {
    let mut config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
    change(&mut config);
    MemorySystem::new(&config).unwrap()
}

fn offer(address: u64, direction: Direction) -> Offer {
    Offer { address: PhysAddr(address), direction, source: Source(0), due: Cycles::ZERO }
}

fn drive_all(memory: &mut MemorySystem, mode: Mode, offers: &[Offer]) -> Driven {
    let mut offers = offers.iter().copied();
    drive(memory, mode, || Ok::<_, Infallible>(offers.next()), &mut ()).unwrap()
}

/// The loop as it is defined, cycle by cycle.
fn naive(memory: &mut MemorySystem, mode: Mode, offers: &[Offer]) -> Driven {
    let mut observer = ();
    let mut tally = Tally::new(mode, &mut observer);
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
        memory.advance(Cycles(clock), &mut tally);
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
    assert_eq!((closed.latencies.max(), closed.cycles, closed.misses), (Some(38), Cycles(39), 1));
    let hit = reads(&[0, 64]);
    assert_eq!((hit.latencies.min(), hit.cycles, hit.hits), (Some(21), Cycles(1022), 1));
    let conflict = reads(&[0, row]);
    assert_eq!((conflict.latencies.max(), conflict.conflicts), (Some(55), 1));
}

#[test]
fn sums_are_held_against_each_other() {
    let offers: Vec<_> = (0..500).map(|i| offer(i * 64, Direction::Read)).collect();
    let mut memory = memory(|_| {});
    let mut driven = drive_all(&mut memory, Mode::Saturate, &offers);
    driven.verify(500, &memory.stats()).unwrap();
    assert!(driven.verify(501, &memory.stats()).is_err());
    driven.hits += 1;
    assert!(driven.verify(500, &memory.stats()).unwrap_err().contains("hits"));
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
            config.scheduler = Scheduler::ALL[scheduler].1;
            config.page = [PagePolicy::Open, "closed:2".parse().unwrap(), "adaptive:60".parse().unwrap()][page];
        };
        let jumped = drive_all(&mut memory(change), mode, &offers);
        prop_assert_eq!(jumped, naive(&mut memory(change), mode, &offers));
    }
}
