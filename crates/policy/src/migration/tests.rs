//! Migration on small memories, computed by hand, and what holds for any.

use memweir_core::medium::{Distance, Medium, MediumKind};
use memweir_core::{Lines, Picos};
use proptest::prelude::*;

use super::*;

const NVM: MediumId = MediumId::ALL[1];
const SECOND: Nanos = Nanos::from_millis(1_000);

fn medium(name: &str, kind: MediumKind, read: u64, write: u64) -> Medium {
    Medium::new(name, kind, Distance::Local, [read, write].map(Picos))
}

/// DRAM of 25/25 ns and PRAM of 67.5/215 ns, hmmsched Table I.
fn media() -> Media {
    Media::new(vec![
        medium("dram", MediumKind::Dram, 25_000, 25_000),
        medium("pram", MediumKind::Nvm, 67_500, 215_000),
    ])
    .unwrap()
}

fn page(number: u32, medium: MediumId, reads: u64, writes: u64) -> Extent {
    Extent {
        job: JobId(0),
        number,
        size: PAGE,
        medium,
        traffic: Traffic { reads: Lines(reads), writes: Lines(writes) },
    }
}

fn decide(policy: &mut HotPages, extents: &[Extent], pages: u64) -> Vec<Move> {
    decide_after(policy, SECOND, extents, pages)
}

fn decide_after(
    policy: &mut HotPages,
    elapsed: Nanos,
    extents: &[Extent],
    pages: u64,
) -> Vec<Move> {
    let mut moves = Vec::new();
    let view =
        MigrationView { elapsed, extents, dram_capacity: Bytes(pages * PAGE.0), media: &media() };
    policy.decide(&view, &mut moves);
    moves
}

fn to_dram(extent: usize) -> Move {
    Move { extent, to: MediumId::LOCAL_DRAM }
}

fn away(extent: usize) -> Move {
    Move { extent, to: NVM }
}

#[test]
fn a_move_costs_a_read_and_a_write_per_line_and_its_overhead() {
    // 64 lines x (67.5 + 25) ns + 2 us; back 64 x (25 + 215) ns + 2 us.
    let cost = MoveCost::new(&media(), PAGE, NVM, MediumId::LOCAL_DRAM, Nanos(2_000));
    assert_eq!(cost, MoveCost { lines: Lines(64), time: Nanos(7_920) });
    let cost = MoveCost::new(&media(), PAGE, MediumId::LOCAL_DRAM, NVM, Nanos(2_000));
    assert_eq!(cost.time, Nanos(17_360));
    // Two pages and a bit are three.
    let size = Bytes(2 * PAGE.0 + 64);
    let cost = MoveCost::new(&media(), size, NVM, MediumId::LOCAL_DRAM, Nanos(2_000));
    assert_eq!(cost, MoveCost { lines: Lines(129), time: Nanos(129 * 925 / 10 + 6_000) });
}

#[test]
fn into_free_dram_goes_what_pays_for_its_move() {
    // 7,920 ns twice over, in ten seconds: 1,584 ns per second. A read saves 42.5 ns, a write 190.
    let extents = [
        page(0, NVM, 37, 0),
        page(1, NVM, 38, 0),
        page(2, NVM, 0, 9),
        page(3, NVM, 0, 8),
        page(4, NVM, 900, 0),
    ];
    let moves = decide(&mut HotPages::default(), &extents, 9);
    // The hottest first: 900 reads, 9 writes (1,710 ns), 38 reads (1,615 ns).
    assert_eq!(moves, [to_dram(4), to_dram(2), to_dram(1)]);
    // With room for two.
    assert_eq!(decide(&mut HotPages::default(), &extents, 2), [to_dram(4), to_dram(2)]);
}

#[test]
fn a_page_gives_way_to_one_that_is_hotter_by_more_than_both_moves() {
    // Both moves: 2 x (7,920 + 17,360) ns over ten seconds are 5,056 ns per second, 118.96 reads.
    let swap = |hot, cold| {
        let extents = [page(0, MediumId::LOCAL_DRAM, cold, 0), page(1, NVM, hot, 0)];
        decide(&mut HotPages::default(), &extents, 1)
    };
    assert_eq!(swap(1_119, 1_000), [away(0), to_dram(1)]);
    assert_eq!(swap(1_118, 1_000), []);
    assert_eq!(swap(10, 1_000), []);
}

#[test]
fn more_than_fits_leaves_whatever_it_costs() {
    let dram = MediumId::LOCAL_DRAM;
    let extents = [page(0, dram, 50, 0), page(1, dram, 10, 0), page(2, dram, 90, 0)];
    assert_eq!(decide(&mut HotPages::default(), &extents, 1), [away(1), away(0)]);
}

#[test]
fn no_more_is_moved_than_the_budget() {
    let mut policy =
        HotPages::new(HotPageRules { budget: Bytes(2 * PAGE.0), ..HotPageRules::default() });
    let extents: Vec<_> = (0..5).map(|number| page(number, NVM, 900, 0)).collect();
    assert_eq!(decide(&mut policy, &extents, 9).len(), 2);
}

