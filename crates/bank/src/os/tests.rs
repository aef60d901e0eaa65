use std::collections::{BTreeMap, BTreeSet};

use memweir_core::Bytes;
use memweir_core::address_map::{Coloring, XorFunction};
use proptest::prelude::*;

use super::*;

const PAGE: u64 = 4096;

fn coloring(functions: &[&[u8]]) -> Coloring {
    let span = functions.iter().map(|bits| XorFunction::of_bits(bits)).collect();
    Coloring::of_span(&span, 12, 0)
}

/// The bank bits of the paper's machine.
fn i7_860() -> Coloring {
    coloring(&[&[13], &[14], &[15], &[21], &[22]])
}

fn zone(coloring: Coloring, pages: u64, start: Start) -> ZoneConfig {
    ZoneConfig {
        name: "dram".to_owned(),
        base: PhysAddr(0),
        size: Bytes(pages * PAGE),
        coloring,
        start,
    }
}

fn boot(coloring: Coloring, pages: u64, start: Start, exhausted: Exhausted) -> Os {
    let zones = vec![zone(coloring, pages, start)];
    Os::new(&OsConfig { zones, exhausted, costs: FaultCosts::default() }).unwrap()
}

fn set(text: &str) -> ColorSet {
    text.parse().unwrap()
}

const MAIN: ThreadId = ThreadId(0);
const DRAM: ZoneId = ZoneId(0);

fn touch(os: &mut Os, process: ProcessId, page: u64) -> PhysAddr {
    os.touch(process, MAIN, VirtualPage(page)).unwrap().at
}

#[test]
fn a_fresh_machine_without_colors_hands_out_ascending_pages() {
    let mut os = boot(uncolored(12), 1 << 13, Start::Fresh, Exhausted::Refuse);
    let process = os.spawn();
    let pages: Vec<u64> = (0..5000).map(|page| touch(&mut os, process, page).0 / PAGE).collect();
    assert_eq!(pages, (0..5000).collect::<Vec<_>>());
}

#[test]
fn a_colored_process_is_given_its_colors_in_turn() {
    let mut os = boot(i7_860(), 1 << 14, Start::Fresh, Exhausted::Refuse);
    let process = os.spawn();
    os.allow(process, DRAM, &set("3,17,30")).unwrap();
    let colors: Vec<u32> =
        (0..6).map(|page| i7_860().color_of(touch(&mut os, process, page)).0).collect();
    assert_eq!(colors, [3, 17, 30, 3, 17, 30]);
    // The third page again: no fault, the same address.
    let again = os.touch(process, MAIN, VirtualPage(2)).unwrap();
    assert_eq!((i7_860().color_of(again.at).0, again.fault), (30, Nanos::ZERO));
    assert_eq!(os.stats()[0].faults, 6);
}

#[test]
fn threads_and_ranges_have_colors_of_their_own() {
    let mut os = boot(i7_860(), 1 << 14, Start::Fresh, Exhausted::Refuse);
    let process = os.spawn();
    os.allow(process, DRAM, &set("0")).unwrap();
    os.allow_thread(process, ThreadId(1), DRAM, &set("1")).unwrap();
    os.place(process, VirtualPage(100)..VirtualPage(200), DRAM, &set("2")).unwrap();
    let mut color = |thread: u16, page: u64| {
        i7_860().color_of(os.touch(process, ThreadId(thread), VirtualPage(page)).unwrap().at).0
    };
    assert_eq!([color(0, 1), color(1, 2), color(0, 100), color(1, 199)], [0, 1, 2, 2]);
    assert_eq!(color(1, 1), 0, "whoever touches it first decides");
}

#[test]
fn pages_are_spread_over_zones_by_their_shares() {
    let nvm = ZoneConfig {
        name: "nvm".to_owned(),
        base: PhysAddr(1 << 30),
        ..zone(uncolored(12), 1 << 14, Start::Fresh)
    };
    let zones = vec![zone(uncolored(12), 1 << 14, Start::Fresh), nvm];
    let config = OsConfig { zones, exhausted: Exhausted::Refuse, costs: FaultCosts::FREE };
    let mut os = Os::new(&config).unwrap();
    let process = os.spawn();
    os.spread(process, &[1.0, 3.0]).unwrap();
    let pages = 8000;
    let in_nvm = (0..pages).filter(|page| touch(&mut os, process, *page).0 >= 1 << 30).count();
    let share = in_nvm as f64 / f64::from(pages as u32);
    assert!((share - 0.75).abs() < 0.01, "{share}");
    assert!(os.spread(process, &[0.0, 0.0]).is_err());
    assert!(os.spread(process, &[1.0, 1.0, 1.0]).is_err());
}

