//! The protocol on a model of the kernel: threads read, write and have page faults in progress
//! between any two steps, and steps fail.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use memweir_abi::preload::page::{PAGE_COUNTERS_BYTES, PageCounter, PageCounters};

use super::*;
use crate::page::pager::residency::{State, tests::counted, tests::of_pages};
use crate::page::tally::Tally;

const PAGES: usize = 4;
/// Page faults that can be in progress.
const THREADS: usize = 3;

/// An entry of the page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Empty,
    /// Maps the page of the file that has this number, read-only.
    File(usize),
    /// Maps a private copy with this content.
    Private(u32),
}

/// A page fault for a write, which copies the slot.
struct Fault {
    page: usize,
    /// The entry and its protection, as the fault found them.
    found: (Entry, bool),
    copied: Option<u32>,
    /// Steps of the protocol during which its thread waits for a processor.
    sleeps: usize,
}

/// A way in which the protocol would be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// Step 1 protects nothing.
    Protects,
    /// Step 2 does not wait.
    Waits,
    /// Step 2 leaves slots in the file.
    Removes,
}

struct Model {
    residency: Residency,
    table: [(Entry, bool); PAGES],
    /// Numbers of the pages of the file that are the slots.
    slots: [Option<usize>; PAGES],
    /// Contents of all pages that were ever in the file: faults may hold references to them.
    contents: Vec<u32>,
    faults: Vec<Fault>,
    /// Content that was written last.
    written: [u32; PAGES],
    writes: u32,
    keeps_slots: bool,
    flaw: Flaw,
    /// One step in this many fails.
    failures: usize,
    random: u64,
    lost: bool,
}

