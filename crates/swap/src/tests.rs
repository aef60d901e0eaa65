//! Tests of sessions and memory against counts made by hand.

use std::io::Cursor;
use std::sync::Arc;

use memweir_core::{Bytes, Direction, Nanos, PAGE, Seconds};
use memweir_energy::Medium;
use memweir_policy::paging::{Page, find};
use memweir_trace as trace;
use memweir_trace::{Format, Header, Side, ThreadId, Trace, Writer};
use proptest::prelude::*;

use crate::app::{App, AppModel};
use crate::area::{Bus, SWAPS, SwapKind};
use crate::memory::{Counts, Killer, Memory, MemoryConfig, Reads};
use crate::phone::{ALL, Phone};
use crate::session::{AppSpec, Behavior, SessionSpec};
use crate::trace::PageTrace;

const SIZES: [u32; 2] = [4, 3];

fn config(dram: u32, swap: u32, reads: Reads) -> MemoryConfig {
    let victims = Arc::new(*find("fifo").expect("a policy"));
    MemoryConfig { dram, swap, reads, victims, killer: Killer::LeastRecent }
}

/// Returns a memory with a process of four pages and one of three, the first in the foreground.
fn memory(dram: u32, swap: u32, reads: Reads) -> Memory {
    let mut memory = Memory::new(config(dram, swap, reads), &SIZES);
    assert!(!memory.switch_to(0));
    memory
}

fn touch(memory: &mut Memory, pages: &[Page], access: crate::Access) {
    for page in pages {
        memory.reference(*page, access);
    }
}

/// Switches to a process, which writes its first pages; returns true if it was alive.
fn enter(memory: &mut Memory, process: usize, pages: u32) -> bool {
    let is_alive = memory.switch_to(process);
    let first = memory.first_page(process);
    touch(memory, &(first..first + pages).collect::<Vec<_>>(), crate::Access::Write);
    is_alive
}

#[test]
fn a_read_is_served_in_place_and_a_write_copies() {
    let mut memory = memory(2, 8, Reads::InPlace);
    touch(&mut memory, &[0, 1, 2], crate::Access::Write);
    assert_eq!(memory.in_use(), (2, 1));
    // Page 0 is in the swap area; it is read twice in place and takes no DRAM.
    touch(&mut memory, &[0, 0], crate::Access::Read);
    assert_eq!(memory.in_use(), (2, 1));
    let counts = memory.counts();
    assert_eq!((counts.direct_reads, counts.references_in_place, counts.copies_in), (1, 2, 0));
    assert_eq!(counts.copies_avoided(), 1);
    // The write copies page 0 and frees its slot; page 1 is evicted.
    touch(&mut memory, &[0], crate::Access::Write);
    let expected = Counts {
        references: 6,
        references_in_place: 2,
        first_touches: 3,
        swap_outs: 2,
        copies_in: 1,
        direct_reads: 1,
        upgrades: 1,
        ..Counts::default()
    };
    assert_eq!(memory.counts(), expected);
    assert_eq!((memory.in_use(), memory.most_in_swap()), ((2, 1), 2));
    assert_eq!(memory.counts().copies_avoided(), 0);
}

#[test]
fn what_is_in_dram_is_not_referenced_in_place() {
    let mut memory = memory(2, 8, Reads::InPlace);
    touch(&mut memory, &[0, 0, 1, 0], crate::Access::Read);
    assert_eq!((memory.counts().references, memory.counts().references_in_place), (4, 0));
}

#[test]
fn a_scan_tells_what_was_written_what_was_read_and_what_was_idle() {
    let victims = Arc::new(*find("scan").expect("a policy"));
    let config = MemoryConfig { victims, ..config(4, 8, Reads::Copied) };
    // Returns the number of `there` that have to be copied back after these evictions.
    let copied_back = |evictions: &[Page], there: &[Page]| {
        let mut memory = Memory::new(config.clone(), &[8]);
        memory.switch_to(0);
        // All were written since they came, so that the first leaves.
        touch(&mut memory, &[0, 1, 2, 3, 4], crate::Access::Write);
        touch(&mut memory, &[1], crate::Access::Write);
        for eviction in evictions {
            touch(&mut memory, &[3], crate::Access::Read);
            touch(&mut memory, &[*eviction], crate::Access::Write);
        }
        assert_eq!(memory.counts().scans, 1 + evictions.len() as u64);
        touch(&mut memory, there, crate::Access::Read);
        memory.counts().copies_in
    };
    // Page 1 was written, page 3 was read, and page 2 was idle.
    assert_eq!(copied_back(&[5], &[1, 3, 4, 5]), 0);
    assert_eq!(copied_back(&[5], &[2]), 1);
    // Page 1 was idle since, and page 3 was read again.
    assert_eq!(copied_back(&[5, 6], &[3, 4, 5, 6]), 0);
    assert_eq!(copied_back(&[5, 6], &[1]), 1);
}

