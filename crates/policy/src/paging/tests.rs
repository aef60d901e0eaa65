//! The policies against plain models of them.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const PAGES: u32 = 12;

fn nodes() -> Vec<Node> {
    vec![Node::default(); PAGES as usize]
}

fn named(name: &str) -> Victims {
    find(name).expect("a policy of the table").build(nodes())
}

/// All victims, in their order.
fn drained(policy: &mut impl VictimPolicy) -> Vec<Page> {
    std::iter::from_fn(|| policy.victim()).collect()
}

#[test]
fn fifo_keeps_the_order_whatever_it_sees() {
    let mut fifo = named("fifo");
    for page in [3, 1, 4, 5] {
        fifo.enter(page, Entry::Returned);
    }
    fifo.see(3, Seen::Written);
    fifo.leave(4);
    fifo.leave(4);
    assert_eq!(fifo.resident(), 3);
    assert_eq!(fifo.victim(), Some(3));
    fifo.enter(3, Entry::Kept);
    assert_eq!(drained(&mut fifo), [1, 5, 3]);
    assert_eq!((fifo.victim(), fifo.resident()), (None, 0));
}

#[test]
fn the_clock_passes_once_what_came_back_or_was_written() {
    let mut clock = named("clock");
    clock.enter(0, Entry::Returned);
    clock.enter(1, Entry::New);
    clock.enter(2, Entry::New);
    clock.enter(3, Entry::Kept);
    clock.see(2, Seen::Written);
    clock.see(3, Seen::Read);
    clock.see(9, Seen::Written);
    assert_eq!(drained(&mut clock), [1, 3, 0, 2]);
}

#[test]
fn a_mark_does_not_outlive_its_stay() {
    let mut clock = named("clock");
    clock.enter(0, Entry::Returned);
    clock.leave(0);
    clock.enter(0, Entry::New);
    clock.enter(1, Entry::New);
    assert_eq!(clock.victim(), Some(0));
}

#[test]
fn scans_age_what_is_idle_and_spare_writes_before_reads() {
    let mut scan = named("scan");
    assert!(scan.wants_scan(), "nothing was looked at yet");
    for page in 0..4 {
        scan.enter(page, Entry::New);
    }
    for _ in 0..2 {
        for (page, seen) in [(0, Seen::Written), (1, Seen::Idle), (2, Seen::Read), (3, Seen::Idle)]
        {
            scan.see(page, seen);
        }
        scan.scanned();
    }
    assert!(!scan.wants_scan());
    assert_eq!(scan.victim(), Some(1));
    scan.see(3, Seen::Written);
    assert_eq!(drained(&mut scan), [2, 0, 3]);
    assert!(scan.wants_scan(), "all of them are gone since");
}

#[test]
fn what_was_idle_for_three_scans_is_as_old_as_can_be() {
    let mut scan = named("scan");
    for (page, scans) in [(0, 2), (1, 5), (2, 3), (3, 1)] {
        scan.enter(page, Entry::New);
        (0..scans).for_each(|_| scan.see(page, Seen::Idle));
    }
    // The second grew no older, but it was the first to be that old once more.
    assert_eq!(drained(&mut scan), [1, 2, 0, 3]);
}

#[test]
fn a_scan_is_wanted_for_each_eighth_of_what_is_there() {
    const PAGES: u32 = 80;
    let mut scan = find("scan").unwrap().build(vec![Node::default(); PAGES as usize]);
    (0..PAGES).for_each(|page| scan.enter(page, Entry::New));
    scan.scanned();
    let victims = (1..).take_while(|_| {
        scan.victim();
        !scan.wants_scan()
    });
    // Ten victims leave 70: the ninth is one more than an eighth of the 71 that it left.
    assert_eq!(victims.count(), 8);
    scan.scanned();
    assert!(!scan.wants_scan());
}

#[test]
fn policies_that_learn_from_faults_want_no_scan() {
    for name in ["fifo", "clock"] {
        let mut policy = named(name);
        policy.enter(0, Entry::New);
        assert!(!policy.wants_scan(), "{name}");
    }
}

#[test]
fn zeroed_memory_is_pages_that_are_not_there() {
    assert_eq!(size_of::<Node>(), 12);
    for entry in VICTIM_POLICIES {
        let mut storage = [Node::default(); 4];
        let mut policy = entry.build(&mut storage[..]);
        policy.enter(3, Entry::New);
        assert_eq!(policy.victim(), Some(3), "{}", entry.name);
        assert_eq!(storage, [Node::default(); 4], "{}", entry.name);
    }
}