impl Model {
    fn new(seed: u64, keeps_slots: bool, flaw: Flaw) -> Self {
        Self {
            residency: of_pages(PAGES),
            table: [(Entry::Empty, false); PAGES],
            slots: [None; PAGES],
            contents: Vec::new(),
            faults: Vec::new(),
            written: [0; PAGES],
            writes: 0,
            keeps_slots,
            flaw,
            failures: if flaw == Flaw::None { 12 } else { usize::MAX },
            random: (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            lost: false,
        }
    }

    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) as usize % below
    }

    fn fails(&mut self) -> bool {
        self.failures < usize::MAX && self.random(self.failures) == 0
    }

    /// Returns the file's page of a slot; the kernel fills a hole with zeros.
    fn page_of_slot(&mut self, page: usize) -> usize {
        *self.slots[page].get_or_insert_with(|| {
            self.contents.push(0);
            self.contents.len() - 1
        })
    }

    fn read(&mut self, page: usize) {
        if self.table[page].0 == Entry::Empty {
            self.table[page].0 = Entry::File(self.page_of_slot(page));
        }
        let content = match self.table[page].0 {
            Entry::Private(content) => content,
            Entry::File(number) => self.contents[number],
            Entry::Empty => 0,
        };
        self.lost |= content != self.written[page];
    }

    /// Writes, or begins a page fault. A protected page makes the writer wait.
    fn write(&mut self, page: usize) {
        match self.table[page] {
            (_, true) => {}
            (Entry::Private(_), _) => {
                self.writes += 1;
                self.written[page] = self.writes;
                self.table[page].0 = Entry::Private(self.writes);
            }
            found if self.faults.len() < THREADS => {
                self.faults.push(Fault { page, found, copied: None, sleeps: 0 });
            }
            _ => {}
        }
    }

    /// Takes a fault one step further: it copies, and then sets the entry if that is as it found
    /// it. `do_cow_fault` takes the lock of the file's page when it copies, and keeps it.
    fn advance(&mut self, fault: usize) {
        let Fault { page, found, copied, .. } = self.faults[fault];
        if let Some(content) = copied {
            if self.table[page] == found {
                self.table[page].0 = Entry::Private(content);
            }
            self.faults.remove(fault);
            return;
        }
        let number = match found.0 {
            Entry::File(number) => number,
            _ => self.page_of_slot(page),
        };
        let locked = |other: &Fault| other.page == page && other.holds_lock();
        if found.0 == Entry::Empty && self.faults.iter().any(locked) {
            return;
        }
        self.faults[fault].copied = Some(self.contents[number]);
        self.faults[fault].sleeps = self.random(2) * self.random(40);
    }

    /// Lets the faults end for which a call waits, those first for which others may wait.
    fn await_those(&mut self, awaited: impl Fn(&Fault) -> bool) {
        let holds = |fault: &Fault| awaited(fault) && fault.copied.is_some();
        while let Some(fault) =
            self.faults.iter().position(holds).or_else(|| self.faults.iter().position(&awaited))
        {
            self.advance(fault);
        }
    }

    /// Takes the lock of a slot's page.
    fn lock(&mut self, page: usize) {
        self.await_those(|fault| fault.page == page && fault.holds_lock());
    }

    fn others_run(&mut self) {
        self.faults.iter_mut().for_each(|fault| fault.sleeps = fault.sleeps.saturating_sub(1));
        for _ in 0..self.random(6) {
            let page = self.random(PAGES);
            match self.random(4) {
                0 => self.read(page),
                1 => self.write(page),
                _ if self.faults.is_empty() => self.write(page),
                _ => {
                    let fault = self.random(self.faults.len());
                    if self.faults[fault].sleeps == 0 {
                        self.advance(fault);
                    }
                }
            }
        }
    }

    /// Does a step for the pages of a run; returns false if it fails for one, and ends there.
    fn each_page(&mut self, run: Span, step: impl Fn(&mut Self, usize)) -> bool {
        run.pages().all(|page| {
            self.others_run();
            let succeeds = !self.fails();
            if succeeds {
                step(self, page / PAGE);
            }
            succeeds
        })
    }

    /// Finds pages that came to DRAM, as scans do, and removes some of their slots.
    fn scan(&mut self) {
        for page in 0..PAGES {
            match self.table[page].0 {
                Entry::Private(_) => {
                    self.residency.came(page as u32);
                    if !self.keeps_slots && self.random(2) == 0 && self.punch(page_at(page)) {
                        self.residency.slot_removed(page as u32);
                    }
                }
                Entry::File(_) => {
                    self.residency.mapped(page as u32, State::Read);
                }
                Entry::Empty => {}
            }
        }
    }

    /// Evicts up to that many victims, one cluster each.
    fn evict(&mut self, pages: usize) {
        let mut batch = Batch::EMPTY;
        let mut protected = Protected::begin(&mut batch);
        for _ in 0..pages {
            if let Some(victim) = self.residency.victim() {
                protected.add(&[victim], page_at(victim as usize), self);
            }
        }
        if self.fails() {
            protected.give_up(self);
        } else {
            protected.settle(self).write_out(self).leave(self);
        }
        self.others_run();
        self.table.iter_mut().for_each(|(_, protected)| *protected = false);
    }

    /// Returns true if a write was lost in a run of the model.
    fn loses_write(mut self) -> bool {
        for _ in 0..30 {
            self.others_run();
            self.scan();
            self.others_run();
            let pages = 1 + self.random(PAGES);
            self.evict(pages);
        }
        self.await_those(|_| true);
        (0..PAGES).for_each(|page| self.read(page));
        self.lost
    }
}

impl Fault {
    /// Returns true if the fault holds the lock of the slot's page.
    fn holds_lock(&self) -> bool {
        self.found.0 == Entry::Empty && self.copied.is_some()
    }
}

fn page_at(page: usize) -> Span {
    Span::of(page * PAGE, PAGE)
}

impl Steps for Model {
    fn slot(&self, address: usize) -> Option<u32> {
        Some((address / PAGE) as u32)
    }

    fn residency(&mut self) -> &mut Residency {
        &mut self.residency
    }

    fn protect(&mut self, range: Span) -> bool {
        self.others_run();
        if self.fails() {
            return false;
        }
        self.table[range.start / PAGE].1 = self.flaw != Flaw::Protects;
        true
    }

    fn in_dram(&mut self, range: Span) -> Option<Pages> {
        self.others_run();
        let mut pages = Pages::NONE;
        if let Entry::Private(_) = self.table[range.start / PAGE].0 {
            pages.add(0);
        }
        (!self.fails()).then_some(pages)
    }

    fn keeps_slots(&self, _run: Span) -> bool {
        self.keeps_slots
    }

    fn await_faults(&mut self, _runs: &[Span]) -> bool {
        self.others_run();
        if self.fails() {
            return false;
        }
        if self.flaw != Flaw::Waits {
            self.await_those(|_| true);
        }
        true
    }