#[test]
fn counts_are_added_and_subtracted_one_by_one() {
    let counts = |factor| Counts {
        references: factor,
        references_in_place: 2 * factor,
        first_touches: 3 * factor,
        swap_outs: 4 * factor,
        copies_in: 5 * factor,
        direct_reads: 6 * factor,
        upgrades: 7 * factor,
        killed: 8 * factor,
        scans: 9 * factor,
    };
    assert_eq!(counts(2) + counts(3), counts(5));
    assert_eq!(counts(5) - counts(3), counts(2));
}

#[test]
fn without_direct_read_every_return_is_a_copy() {
    let mut memory = memory(2, 8, Reads::Copied);
    touch(&mut memory, &[0, 1, 2], crate::Access::Write);
    touch(&mut memory, &[0, 1], crate::Access::Read);
    let counts = memory.counts();
    assert_eq!((counts.copies_in, counts.direct_reads, counts.swap_outs), (2, 0, 3));
}

#[test]
fn when_the_swap_area_is_full_the_background_is_killed() {
    let mut memory = memory(2, 1, Reads::InPlace);
    touch(&mut memory, &[0, 1, 2], crate::Access::Write);
    assert!(!enter(&mut memory, 1, 1));
    assert_eq!((memory.counts().killed, memory.in_use()), (1, (1, 0)));
    assert!(memory.switch_to(1), "it lives");
    assert!(!memory.switch_to(0), "it was killed");
    touch(&mut memory, &[0], crate::Access::Read);
    assert_eq!(memory.counts().first_touches, 5, "what it had is gone");
}

#[test]
fn without_a_swap_area_processes_are_killed_and_nothing_is_swapped() {
    let mut memory = memory(4, 0, Reads::Copied);
    touch(&mut memory, &[0, 1, 2, 3], crate::Access::Write);
    enter(&mut memory, 1, 3);
    let counts = memory.counts();
    assert_eq!((counts.killed, counts.swap_outs, counts.copies_in), (1, 0, 0));
}

#[test]
fn who_is_alone_is_killed_in_the_foreground() {
    let mut memory = memory(2, 1, Reads::InPlace);
    touch(&mut memory, &[0, 1, 2, 3], crate::Access::Write);
    assert_eq!((memory.counts().killed, memory.in_use()), (1, (1, 0)));
}

#[test]
fn the_process_in_the_foreground_longest_ago_is_killed() {
    let mut memory = Memory::new(config(3, 0, Reads::Copied), &[1, 1, 2, 1]);
    // The last was there before all others, but holds nothing.
    memory.switch_to(3);
    for process in [0, 1, 0] {
        enter(&mut memory, process, 1);
    }
    enter(&mut memory, 2, 2);
    assert!(memory.switch_to(0) && memory.switch_to(3));
    assert!(!memory.switch_to(1));
}

#[test]
fn the_largest_is_killed_where_that_is_asked_for() {
    let killer = Killer::Largest;
    let config = MemoryConfig { killer, ..config(4, 0, Reads::Copied) };
    let mut memory = Memory::new(config, &[1, 2, 4]);
    for (process, pages) in [(0, 1), (1, 2), (2, 2)] {
        enter(&mut memory, process, pages);
    }
    assert!(memory.switch_to(0), "the least recent, but the smallest");
    assert!(!memory.switch_to(1));
}