#[test]
fn one_quiet_interval_does_not_cool_a_page_down() {
    let mut policy = HotPages::default();
    let at = |hot: u64, other: u64| [page(0, MediumId::LOCAL_DRAM, hot, 0), page(1, NVM, other, 0)];
    assert_eq!(decide(&mut policy, &at(1_000, 0), 1), []);
    // Smoothed: 500 reads in DRAM, 300 elsewhere.
    assert_eq!(decide(&mut policy, &at(0, 600), 1), []);
    // 250 against 450.
    assert_eq!(decide(&mut policy, &at(0, 600), 1), [away(0), to_dram(1)]);
}

/// Returns the first of four rounds in which a page that is read in the first of them alone, 1,000
/// times per second, gives way to one that is read 300 times per second in each of the others.
fn gives_way(smoothing: f64, seconds: u64) -> Option<usize> {
    let mut policy = HotPages::new(HotPageRules { smoothing, ..HotPageRules::default() });
    let elapsed = Nanos(seconds * SECOND.0);
    [(1_000, 0), (0, 300), (0, 300), (0, 300)].into_iter().position(|(cooling, steady)| {
        let extents = [
            page(0, MediumId::LOCAL_DRAM, cooling * seconds, 0),
            page(1, NVM, steady * seconds, 0),
        ];
        !decide_after(&mut policy, elapsed, &extents, 1).is_empty()
    })
}

#[test]
fn rates_are_smoothed_by_the_weight_of_the_latest_samples() {
    // 119 more reads pay for both moves: 500 against 150, 250 against 225, 125 against 262.5.
    assert_eq!(gives_way(0.5, 1), Some(3));
    assert_eq!(gives_way(0.5, 10), Some(3));
    assert_eq!(gives_way(1.0, 1), Some(1));
    assert_eq!(gives_way(0.0, 1), None);
    // 38 reads per second pay for a move to free DRAM.
    let moves = |policy: &mut HotPages, seconds: u64, reads| {
        let extents = [page(0, NVM, reads, 0)];
        decide_after(policy, Nanos(seconds * SECOND.0), &extents, 9).len()
    };
    assert_eq!([370, 380].map(|reads| moves(&mut HotPages::default(), 10, reads)), [0, 1]);
    // No time has no rate, and spoils none.
    let mut policy = HotPages::default();
    assert_eq!((moves(&mut policy, 0, 900), moves(&mut policy, 1, 900)), (0, 1));
}

#[test]
fn an_extent_that_was_gone_starts_anew() {
    let mut policy = HotPages::default();
    let cooling = |reads| page(0, MediumId::LOCAL_DRAM, reads, 0);
    assert_eq!(decide(&mut policy, &[cooling(1_000)], 1), []);
    assert_eq!(decide(&mut policy, &[], 1), []);
    let extents = [cooling(0), page(1, NVM, 300, 0)];
    assert_eq!(decide(&mut policy, &extents, 1), [away(0), to_dram(1)]);
}

#[test]
fn the_hottest_per_byte_come_first() {
    let pages = |size, extent| Extent { size: Bytes(size * PAGE.0), ..extent };
    let extents = [pages(2, page(0, NVM, 1_000, 0)), page(1, NVM, 900, 0)];
    assert_eq!(decide(&mut HotPages::default(), &extents, 9), [to_dram(1), to_dram(0)]);
    assert_eq!(decide(&mut HotPages::default(), &extents, 1), [to_dram(1)]);
}

#[test]
fn room_and_budget_are_what_clearing_the_excess_left() {
    // Two pages too many: the extent of three leaves one page free.
    let large = Extent { size: Bytes(3 * PAGE.0), ..page(0, MediumId::LOCAL_DRAM, 0, 0) };
    let extents = [large, page(1, MediumId::LOCAL_DRAM, 2_000, 0), page(2, NVM, 900, 0)];
    assert_eq!(decide(&mut HotPages::default(), &extents, 2), [away(0), to_dram(2)]);
    let budget = HotPageRules { budget: large.size, ..HotPageRules::default() };
    assert_eq!(decide(&mut HotPages::new(budget), &extents, 2), [away(0)]);
}

#[test]
fn a_move_gains_more_than_its_cost_whatever_the_hysteresis() {
    // Both moves, once: 25,280 ns over ten seconds are 59.48 reads per second.
    let rules = HotPageRules { hysteresis: 0.0, ..HotPageRules::default() };
    let swap = |hot| {
        let extents = [page(0, MediumId::LOCAL_DRAM, 1_000, 0), page(1, NVM, hot, 0)];
        decide(&mut HotPages::new(rules), &extents, 1)
    };
    assert_eq!(swap(1_059), []);
    assert_eq!(swap(1_060), [away(0), to_dram(1)]);
}