    fn punch(&mut self, run: Span) -> bool {
        self.each_page(run, |model, page| {
            if model.flaw == Flaw::Removes {
                return;
            }
            model.lock(page);
            if let Some(number) = model.slots[page].take()
                && model.table[page].0 == Entry::File(number)
            {
                model.table[page].0 = Entry::Empty;
            }
        })
    }

    fn write_out(&mut self, run: Span) -> bool {
        self.each_page(run, |model, page| {
            model.lock(page);
            if let Entry::Private(content) = model.table[page].0 {
                let number = model.page_of_slot(page);
                model.contents[number] = content;
            }
        })
    }

    fn drop_together(&mut self, runs: &[Span]) -> usize {
        let gone = self.random(runs.len() + 1);
        runs[..gone].iter().take_while(|run| self.drop_pages(**run)).map(|run| run.length()).sum()
    }

    fn drop_pages(&mut self, run: Span) -> bool {
        self.each_page(run, |model, page| model.table[page].0 = Entry::Empty)
    }
}

#[test]
fn no_write_is_lost_whatever_happens_between_the_steps() {
    for seed in 0..3000 {
        for keeps_slots in [true, false] {
            assert!(!Model::new(seed, keeps_slots, Flaw::None).loses_write(), "seed {seed}");
        }
    }
}

#[test]
fn without_any_step_writes_are_lost() {
    let flaws = [(Flaw::Protects, true), (Flaw::Waits, true), (Flaw::Removes, false)];
    for (flaw, keeps_slots) in flaws {
        let lost = (0..100).any(|seed| Model::new(seed, keeps_slots, flaw).loses_write());
        assert!(lost, "{flaw:?}");
    }
}

/// Only pages that cannot leave explain an exceeded budget.
#[test]
fn pages_that_a_fork_keeps_are_not_counted_as_pinned() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(PAGE_COUNTERS_BYTES as u64).unwrap();
    let tally = Tally::open(&CString::new(file.path().as_os_str().as_bytes()).unwrap());
    let skipped =
        || PageCounters::of(&std::fs::read(file.path()).unwrap()).get(PageCounter::Skipped);
    let flaw = Flaw::Protects;
    let mut model = Model { residency: counted(PAGES, tally), ..Model::new(0, true, flaw) };
    model.table[0].0 = Entry::Private(0);
    model.residency.came(0);
    assert_eq!(model.residency.victim(), Some(0));
    let mut batch = Batch::EMPTY;
    let mut protected = Protected::begin(&mut batch);
    protected.add(&[0], page_at(0), &mut model);
    assert!(!protected.is_empty());
    protected.give_up(&mut model);
    assert_eq!((model.residency.candidates(), skipped()), (1, 0));
    assert_eq!(model.residency.victim(), Some(0));
    model.residency.stays(0);
    assert_eq!(skipped(), 1);
}

#[test]
fn neighbors_are_one_run() {
    let mut batch = Batch::EMPTY;
    [3, 4, 5, 9, 11, 12].into_iter().for_each(|page| batch.add(page * PAGE));
    let runs = [(3, 6), (9, 10), (11, 13)].map(|(a, b)| Span::new(a * PAGE, b * PAGE));
    assert_eq!((batch.runs(), batch.pages()), (&runs[..], 6));
    batch.retain(|run| run.length() > PAGE);
    assert_eq!((batch.runs(), batch.pages()), (&[runs[0], runs[2]][..], 5));
}

#[test]
fn runs_end_where_slots_are_no_neighbors() {
    let border = Slots::window_end(0);
    let mut batch = Batch::EMPTY;
    [border - PAGE, border, border + PAGE].into_iter().for_each(|page| batch.add(page));
    let runs = [(border - PAGE, border), (border, border + 2 * PAGE)];
    assert_eq!(batch.runs(), runs.map(|(start, end)| Span::new(start, end)));
}

#[test]
fn as_many_runs_as_pages_have_room() {
    let mut batch = Batch::EMPTY;
    (0..MOST_AT_ONCE).for_each(|page| batch.add(page * 2 * PAGE));
    assert_eq!((batch.runs().len(), batch.pages()), (MOST_AT_ONCE, MOST_AT_ONCE));
}