/// A slow, plain memory of one process that is never killed: the pages in DRAM, in order, and the
/// pages mapped in place.
fn plain(dram: usize, reads: Reads, references: &[(Page, crate::Access)]) -> [u64; 4] {
    let (mut order, mut swapped, mut mapped) = (Vec::new(), Vec::new(), Vec::new());
    let mut counts = [0; 4];
    for (page, access) in references {
        if order.contains(page) || (mapped.contains(page) && *access == crate::Access::Read) {
            continue;
        }
        if swapped.contains(page) {
            if reads == Reads::InPlace && *access == crate::Access::Read {
                mapped.push(*page);
                counts[2] += 1;
                continue;
            }
            counts[1] += 1;
            counts[3] += u64::from(mapped.contains(page));
        }
        if order.len() == dram {
            swapped.push(order.remove(0));
            counts[0] += 1;
        }
        swapped.retain(|other| other != page);
        mapped.retain(|other| other != page);
        order.push(*page);
    }
    counts
}

proptest! {
    #[test]
    fn counts_are_those_of_a_plain_memory(
        dram in 1usize..6,
        in_place in any::<bool>(),
        references in proptest::collection::vec((0u32..8, any::<bool>()), 0..200),
    ) {
        let reads = if in_place { Reads::InPlace } else { Reads::Copied };
        let access = |write| if write { crate::Access::Write } else { crate::Access::Read };
        let references: Vec<_> = references.into_iter().map(|(p, w)| (p, access(w))).collect();
        let mut memory = Memory::new(config(dram as u32, 8, reads), &[8]);
        memory.switch_to(0);
        for (page, access) in &references {
            memory.reference(*page, *access);
        }
        let counts = memory.counts();
        let found = [counts.swap_outs, counts.copies_in, counts.direct_reads, counts.upgrades];
        prop_assert_eq!(found, plain(dram, reads, &references));
        prop_assert!(counts.copies_in <= counts.swap_outs);
    }

    /// Counts stay consistent whichever process is killed.
    #[test]
    fn memory_is_never_overcommitted(
        dram in 1u32..6,
        swap in 0u32..6,
        policy in prop_oneof![Just("fifo"), Just("clock"), Just("scan")],
        references in proptest::collection::vec((0usize..3, 0u32..4, any::<bool>()), 0..300),
    ) {
        let victims = Arc::new(*find(policy).expect("a policy"));
        let config = MemoryConfig { victims, ..config(dram, swap, Reads::InPlace) };
        let mut memory = Memory::new(config, &[4, 4, 4]);
        for (process, page, write) in references {
            memory.switch_to(process);
            let page = memory.first_page(process) + page;
            memory.reference(page, if write { crate::Access::Write } else { crate::Access::Read });
            let (in_dram, in_swap) = memory.in_use();
            prop_assert!(in_dram <= dram && in_swap <= swap);
            let counts = memory.counts();
            prop_assert!(counts.upgrades <= counts.direct_reads.min(counts.copies_in));
        }
    }
}

/// The model follows its parameters.
#[test]
fn the_model_of_an_application_keeps_its_shares() {
    let mut model = Phone::shipped().assumed.model(Bytes(40 << 20));
    model.references = 100_000;
    let mut app = model.start(1000, 3);
    let mut launched = Vec::new();
    app.launch(|page, access| {
        assert_eq!(access, crate::Access::Write);
        launched.push(page);
    });
    let pages = (64 << 20) / PAGE.0 as u32;
    assert_eq!(launched, (1000..1000 + pages).collect::<Vec<_>>());
    let lasting = f64::from(pages - (8 << 20) / PAGE.0 as u32);
    let mut resumed = 0.0;
    app.resume(|_, _| resumed += 1.0);
    assert!((resumed / lasting - 0.5).abs() < 1e-3);
    let (mut count, mut writes, mut seen) = (0.0, 0.0, vec![0u32; pages as usize]);
    app.use_it(|page, access| {
        count += 1.0;
        writes += f64::from(u8::from(access == crate::Access::Write));
        seen[(page - 1000) as usize] += 1;
    });
    assert_eq!(count, 100_000.0);
    // Allocations, and a quarter of the references to half of the pages.
    let allocated = 1024.0;
    let expected = allocated + (count - allocated) * 0.125;
    assert!((writes - expected).abs() < 0.25 * expected, "{writes} and not about {expected}");
    seen.sort_unstable_by(|a, b| b.cmp(a));
    let hot: u32 = seen[..(lasting / 10.0) as usize].iter().sum();
    assert!((f64::from(hot) / count - 0.91).abs() < 0.02, "{hot}");
}