#[test]
fn an_unknown_policy_is_refused_with_the_nearest() {
    let refusal = find("clocks").unwrap_err();
    assert_eq!(refusal.reason, "unknown victim policy `clocks`");
    assert!(refusal.help.unwrap().contains("did you mean `clock`?"));
}

#[test]
#[should_panic(expected = "page 2 is in DRAM already")]
fn no_page_is_in_dram_twice() {
    let mut fifo = named("fifo");
    fifo.enter(2, Entry::New);
    fifo.enter(2, Entry::New);
}

/// A call to a policy.
#[derive(Clone, Copy, Debug)]
enum Call {
    Enter(Page, Entry),
    See(Page, Seen),
    Leave(Page),
    Victim,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let entry = prop_oneof![Just(Entry::New), Just(Entry::Returned), Just(Entry::Kept)];
    let seen = prop_oneof![Just(Seen::Idle), Just(Seen::Read), Just(Seen::Written)];
    let call = prop_oneof![
        3 => (0..PAGES, entry).prop_map(|(page, why)| Call::Enter(page, why)),
        2 => (0..PAGES, seen).prop_map(|(page, seen)| Call::See(page, seen)),
        1 => (0..PAGES).prop_map(Call::Leave),
        2 => Just(Call::Victim),
    ];
    proptest::collection::vec(call, 0..120)
}

/// The same policies as plain queues of pages.
struct Model {
    name: &'static str,
    /// Queues by age; policies without ages use the first. Each page with its mark.
    queues: [VecDeque<(Page, bool)>; 4],
}

impl Model {
    fn place(&self, page: Page) -> Option<(usize, usize)> {
        self.queues.iter().enumerate().find_map(|(queue, pages)| {
            pages.iter().position(|(other, _)| *other == page).map(|at| (queue, at))
        })
    }

    fn enter(&mut self, page: Page, why: Entry) {
        self.queues[0].push_back((page, self.name == "clock" && why == Entry::Returned));
    }

    fn see(&mut self, page: Page, seen: Seen) {
        let Some((queue, at)) = self.place(page) else { return };
        match (self.name, seen) {
            ("clock", Seen::Written) => self.queues[queue][at].1 = true,
            ("scan", _) => {
                let entry = self.queues[queue].remove(at).expect("it is there");
                let age = match seen {
                    Seen::Written => 0,
                    Seen::Read => 1,
                    Seen::Idle => 3.min(queue + 1),
                };
                self.queues[age].push_back(entry);
            }
            _ => {}
        }
    }

    fn leave(&mut self, page: Page) {
        if let Some((queue, at)) = self.place(page) {
            self.queues[queue].remove(at);
        }
    }

    fn victim(&mut self) -> Option<Page> {
        loop {
            let queue = self.queues.iter_mut().rev().find(|queue| !queue.is_empty())?;
            match queue.pop_front() {
                Some((page, true)) => queue.push_back((page, false)),
                Some((page, false)) => return Some(page),
                None => return None,
            }
        }
    }
}

proptest! {
    #[test]
    fn policies_choose_as_plain_queues_do(calls in calls()) {
        for entry in VICTIM_POLICIES {
            let mut policy = entry.build(nodes());
            let mut model = Model { name: entry.name, queues: Default::default() };
            for call in &calls {
                match *call {
                    // A page enters only once.
                    Call::Enter(page, _) if model.place(page).is_some() => {}
                    Call::Enter(page, why) => {
                        policy.enter(page, why);
                        model.enter(page, why);
                    }
                    Call::See(page, seen) => {
                        policy.see(page, seen);
                        model.see(page, seen);
                    }
                    Call::Leave(page) => {
                        policy.leave(page);
                        model.leave(page);
                    }
                    Call::Victim => prop_assert_eq!(policy.victim(), model.victim()),
                }
                let resident: usize = model.queues.iter().map(VecDeque::len).sum();
                prop_assert_eq!(policy.resident() as usize, resident);
            }
            // Every remaining page leaves exactly once.
            let mut left = drained(&mut policy);
            left.sort_unstable();
            let is_left = |page: &Page| model.place(*page).is_some();
            let mut expected: Vec<Page> = (0..PAGES).filter(is_left).collect();
            expected.sort_unstable();
            prop_assert_eq!(left, expected);
        }
    }
}