/// Boots a machine with two colors, `pages_each` pages per color, and a process that may use color
/// 0.
fn small(pages_each: u64, start: Start, exhausted: Exhausted) -> (Os, ProcessId) {
    let mut os = boot(coloring(&[&[12]]), 2 * pages_each, start, exhausted);
    let process = os.spawn();
    os.allow(process, DRAM, &set("0")).unwrap();
    (os, process)
}

#[test]
fn exhausted_colors_are_refused_spilled_or_reclaimed() {
    let (mut os, process) = small(4, Start::Fresh, Exhausted::Refuse);
    for page in 0..4 {
        touch(&mut os, process, page);
    }
    let error = os.touch(process, MAIN, VirtualPage(4)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "process 0 has no page left in zone `dram`: all of one color is used up"
    );

    let (mut os, process) = small(4, Start::Fresh, Exhausted::Spill);
    for page in 0..8 {
        touch(&mut os, process, page);
    }
    assert!(os.touch(process, MAIN, VirtualPage(8)).is_err(), "memory is full");
    let ours = &os.stats()[0];
    assert_eq!((ours.faults, ours.spilled, ours.refused), (8, 4, 1));

    let all_held = Start::Aged(Aging { held: 1.0, ..Aging::default() });
    let (mut os, process) = small(4, all_held, Exhausted::Reclaim);
    for page in 0..4 {
        let touched = os.touch(process, MAIN, VirtualPage(page)).unwrap();
        assert_eq!(touched.at.0 / PAGE % 2, 0);
        assert!(touched.fault > FaultCosts::default().reclaim);
    }
    assert!(os.touch(process, MAIN, VirtualPage(4)).is_err());
    assert_eq!(os.stats()[0].reclaimed, 4);
}

#[test]
fn memory_that_has_been_in_use_is_handed_out_in_no_order_but_reproducibly() {
    let pages = |seed| -> Vec<u64> {
        let start = Start::Aged(Aging { seed, ..Aging::default() });
        let mut os = boot(uncolored(12), 1 << 14, start, Exhausted::Refuse);
        let free = os.zones[0].buddy.free_pages() as f64 / f64::from(1 << 14);
        assert!((free - 0.67).abs() < 0.05, "{free}");
        let process = os.spawn();
        (0..1000).map(|page| touch(&mut os, process, page).0).collect()
    };
    let first = pages(7);
    let neighbors = first.windows(2).filter(|pair| pair[1] == pair[0] + PAGE).count();
    assert!(neighbors < 500, "{neighbors} of 1000 lie behind the one before");
    assert_eq!(first, pages(7));
    assert_ne!(first, pages(8));
}

#[test]
fn zones_that_cannot_be_are_refused() {
    let boot = |zones| {
        let (exhausted, costs) = (Exhausted::Refuse, FaultCosts::FREE);
        Os::new(&OsConfig { zones, exhausted, costs }).unwrap_err().reason
    };
    let sound = || zone(uncolored(12), 1 << 12, Start::Fresh);
    assert!(boot(vec![]).contains("no memory"));
    assert!(boot(vec![sound(), sound()]).contains("overlap"));
    assert!(boot(vec![ZoneConfig { size: Bytes(5), ..sound() }]).contains("cannot be managed"));
    assert!(boot(vec![ZoneConfig { base: PhysAddr(PAGE), ..sound() }]).contains("not aligned"));
    let shifted = Coloring::of_span(i7_860().span(), 12, 1 << 20);
    let shifted = ZoneConfig { coloring: shifted, ..sound() };
    assert!(boot(vec![shifted]).contains("not aligned"));
    let huge = ZoneConfig { coloring: uncolored(21), base: PhysAddr(1 << 40), ..sound() };
    assert!(boot(vec![sound(), huge]).contains("another size"));
}

#[test]
fn colors_that_no_page_has_are_refused() {
    let mut os = boot(i7_860(), 1 << 12, Start::Fresh, Exhausted::Refuse);
    let process = os.spawn();
    assert!(os.allow(process, DRAM, &ColorSet::default()).is_err());
    assert!(os.allow(process, DRAM, &set("32")).unwrap_err().reason.contains("outside the map"));
}

/// Returns the free blocks of each list.
fn lists(buddy: &Buddy) -> BTreeMap<(u32, u32), BTreeSet<Frame>> {
    let orders = 0..=MAX_ORDER;
    orders
        .flat_map(|order| (0..buddy.colors()).map(move |color| (order, color)))
        .map(|(order, color)| ((order, color), buddy.free_blocks(order, Color(color)).collect()))
        .collect()
}

#[test]
fn each_order_has_a_list_for_what_its_blocks_can_be() {
    let buddy = Buddy::new(PhysAddr(0), 1 << 13, &i7_860());
    let lists: Vec<usize> = (0..=MAX_ORDER).map(|order| buddy.lists_of(order)).collect();
    // Bits 13, 14, 15 change within blocks of 4, 8, 16 pages, bits 21 and 22 within 1024 and 2048.
    assert_eq!(lists, [32, 32, 16, 8, 4, 4, 4, 4, 4, 4, 2, 1]);
}