/// An application of seven pages that are only read, and of a ring of three.
fn ten_pages() -> AppModel {
    AppModel {
        // Half a page is one.
        footprint: Bytes(19 * PAGE.0 / 2),
        written_pages: 0.0,
        writes: 1.0,
        hot_pages: 0.0,
        hot_references: 0.5,
        resumed_pages: 0.5,
        allocated: Bytes(4 * PAGE.0),
        ring: Bytes(3 * PAGE.0),
        references: 100,
    }
}

#[test]
fn allocations_write_the_pages_of_the_ring_in_turn() {
    let mut app = ten_pages().start(100, 1);
    let mut resumed = Vec::new();
    app.resume(|page, access| resumed.push((page, access)));
    assert_eq!(resumed.len(), 4, "half of seven, rounded");
    assert!(resumed.iter().all(|(page, access)| *page < 107 && *access == crate::Access::Read));
    let turn = |app: &mut App| {
        let mut written = Vec::new();
        app.use_it(|page, access| {
            if access == crate::Access::Write {
                written.push(page);
            }
        });
        written
    };
    assert_eq!(turn(&mut app), [107, 108, 109, 107]);
    assert_eq!(turn(&mut app), [108, 109, 107, 108]);
    app.launch(|_, _| ());
    assert_eq!(turn(&mut app), [107, 108, 109, 107]);
    // Without a ring there are no allocations; of a ring as large as all, one page remains.
    let without = AppModel { ring: Bytes::ZERO, ..ten_pages() };
    assert!(turn(&mut without.start(100, 1)).is_empty());
    let all_ring = AppModel { ring: Bytes(99 * PAGE.0), ..ten_pages() };
    assert_eq!(turn(&mut all_ring.start(100, 1)), [101, 102, 103, 104]);
}

/// Half of the references would go to hot pages if there were some: to one page of a hundred go
/// about as many of 10,000 as to any other.
#[test]
fn without_hot_pages_every_reference_is_to_any_page() {
    let model = AppModel {
        footprint: Bytes(100 * PAGE.0),
        ring: Bytes::ZERO,
        references: 10_000,
        ..ten_pages()
    };
    for hot_pages in [0.0, 0.004] {
        let mut seen = [0; 100];
        let model = AppModel { hot_pages, ..model.clone() };
        model.start(0, 1).use_it(|page, _| seen[page as usize] += 1);
        assert!(seen.iter().all(|count| (50..200).contains(count)), "{hot_pages}: {seen:?}");
    }
}

#[test]
fn the_share_of_written_pages_is_that_of_the_model() {
    let model = AppModel {
        footprint: Bytes(1_000 * PAGE.0),
        ring: Bytes::ZERO,
        written_pages: 0.25,
        resumed_pages: 1.0,
        ..ten_pages()
    };
    let (mut order, mut written) = (Vec::new(), 0);
    model.start(0, 1).resume(|page, access| {
        order.push(page);
        written += u32::from(access == crate::Access::Write);
    });
    assert!(!order.is_sorted(), "the hot pages lie anywhere");
    assert!((200..300).contains(&written), "{written}");
}

/// Two applications of four pages that are read when they resume, and DRAM for one of them.
fn two_apps() -> SessionSpec {
    let model = AppModel {
        footprint: Bytes(4 * PAGE.0),
        ring: Bytes::ZERO,
        resumed_pages: 1.0,
        references: 5,
        ..ten_pages()
    };
    let app = |name: &str| AppSpec {
        name: name.to_owned(),
        behavior: Behavior::Model(model.clone()),
        size: Bytes(1_000),
        resume: Nanos(100),
        launch: Nanos(900),
        lines_per_reference: 2.55,
    };
    SessionSpec {
        apps: vec![app("a"), app("b")],
        dram: Bytes(4 * PAGE.0),
        swap: Bytes(8 * PAGE.0),
        rounds: 3,
        foreground: Nanos::from_millis(500),
        victims: Arc::new(*find("fifo").expect("a policy")),
        killer: Killer::LeastRecent,
    }
}