#[test]
fn memory_leaves_for_the_fastest_medium_for_its_traffic() {
    let media = Media::new(vec![
        medium("dram", MediumKind::Dram, 25_000, 25_000),
        medium("even", MediumKind::Nvm, 100_000, 100_000),
        medium("pram", MediumKind::Nvm, 67_500, 215_000),
    ]);
    let dram = MediumId::LOCAL_DRAM;
    let view = MigrationView {
        elapsed: SECOND,
        extents: &[page(0, dram, 0, 0), page(1, dram, 0, 9), page(2, dram, 99, 0)],
        dram_capacity: Bytes::ZERO,
        media: &media.unwrap(),
    };
    let mut moves = Vec::new();
    HotPages::default().decide(&view, &mut moves);
    moves.sort_unstable_by_key(|step| step.extent);
    assert_eq!(moves.iter().map(|step| step.to.index()).collect::<Vec<_>>(), [2, 1, 2]);
}

#[test]
fn a_machine_with_dram_alone_has_nowhere_to_go() {
    let extents = [page(0, MediumId::LOCAL_DRAM, 1, 0), page(1, MediumId::LOCAL_DRAM, 9, 0)];
    let mut moves = Vec::new();
    let view = MigrationView {
        elapsed: SECOND,
        extents: &extents,
        dram_capacity: PAGE,
        media: &Media::dram_only(),
    };
    HotPages::default().decide(&view, &mut moves);
    assert_eq!(moves, []);
}

fn any_memory() -> impl Strategy<Value = Vec<Extent>> {
    let extent = (1u64..9, any::<bool>(), 0u64..5_000, 0u64..2_000);
    prop::collection::vec(extent, 0..40).prop_map(|extents| {
        let extent = |(number, (pages, in_dram, reads, writes)): (usize, _)| Extent {
            size: Bytes(pages * PAGE.0),
            ..page(number as u32, if in_dram { MediumId::LOCAL_DRAM } else { NVM }, reads, writes)
        };
        extents.into_iter().enumerate().map(extent).collect()
    })
}

fn in_dram(extents: &[Extent]) -> Bytes {
    let local = extents.iter().filter(|extent| extent.medium == MediumId::LOCAL_DRAM);
    local.map(|extent| extent.size).sum()
}

/// Time per second that all accesses take.
fn all_accesses(extents: &[Extent]) -> f64 {
    let time = |extent: &Extent| {
        let Traffic { reads, writes } = extent.traffic;
        access_time(&media(), extent.medium, (reads.as_f64(), writes.as_f64()))
    };
    extents.iter().map(time).sum()
}

proptest! {
    /// Applied in order, the moves never overfill DRAM, move nothing twice, and save time if
    /// there was no excess to be cleared; and a steady load comes to rest.
    #[test]
    fn moves_fit_pay_and_come_to_an_end(
        mut extents in any_memory(), pages in 0u64..100, budget in 1u64..100,
    ) {
        let capacity = Bytes(pages * PAGE.0);
        let budget = Bytes(budget * PAGE.0);
        let mut policy = HotPages::new(HotPageRules { budget, ..HotPageRules::default() });
        let mut rounds = 0;
        loop {
            let excess = in_dram(&extents) > capacity;
            let before = all_accesses(&extents);
            let moves = decide(&mut policy, &extents, pages);
            let mut moved: Vec<usize> = moves.iter().map(|step| step.extent).collect();
            moved.sort_unstable();
            moved.dedup();
            prop_assert_eq!(moved.len(), moves.len());
            for step in &moves {
                prop_assert_ne!(extents[step.extent].medium, step.to);
                extents[step.extent].medium = step.to;
                prop_assert!(excess || in_dram(&extents) <= capacity);
            }
            prop_assert!(in_dram(&extents) <= capacity);
            prop_assert!(excess || moves.is_empty() || all_accesses(&extents) < before);
            let size: Bytes = moves.iter().map(|step| extents[step.extent].size).sum();
            prop_assert!(excess || size <= budget);
            if moves.is_empty() {
                break;
            }
            rounds += 1;
            prop_assert!(rounds < 100, "never comes to rest");
        }
    }

    #[test]
    fn any_parameters_are_safe(
        extents in any_memory(), pages in 0u64..50, hysteresis in any::<f64>(),
        smoothing in any::<f64>(), horizon in any::<u32>(), elapsed in 0u64..3,
    ) {
        let horizon = Nanos(u64::from(horizon));
        let rules = HotPageRules { hysteresis, smoothing, horizon, ..HotPageRules::default() };
        let mut policy = HotPages::new(rules);
        let view = MigrationView {
            elapsed: Nanos(elapsed),
            extents: &extents,
            dram_capacity: Bytes(pages * PAGE.0),
            media: &media(),
        };
        let mut moves = Vec::new();
        policy.decide(&view, &mut moves);
        prop_assert!(moves.iter().all(|step| step.extent < extents.len()));
    }
}