/// Generates colorings of pages by bits 12 to 24, some of them by sums of bits.
fn any_coloring() -> impl Strategy<Value = Coloring> {
    prop::collection::vec(1u64..1 << 13, 0..6).prop_map(|masks| {
        let span = masks.into_iter().map(|mask| XorFunction(mask << 12)).collect();
        Coloring::of_span(&span, 12, 0)
    })
}

proptest! {
    #[test]
    fn blocks_are_disjoint_counted_and_merge_back(
        coloring in any_coloring(),
        frames in 1u32..6000,
        wishes in prop::collection::vec((0u32..6, any::<u32>(), any::<bool>()), 1..200),
    ) {
        let mut buddy = Buddy::new(PhysAddr(1 << 40), frames, &coloring);
        Start::Fresh.apply(&mut buddy);
        let initial = lists(&buddy);
        prop_assert_eq!(buddy.free_pages(), u64::from(frames));
        let mut taken: Vec<(Frame, u32)> = Vec::new();
        let mut used = BTreeSet::new();
        for (order, color, give_back) in wishes {
            if give_back && !taken.is_empty() {
                let (block, order) = taken.swap_remove(color as usize % taken.len());
                used.retain(|page| !(block.0..block.0 + (1 << order)).contains(page));
                buddy.free(block, order);
            } else if let Some(block) =
                buddy.take(order, Color(color % coloring.colors()), &mut 0)
            {
                let pages = block.0..block.0 + (1 << order);
                prop_assert!(block.0.is_multiple_of(1 << order) && pages.end <= frames);
                for page in pages.clone() {
                    prop_assert!(used.insert(page), "page {} was given twice", page);
                }
                let color = Color(color % coloring.colors());
                prop_assert!(pages.into_iter().any(|page| buddy.color_of(Frame(page)) == color));
                taken.push((block, order));
            }
            prop_assert_eq!(buddy.free_pages() + used.len() as u64, u64::from(frames));
        }
        for (block, order) in taken {
            buddy.free(block, order);
        }
        prop_assert_eq!(lists(&buddy), initial);
    }

    #[test]
    fn every_page_of_a_color_can_be_had(
        coloring in any_coloring(), frames in 1u32..3000, color: u32,
    ) {
        let mut buddy = Buddy::new(PhysAddr(0), frames, &coloring);
        let start = Start::Aged(Aging { held: 0.0, run: 3.0, seed: 5 });
        start.apply(&mut buddy);
        let color = Color(color % coloring.colors());
        let of_color = (0..frames).filter(|page| buddy.color_of(Frame(*page)) == color).count();
        let mut had = 0;
        while let Some(frame) = buddy.take(0, color, &mut 0) {
            prop_assert_eq!(buddy.color_of(frame), color);
            had += 1;
        }
        prop_assert_eq!(had, of_color);
        for other in (0..coloring.colors()).map(Color).filter(|other| *other != color) {
            while buddy.take(0, other, &mut 0).is_some() {}
        }
        prop_assert_eq!(buddy.free_pages(), 0);
    }

    #[test]
    fn colors_are_always_obeyed_where_the_os_refuses(
        coloring in any_coloring(),
        chosen in prop::collection::vec(any::<u32>(), 1..5),
        touches in prop::collection::vec((0u16..3, 0u64..400), 1..300),
        held in 0.0..0.9f64,
    ) {
        let start = Start::Aged(Aging { held, run: 2.0, seed: 3 });
        let mut os = boot(coloring.clone(), 512, start, Exhausted::Refuse);
        let moved = |color: &u32, by| Color(color.wrapping_add(by) % coloring.colors());
        let sets: Vec<ColorSet> =
            (0..3).map(|by| chosen.iter().map(|color| moved(color, by)).collect()).collect();
        let processes: Vec<ProcessId> = sets.iter().map(|colors| {
            let process = os.spawn();
            os.allow(process, DRAM, colors).unwrap();
            process
        }).collect();
        let mut given = BTreeMap::new();
        for (who, page) in touches {
            let process = processes[usize::from(who)];
            let Ok(touched) = os.touch(process, MAIN, VirtualPage(page)) else { continue };
            prop_assert!(sets[usize::from(who)].contains(coloring.color_of(touched.at)));
            let owner = given.entry(touched.at).or_insert((who, page));
            prop_assert_eq!(*owner, (who, page), "a frame was given twice");
        }
        let buddy = &os.zones[0].buddy;
        prop_assert!(buddy.free_pages() + given.len() as u64 <= u64::from(buddy.frames()));
    }
}