#[test]
fn a_session_adds_up_its_switches() {
    let outcome = two_apps().run(&kind("nvm"), 1);
    assert_eq!(outcome.duration, Seconds(3.0));
    // The second evicts four pages when it is launched; the first reads them in place.
    let delays: Vec<u64> = outcome.switches.iter().map(|switch| switch.delay.0).collect();
    assert_eq!(delays, [900, 4 * 17_540 + 900, 4 * 1_300 + 100, 100, 100, 100]);
    assert_eq!(outcome.switches[2].paging, Nanos(4 * 1_300));
    assert_eq!(outcome.mean_delay(), Some(Nanos((4 * 1_300 + 400) / 4)));
    assert_eq!(outcome.mean(|switch| switch.app == 9), None);
    // Nine references of the first in each of two turns, of 2.55 lines.
    assert_eq!((outcome.counts.references, outcome.counts.references_in_place), (54, 18));
    assert_eq!((outcome.lines_in_place, outcome.stalled), (46, Nanos::ZERO));
    assert_eq!((outcome.most_in_swap, outcome.block_io), (Bytes(4 * PAGE.0), Bytes(2_000)));
    let by_app = outcome.by_app.iter().map(|counts| (counts.swap_outs, counts.direct_reads));
    assert_eq!(by_app.collect::<Vec<_>>(), [(0, 4), (4, 0)]);
    assert_eq!(outcome.by_app[0] + outcome.by_app[1], outcome.counts);

    // Behind a block device 16 pages come back, and 20 leave.
    let outcome = two_apps().run(&kind("flash"), 1);
    assert_eq!((outcome.counts.copies_in, outcome.counts.swap_outs), (16, 20));
    assert_eq!(outcome.block_io, Bytes(36 * PAGE.0 + 2_000));
}

#[test]
fn the_groups_are_those_of_table_iii() {
    let phone = Phone::shipped();
    assert_eq!(phone.groups().count(), 8);
    for (name, _) in phone.groups() {
        assert_eq!(phone.group(name).expect("a group").len(), 5, "{name}");
    }
    assert_eq!(phone.group(ALL).expect("all of them").len(), 30);
    let chrome = crate::phone::app(phone.app("Google Chrome").expect("an app"), &phone.assumed);
    assert_eq!((chrome.resume, chrome.launch), (Nanos(2_000_000_000), Nanos(4_000_000_000)));
    // 84.53 MB, and 24 MiB of the runtime.
    assert_eq!(chrome.size, Bytes(88_636_129));
    assert_eq!(chrome.behavior.pages(), (88_636_129 + 24 * 1_048_576_u32).div_ceil(4_096));
    let mean = |name: &str| {
        phone.group(name).expect("a group").iter().map(|app| app.size_mb).sum::<f64>() / 5.0
    };
    // Section V-F: "around 15 MB", "around 50 MB".
    assert!((mean("news") - 15.0).abs() < 1.0 && (mean("browser") - 50.0).abs() < 2.0);
}

fn kind(name: &str) -> SwapKind {
    let text = SWAPS.iter().find(|(known, _)| *known == name).expect("shipped").1;
    SwapKind::parse(name, text).unwrap_or_else(|error| panic!("{error}"))
}

/// The times of the shipped swap areas follow from the paper's Tables I and II.
#[test]
fn times_of_swap_areas_are_those_of_the_tables() {
    let flash = kind("flash");
    let Medium::Flash(medium) = &flash.medium else { panic!("flash is flash") };
    let micros = |time: Nanos| time.as_f64() / 1e3;
    assert!((micros(flash.copy_in) - (medium.page_read().0 * 1e6 + 25.0)).abs() < 0.1);
    assert!((micros(flash.copy_out) - (medium.page_write().0 * 1e6 + 100.0)).abs() < 0.1);
    assert_eq!((flash.bus, kind("dram").bus), (Bus::Block, Bus::Memory));
    assert_eq!((kind("nvm").reads, kind("nvm-copy").reads), (Reads::InPlace, Reads::Copied));
    let counts = Counts { copies_in: 10, swap_outs: 20, direct_reads: 1000, ..Counts::default() };
    assert!((micros(kind("nvm").time(&counts)) - (53.3 + 350.8 + 1300.0)).abs() < 0.1);
    // A fault, the stack and a copy for each page in; the stack and a copy for each page out.
    let out = 20.0 * (20.0 + 188.6);
    assert!((micros(flash.time(&counts)) - (10.0 * 125.7 + 1_300.0 + out)).abs() < 0.1);
    assert_eq!(flash.block_io(&counts), Bytes(30 * 4096));
    assert_eq!(kind("nvm").block_io(&counts), Bytes::ZERO);
}

fn access((address, gap, direction): (u64, u64, Direction)) -> trace::Access {
    trace::Access { address, gap, thread: ThreadId::default(), direction }
}

/// Writes a recording of these accesses and reads it back.
fn recorded(accesses: &[(u64, u64, Direction)], window: u64) -> PageTrace {
    taken(Side::Memory, accesses.iter().copied().map(access), window)
}

fn taken(side: Side, accesses: impl Iterator<Item = trace::Access>, window: u64) -> PageTrace {
    let header = Header { side, ..Header::default() };
    let mut writer = Writer::start(Vec::new(), Format::Memweir, &header).expect("memory");
    accesses.for_each(|access| writer.push(&access).expect("memory"));
    read(writer.finish().expect("memory").0, window)
}

/// Returns the references of a trace in one turn.
fn played(trace: PageTrace) -> Vec<(Page, crate::Access)> {
    let mut turn = Vec::new();
    crate::trace::Player::new(trace.into(), 0, 1).play(|page, access| turn.push((page, access)));
    turn
}

fn read(bytes: Vec<u8>, window: u64) -> PageTrace {
    let mut trace = Trace::read("trace", Box::new(Cursor::new(bytes)), None).expect("a trace");
    PageTrace::read(&mut trace, window).expect("accesses")
}

#[test]
fn a_line_that_goes_back_was_written_when_it_came() {
    let (read, write) = (Direction::Read, Direction::Write);
    let trace = recorded(
        &[
            (0x1000, 10, read),
            (0x2000, 200, read),
            // The line of the first reference is written back, so the reference was a write.
            (0x1000, 0, write),
            // Read again, and not written back.
            (0x1000, 200, read),
            // Another line of the same page within one window.
            (0x1040, 10, read),
            // A line that was never read.
            (0x3000, 0, write),
        ],
        100,
    );
    let sums = trace.sums();
    assert_eq!((sums.pages, sums.references, sums.writes, sums.written_pages), (3, 4, 2, 2));
    assert_eq!(sums.lines_per_reference, 5.0 / 4.0);
    let mut player = crate::trace::Player::new(trace.into(), 100, 2);
    let mut turns = Vec::new();
    for _ in 0..3 {
        let mut turn = Vec::new();
        player.play(|page, access| turn.push((page, access)));
        turns.push(turn);
    }
    let first = vec![(100, crate::Access::Write), (101, crate::Access::Read)];
    let second = vec![(100, crate::Access::Read), (102, crate::Access::Write)];
    assert_eq!(turns, [first.clone(), second, first.clone()], "and around again");
    // A program that was killed begins anew, in the middle of its trace too.
    player.restart();
    let mut turn = Vec::new();
    player.play(|page, access| turn.push((page, access)));
    assert_eq!(turn, first);
}

#[test]
fn only_the_line_that_was_read_goes_back_to_its_reference() {
    let (read, write) = (Direction::Read, Direction::Write);
    // In the second window another line of the page, in the third the line that was read, but by
    // an instruction of its own.
    let accesses =
        [(0x1000, 1, read), (0x2000, 200, read), (0x1040, 0, write), (0x2000, 100, write)];
    let trace = recorded(&accesses, 100);
    let (read, write) = (crate::Access::Read, crate::Access::Write);
    assert_eq!(played(trace), [(0, read), (0, write), (1, read), (1, write)]);
    // A read is an instruction at least, and a line that goes back is none.
    let (read, write) = (Direction::Read, Direction::Write);
    let trace = recorded(&[(0x1000, 0, read), (0x2000, 0, read), (0x1000, 0, write)], 100);
    assert_eq!(trace.sums().instructions, 2);
}

#[test]
fn the_references_of_a_window_are_in_the_order_of_the_pages() {
    let read = Direction::Read;
    let trace = recorded(
        &[(0x1000, 1, read), (0x2000, 1, read), (0x2000, 200, read), (0x1000, 1, read)],
        100,
    );
    let pages: Vec<Page> = played(trace).into_iter().map(|(page, _)| page).collect();
    assert_eq!(pages, [0, 1, 0, 1]);
}

#[test]
fn processes_have_pages_of_their_own() {
    let of = |process| {
        let thread = ThreadId { process, thread: 0 };
        trace::Access { thread, ..access((0x1000, 1, Direction::Read)) }
    };
    assert_eq!(taken(Side::Memory, [0, 1, 4096, 0].map(of).into_iter(), 100).pages(), 3);
}

#[test]
fn a_trace_before_the_caches_has_the_loads_and_stores_themselves() {
    let (read, write) = (Direction::Read, Direction::Write);
    // Two accesses of one instruction; the store is none of the line that was loaded before.
    let accesses = [(0x1000, 10, read), (0x1000, 100, read), (0x2000, 0, read), (0x2000, 0, write)];
    let trace = taken(Side::Core, accesses.map(access).into_iter(), 100);
    assert_eq!(trace.sums().instructions, 110);
    let (read, write) = (crate::Access::Read, crate::Access::Write);
    assert_eq!(played(trace), [(0, read), (0, read), (1, write)]);
}

proptest! {
    /// A reduced trace reads as the references that it was made of.
    #[test]
    fn a_small_trace_reads_as_what_it_was_made_of(
        accesses in proptest::collection::vec((0u64..40, 0u64..4, 1u64..60, any::<bool>()), 1..200),
    ) {
        let accesses: Vec<_> = accesses
            .into_iter()
            .map(|(page, line, gap, write)| match write {
                true => (page * 4096 + line * 64, 0, Direction::Write),
                false => (page * 4096 + line * 64, gap, Direction::Read),
            })
            .collect();
        let trace = recorded(&accesses, 200);
        let small = read(trace.write("small", Vec::new(), 200).expect("memory"), 200);
        let (all, some) = (trace.sums(), small.sums());
        prop_assert_eq!((all.pages, all.written_pages), (some.pages, some.written_pages));
        prop_assert_eq!((all.references, all.writes), (some.references, some.writes));
        prop_assert_eq!(played(trace), played(small));
    }
}

#[test]
fn areas_are_refused_with_their_line() {
    let nvm = SWAPS.iter().find(|(name, _)| *name == "nvm").expect("shipped").1;
    let refused = |from, to| SwapKind::parse("a.toml", &nvm.replace(from, to)).unwrap_err();
    let block = refused("bus = \"memory\"", "bus = \"block\"").to_string();
    assert!(block.contains("cannot be read in place"), "{block}");
    let unknown = refused("path_us", "paht_us").to_string();
    assert!(unknown.contains("did you mean `path_us`"), "{unknown}");
}

#[test]
fn lines_in_place_cost_what_they_cost_more_than_in_dram() {
    let Ok(Medium::Memory(dram)) = Medium::shipped("lpddr2-dram") else { panic!("no DRAM") };
    let reading = &memweir_energy::Reading::PHYSICAL;
    let in_place = |name: &str| {
        let none = Counts::default();
        kind(name).energy(&none, 1_000, PAGE, Seconds(1.0), reading, &dram).in_place
    };
    let Medium::Memory(nvm) = kind("nvm").medium else { panic!("no NVM") };
    let more = 1_000.0 * (nvm.line_read() - dram.line_read()).0;
    assert!((in_place("nvm").0 / more - 1.0).abs() < 1e-9);
    assert_eq!(in_place("dram").0, 0.0);
}

#[test]
fn an_area_of_no_size_uses_no_energy() {
    let dram = match Medium::shipped("lpddr2-dram") {
        Ok(Medium::Memory(memory)) => memory,
        other => panic!("{other:?}"),
    };
    let (_, reading) = &memweir_energy::READINGS[0];
    for (name, text) in SWAPS {
        let kind = SwapKind::parse(name, text).expect("a shipped area");
        let energy = |size| {
            let none = Counts::default();
            kind.energy(&none, 0, size, Seconds(60.0), reading, &dram).total().0
        };
        assert_eq!(energy(Bytes::ZERO), 0.0, "{name}");
        assert!(energy(Bytes(1 << 28)) > 0.0, "{name}");
    }
}
