//! Tests of the machine on a memory of fixed latency, against results computed by hand.

use std::collections::VecDeque;

use memweir_core::address_map::AddressMap;
use memweir_core::cache::CacheGeometry;
use memweir_core::{Bytes, Cycles, Nanos, PhysAddr};
use memweir_dram::request::{Completion, Request, RowOutcome};
use proptest::prelude::*;

use super::*;
use crate::machine::{CacheLevel, CoreConfig};
use crate::os::{FaultCosts, OsConfig, Start, ZoneConfig, uncolored};
use crate::stream::{Access, AccessKind, Level, Stream};

/// A memory that answers every request after `latency` cycles and has room for `room` requests.
#[derive(Debug)]
struct Fixed {
    latency: u64,
    room: usize,
    held: VecDeque<(u64, Request)>,
    taken: Vec<Request>,
    answered: usize,
    reached: u64,
}

impl Fixed {
    fn new(latency: u64, room: usize) -> Self {
        Self { latency, room, held: VecDeque::new(), taken: Vec::new(), answered: 0, reached: 0 }
    }
}

impl Memory for Fixed {
    fn offer(&mut self, now: Cycles, request: Request) -> bool {
        let room = self.held.len() < self.room;
        if room {
            self.held.push_back((now.0 + self.latency, request));
            self.taken.push(request);
        }
        room
    }

    fn next_event(&self) -> Option<Cycles> {
        self.held.front().map(|(at, _)| Cycles(*at))
    }

    fn advance(&mut self, to: Cycles, done: &mut dyn FnMut(&Completion)) {
        self.reached = to.0;
        while self.held.front().is_some_and(|(at, _)| *at <= to.0) {
            let Some((at, request)) = self.held.pop_front() else { return };
            self.answered += 1;
            let accepted = Cycles(at - self.latency);
            let outcome = RowOutcome::Hit;
            done(&Completion { request, accepted, done: Cycles(at), outcome, blamed: None });
        }
    }
}

/// A stream that repeats its accesses.
#[derive(Debug)]
struct Around(Vec<Access>, usize);

impl Stream for Around {
    fn next(&mut self) -> Access {
        let access = self.0[self.1 % self.0.len()];
        self.1 += 1;
        access
    }

    fn restart(&mut self) -> Option<Access> {
        self.1 = 0;
        Some(self.next())
    }
}

/// A stream that never comes back to a page.
#[derive(Debug)]
struct Onward(u64);

impl Stream for Onward {
    fn next(&mut self) -> Access {
        self.0 += 1;
        load(4, self.0 << 12, 0)
    }

    fn restart(&mut self) -> Option<Access> {
        None
    }
}

/// A stream without a beginning: a load after each 1,000 instructions.
#[derive(Debug)]
struct Sparse;

impl Stream for Sparse {
    fn next(&mut self) -> Access {
        load(1_000, 0, 0)
    }

    fn restart(&mut self) -> Option<Access> {
        None
    }
}

fn load(instructions: u64, address: u64, needs: u32) -> Access {
    Access { instructions, address, kind: AccessKind::Load, needs }
}

fn core() -> CoreConfig {
    CoreConfig { width: 4, window: 128, mshrs: 16, l1: None, l2: None }
}

/// Returns cores of 1 GHz; the memory runs at 500 MHz.
fn machine(cores: Vec<CoreConfig>) -> MachineConfig {
    MachineConfig { clock: Clock::gigahertz(1.0), cores, llc: None }
}

fn bay(memory: Fixed) -> MemorySlot<Fixed> {
    let map = AddressMap::parse("map.toml", MAP).expect("a map");
    let (base, size) = (PhysAddr(0), Bytes(1 << 30));
    MemorySlot { memory, base, size, clock: Clock::gigahertz(0.5), map }
}

const MAP: &str =
    "name = \"two banks\"\nbits = 30\nfunction = [{ role = \"bank\", bits = [13] }]\n";

fn os() -> Os {
    os_with(FaultCosts::FREE)
}

fn os_with(costs: FaultCosts) -> Os {
    let zone = ZoneConfig {
        name: "m".to_owned(),
        base: PhysAddr(0),
        size: Bytes(1 << 30),
        coloring: uncolored(12),
        start: Start::Fresh,
    };
    let config = OsConfig { zones: vec![zone], exhausted: Default::default(), costs };
    Os::new(&config).expect("an operating system")
}

fn program(threads: Vec<Vec<Access>>, instructions: u64, os: &mut Os) -> Program {
    let stream = |accesses| Box::new(Around(accesses, 0)) as Box<dyn Stream>;
    Program {
        name: "p".to_owned(),
        process: os.spawn(),
        threads: threads.into_iter().map(stream).collect(),
        level: Level::Core,
        addressing: Addressing::Virtual,
        instructions,
        phase: None,
    }
}

/// Returns nanoseconds, rounded once.
fn in_nanos(time: Time) -> f64 {
    time.0 as f64 * 1e-6
}

/// Runs one core with these accesses. Returns the time in nanoseconds, which are core cycles, and
/// the tally.
fn alone(
    accesses: Vec<Access>,
    instructions: u64,
    change: impl Fn(&mut MachineConfig),
) -> (f64, Tally) {
    let mut os = os();
    let program = program(vec![accesses], instructions, &mut os);
    let mut machine = machine(vec![core()]);
    change(&mut machine);
    let mut system = System::new(&machine, vec![bay(Fixed::new(50, 64))], vec![program], &mut os)
        .expect("a system");
    let mut run = system.run().expect("a run");
    let thread = run.threads.remove(0);
    (in_nanos(thread.finished), thread.tally)
}

#[test]
fn a_run_that_is_asked_to_stop_refuses_to_go_on() {
    let mut os = os();
    let program = program(vec![vec![load(40, 0, 0)]], 1_000_000, &mut os);
    let bays = vec![bay(Fixed::new(50, 64))];
    let mut system = System::new(&machine(vec![core()]), bays, vec![program], &mut os).unwrap();
    let stop = Stop::default();
    system.heed(stop.clone());
    stop.request();
    assert_eq!(system.run().unwrap_err().reason, "stopped before its end");
}

#[test]
fn one_miss_by_hand() {
    // Instruction 40 enters in cycle 10 and asks memory then; 50 memory cycles are 100 core cycles.
    // It retires in cycle 110, in slot 440, and 60 more follow four by four: slot 500, cycle 125.
    let (nanos, tally) = alone(vec![load(40, 0, 0), load(1_000, 64, 0)], 100, |_| {});
    assert_eq!(nanos, 125.0);
    assert_eq!((tally.llc_misses, tally.reads, tally.read_latency), (1, 1, 100_000_000));
    assert_eq!(tally.parallelism.mean(), Some(1.0));
}

#[test]
fn independent_misses_overlap_and_dependent_ones_do_not() {
    let chain =
        |needs| vec![load(4, 0, 0), load(4, 4096, needs), load(4, 8192, needs), load(9_999, 0, 0)];
    // The last of three loads enters in cycle 3 and has its data in 104 (a memory cycle later).
    let (together, tally) = alone(chain(0), 12, |_| {});
    assert_eq!(together, 104.0);
    // Two pages are in one bank, the third is in the other.
    assert!(tally.parallelism.mean().is_some_and(|banks| banks > 1.9), "{tally:?}");
    // One after the other: cycle 1 is the middle of a memory cycle.
    let (apart, tally) = alone(chain(1), 12, |_| {});
    assert_eq!(apart, 302.0);
    assert_eq!(tally.parallelism.mean(), Some(1.0));
}

#[test]
fn a_second_access_to_a_line_waits_with_the_first() {
    let (nanos, tally) =
        alone(vec![load(8, 0, 0), load(8, 32, 0), load(9_999, 640, 0)], 16, |_| {});
    // The first retires in cycle 102, the second is eight instructions behind it.
    assert_eq!(nanos, 104.0);
    assert_eq!((tally.llc_misses, tally.reads), (2, 1));
}

#[test]
fn caches_answer_in_their_time_and_write_back_what_is_dirty() {
    let llc = CacheLevel { geometry: CacheGeometry::new(Bytes(128), 1), latency: 10 };
    let with_llc = |machine: &mut MachineConfig| machine.llc = Some(llc);
    // A miss in cycle 2 that reaches memory in 12 and returns in 112; a hit in cycle 200 that is
    // answered in 210, slot 840; and the rest.
    let far = |address| load(99_999, address, 0);
    let (nanos, tally) = alone(vec![load(8, 0, 0), load(1_000, 0, 0), far(64)], 1_008, with_llc);
    // Instruction 1008 follows 1000 slots behind the eighth, which retired in slot 448: it may
    // retire in slot 1448 and has its data before.
    assert_eq!((nanos, tally.llc_accesses, tally.llc_misses), (362.0, 2, 1));
    // Lines 0, 2 and 4 share a set of one way; line 0 alone was written.
    let store = Access { kind: AccessKind::Store, ..load(8, 0, 0) };
    let [second, third] = [128, 256].map(|address| load(4_000, address, 0));
    let accesses = vec![store, second, load(4_000, 64, 0), third, far(192)];
    let (_, tally) = alone(accesses, 12_008, with_llc);
    assert_eq!((tally.reads, tally.writes), (4, 1));
}

#[test]
fn a_line_is_written_that_an_access_past_the_caches_asked_for_first() {
    let mut os = os();
    // The store comes ten cycles after the load of its line, and line 2 takes the line's place.
    let far = |address| load(99_999, address, 0);
    let store = Access { kind: AccessKind::Store, ..load(80, 0, 0) };
    let stores = vec![store, load(4_000, 128, 0), load(4_000, 64, 0), far(192)];
    let mut programs = [vec![load(40, 0, 0), far(640)], stores]
        .map(|accesses| program(vec![accesses], 12_080, &mut os));
    programs[0].level = Level::Memory;
    programs.iter_mut().for_each(|program| program.addressing = Addressing::Physical);
    let mut machine = machine(vec![core(); 2]);
    let geometry = CacheGeometry::new(Bytes(128), 1);
    machine.llc = Some(CacheLevel { geometry, latency: 10 });
    let bays = vec![bay(Fixed::new(50, 64))];
    let mut system = System::new(&machine, bays, programs.into(), &mut os).expect("a system");
    let run = system.run().expect("a run");
    let counts = |thread: usize| {
        let tally = &run.threads[thread].tally;
        (tally.reads, tally.writes)
    };
    assert_eq!([counts(0), counts(1)], [(1, 0), (2, 1)]);
}

#[test]
fn threads_find_in_the_shared_cache_what_another_has_fetched() {
    let mut os = os();
    let store = Access { kind: AccessKind::Store, ..load(8, 0, 0) };
    // The second thread reads in cycle 1000 the line that the first has written, and its neighbor.
    let threads = vec![
        vec![store, load(99_999, 640, 0)],
        vec![load(4_000, 0, 0), load(4, 64, 0), load(99_999, 640, 0)],
    ];
    let program = program(threads, 4_008, &mut os);
    let mut machine = machine(vec![core(); 2]);
    machine.llc = Some(CacheLevel { geometry: CacheGeometry::new(Bytes(256), 4), latency: 10 });
    let bays = vec![bay(Fixed::new(50, 64))];
    let mut system = System::new(&machine, bays, vec![program], &mut os).expect("a system");
    let run = system.run().expect("a run");
    let counted = |thread: usize| {
        let tally = &run.threads[thread].tally;
        (tally.llc_accesses, tally.llc_misses, tally.reads, tally.writes)
    };
    assert_eq!([counted(0), counted(1)], [(1, 1, 1, 0), (2, 1, 1, 0)]);
}

#[test]
fn registers_bound_what_is_under_way() {
    let accesses: Vec<Access> = (0..8).map(|line| load(4, line * 64, 0)).collect();
    let one = |machine: &mut MachineConfig| machine.cores[0].mshrs = 1;
    let (nanos, _) = alone(accesses.clone(), 32, one);
    // Eight reads, one after the other, from cycle 1 on, which is in memory cycle 1.
    assert_eq!(nanos, 2.0 + 8.0 * 100.0);
    let (nanos, _) = alone(accesses, 32, |_| {});
    // The first retires in cycle 102, the last is 28 instructions behind it.
    assert_eq!(nanos, 109.0);
}

#[test]
fn who_waits_for_room_gets_it_before_who_comes_later() {
    // Room for one request: a chain of reads asks again at the moment of its answer.
    let mut os = os();
    let chain = program(vec![vec![load(4, 0, 1)]], 400, &mut os);
    let other = program(vec![vec![load(4, 4096, 1)]], 400, &mut os);
    let machine = machine(vec![core(); 2]);
    let bays = vec![bay(Fixed::new(50, 1))];
    let mut system = System::new(&machine, bays, vec![chain, other], &mut os).expect("a system");
    let run = system.run().expect("a run");
    // A hundred reads of 50 memory cycles each, alternating with the other's, and a cycle between.
    for thread in &run.threads {
        let end = in_nanos(thread.finished);
        assert!((19_900.0..20_900.0).contains(&end), "{end}");
    }
}

#[test]
fn who_only_stores_is_no_further_ahead_than_its_buffer() {
    // One store per cycle; memory answers 64 in 100 cycles and the buffer holds 16.
    let (nanos, tally) = alone(vec![store(4, 0)], 4_000, |_| {});
    let waits = (1_000.0 - 64.0 - 16.0) / 64.0 * 100.0;
    assert!((waits..waits * 1.1).contains(&nanos), "{nanos} {waits}");
    assert_eq!((tally.reads, tally.writes), (0, 1_000));
}

#[test]
fn threads_wait_for_each_other() {
    let mut os = os();
    let slow: Vec<Access> = (0..4).map(|line| load(10, line * 64, 1)).collect();
    let mut program = program(vec![slow, vec![load(40, 4096, 0)]], 400, &mut os);
    program.phase = Some(40);
    let machine = machine(vec![core(); 2]);
    let bays = vec![bay(Fixed::new(50, 64))];
    let mut system = System::new(&machine, bays, vec![program], &mut os).expect("a system");
    let run = system.run().expect("a run");
    let [slow, fast] = [0, 1].map(|thread| in_nanos(run.threads[thread].finished));
    // Ten phases of four reads one after the other; the fast thread is never a phase ahead.
    assert!((4_000.0..4_500.0).contains(&slow), "{slow}");
    assert!(fast > slow - 450.0 && fast < slow + 450.0, "{fast} {slow}");
}

#[test]
fn a_thread_that_waits_for_another_ends_after_it_was_let_go() {
    let mut os = os();
    let slow: Vec<Access> = (0..4).map(|line| load(10, line * 64, 1)).collect();
    let fast = vec![load(10, 4096, 0), load(9_999, 8192, 0)];
    let mut program = program(vec![slow, fast], 150, &mut os);
    program.phase = Some(100);
    let machine = machine(vec![core(); 2]);
    let bays = vec![bay(Fixed::new(50, 64))];
    let mut system = System::new(&machine, bays, vec![program], &mut os).expect("a system");
    let run = system.run().expect("a run");
    let [slow, fast] = [0, 1].map(|thread| in_nanos(run.threads[thread].finished));
    // The slow thread's ten reads up to the barrier take from cycle 2 to 1002. The fast one has no
    // access after the barrier: 50 instructions from slot 4008 on, and a cycle to retire.
    assert_eq!(fast, 1_016.0);
    // Instruction 110 enters in slot 4018, cycle 1004, and starts five reads of 100 cycles each.
    assert_eq!(slow, 1_504.0);
}

#[test]
fn a_stream_without_a_beginning_keeps_its_gaps_when_its_program_starts_again() {
    let mut os = os();
    let mut sparse = program(Vec::new(), 400, &mut os);
    sparse.threads.push(Box::new(Sparse));
    // Another program computes for 4,000 cycles and reads nothing before it has finished.
    let other = program(vec![vec![load(99_999, 4_096, 0)]], 16_000, &mut os);
    let machine = machine(vec![core(); 2]);
    let bays = vec![bay(Fixed::new(50, 64))];
    let mut system = System::new(&machine, bays, vec![sparse, other], &mut os).expect("a system");
    let run = system.run().expect("a run");
    // The last instructions enter in cycles 100 and 4,000, and retire a cycle later.
    assert_eq!([0, 1].map(|thread| in_nanos(run.threads[thread].finished)), [101.0, 4_001.0]);
    assert_eq!(run.threads[0].tally.reads, 0);
    // Instruction 1,000 enters in cycle 250 and has its data in 350. The window then holds 127 more
    // instructions, and 872 are left until the next read: one in 318 cycles, twelve by cycle 4,001.
    assert_eq!(system.into_bays()[0].memory.taken.len(), 12);
}

#[test]
fn a_memory_without_requests_reaches_the_end_of_the_run() {
    let mut os = os();
    let accesses = vec![load(400, 1 << 30, 0), load(99_999, 64, 0)];
    let mut program = program(vec![accesses], 1_000, &mut os);
    program.addressing = Addressing::Physical;
    let second = MemorySlot { base: PhysAddr(1 << 30), ..bay(Fixed::new(50, 64)) };
    let bays = vec![bay(Fixed::new(50, 64)), second];
    let mut system = System::new(&machine(vec![core()]), bays, vec![program], &mut os).unwrap();
    let run = system.run().unwrap();
    // A read of the second memory enters in cycle 100 and is answered in 200, half as many cycles
    // of memory. The next one would enter after the end, in cycle 418.
    assert_eq!([run.end, run.drained].map(in_nanos), [350.0, 200.0]);
    let reached = system.into_bays().into_iter().map(|bay| bay.memory.reached);
    assert_eq!(reached.collect::<Vec<_>>(), [100, 100]);
}

#[test]
fn faults_after_the_measured_instructions_are_not_counted() {
    let mut os = os_with(FaultCosts { fault: Nanos(10), ..FaultCosts::FREE });
    // One access of the first program is measured; it goes on until the other has finished.
    let mut onward = program(Vec::new(), 4, &mut os);
    onward.threads.push(Box::new(Onward(0)));
    let other = program(vec![vec![load(4, 0, 1)]], 400, &mut os);
    let machine = machine(vec![core(); 2]);
    let bays = vec![bay(Fixed::new(50, 64))];
    let mut system = System::new(&machine, bays, vec![onward, other], &mut os).expect("a system");
    let run = system.run().expect("a run");
    assert_eq!(run.threads[0].tally.faulting, nanos(10));
}

#[test]
fn a_store_to_a_new_page_stalls_its_thread() {
    let mut os = os_with(FaultCosts { fault: Nanos(10), ..FaultCosts::FREE });
    let accesses = vec![Access { instructions: 40, ..store(0, 0) }, load(1_000, 64, 0)];
    let program = program(vec![accesses], 100, &mut os);
    let bays = vec![bay(Fixed::new(50, 64))];
    let mut system = System::new(&machine(vec![core()]), bays, vec![program], &mut os).unwrap();
    let run = system.run().expect("a run");
    // Instruction 40 enters in cycle 10, and the next in cycle 20, slot 80: the last in slot 140,
    // and it retires a cycle later.
    assert_eq!(in_nanos(run.threads[0].finished), 36.0);
    assert_eq!(run.threads[0].tally.faulting, nanos(10));
}

#[test]
fn banks_of_several_memories_are_different_banks() {
    let mut os = os();
    let second = 1 << 30;
    let accesses = vec![load(4, 0, 0), load(4, second, 0), load(9_999, 64, 0)];
    let mut program = program(vec![accesses], 8, &mut os);
    program.addressing = Addressing::Physical;
    let far = MemorySlot { base: PhysAddr(second), ..bay(Fixed::new(50, 64)) };
    let bays = vec![bay(Fixed::new(50, 64)), far];
    let mut system = System::new(&machine(vec![core()]), bays, vec![program], &mut os).unwrap();
    let tally = system.run().expect("a run").threads.remove(0).tally;
    assert!(tally.parallelism.mean().is_some_and(|banks| banks > 1.9), "{tally:?}");
}

/// A stream of four lines for ever, which reads others before it has settled.
#[derive(Debug)]
struct Settling(Around, bool);

impl Stream for Settling {
    fn next(&mut self) -> Access {
        let access = self.0.next();
        if self.1 { access } else { Access { address: access.address + 4_096, ..access } }
    }

    fn restart(&mut self) -> Option<Access> {
        self.0.1 = 0;
        Some(self.next())
    }

    fn settle(&mut self) {
        self.1 = true;
    }

    fn warms(&self) -> bool {
        true
    }
}

#[test]
fn a_warm_cache_has_the_lines_of_settled_programs() {
    let counts = |warm: bool| {
        let mut os = os();
        let mut program = program(Vec::new(), 400, &mut os);
        let lines = (0..4).map(|line| load(100, line * 64, 0)).collect();
        program.threads.push(Box::new(Settling(Around(lines, 0), false)));
        let mut machine = machine(vec![core()]);
        let geometry = CacheGeometry::new(Bytes(256), 4);
        machine.llc = Some(CacheLevel { geometry, latency: 10 });
        let bays = vec![bay(Fixed::new(50, 64))];
        let mut system = System::new(&machine, bays, vec![program], &mut os).expect("a system");
        if warm {
            system.warm().expect("memory for all");
        }
        let tally = system.run().expect("a run").threads.remove(0).tally;
        (tally.llc_accesses, tally.llc_misses)
    };
    assert_eq!([counts(false), counts(true)], [(4, 4), (4, 0)]);
}

#[test]
fn the_first_access_after_warming_comes_when_it_is_due() {
    let mut os = os();
    let mut program = program(Vec::new(), 1_200, &mut os);
    program.threads.push(Box::new(Settling(Around(vec![load(1_600, 0, 0)], 0), false)));
    let mut machine = machine(vec![core()]);
    let geometry = CacheGeometry::new(Bytes(256), 4);
    machine.llc = Some(CacheLevel { geometry, latency: 10 });
    let bays = vec![bay(Fixed::new(50, 64))];
    let mut system = System::new(&machine, bays, vec![program], &mut os).expect("a system");
    // It ends with the turn of the 16th access, at instruction 25,600. The next is at 27,200.
    system.warm().expect("memory for all");
    let tally = system.run().expect("a run").threads.remove(0).tally;
    assert_eq!((tally.llc_accesses, tally.llc_misses), (1, 0));
}

#[test]
fn a_program_that_is_done_starts_again_until_all_are() {
    let mut os = os();
    // The third access is beyond the 100 instructions of an execution. Each waits for the one
    // before.
    let short = (0..4).map(|line| load(40, line * 64, 1)).collect();
    let programs = vec![
        program(vec![short], 100, &mut os),
        program(vec![vec![load(4, 4096, 1)]], 40, &mut os),
    ];
    let machine = machine(vec![core(); 2]);
    let bays = vec![bay(Fixed::new(50, 64))];
    let mut system = System::new(&machine, bays, programs, &mut os).expect("a system");
    let run = system.run().expect("a run");
    assert_eq!((run.threads[0].tally.reads, run.threads[1].tally.reads), (2, 10));
    let bays = system.into_bays();
    let taken = bays[0].memory.taken.iter().filter(|request| request.source.0 == 0);
    let lines: Vec<u64> = taken.map(|request| request.address.0 % 4_096 / 64).take(8).collect();
    assert_eq!(lines, [0, 1, 0, 1, 0, 1, 0, 1]);
}

#[test]
fn what_cannot_run_is_refused() {
    let mut os = os();
    let programs = vec![program(vec![vec![load(1, 0, 0)]; 2], 10, &mut os)];
    let refused =
        System::new(&machine(vec![core()]), vec![bay(Fixed::new(1, 1))], programs, &mut os);
    assert_eq!(refused.unwrap_err().reason, "2 threads are too many for 1 core");
    let mut outside = program(vec![vec![load(1, 1 << 40, 0)]], 10, &mut os);
    outside.addressing = Addressing::Physical;
    let bays = vec![bay(Fixed::new(1, 1))];
    let machine = machine(vec![core()]);
    let mut system = System::new(&machine, bays, vec![outside], &mut os).expect("a system");
    assert!(system.run().unwrap_err().reason.starts_with("there is no memory at 0x1"));
}

/// Runs programs of one thread each, none of which is on a core at the start.
fn operate<T>(programs: &[(Vec<Access>, u64)], run: impl FnOnce(&mut System<'_, Fixed>) -> T) -> T {
    let mut os = os();
    let program = |(accesses, instructions): &(Vec<Access>, u64)| {
        program(vec![accesses.clone()], *instructions, &mut os)
    };
    let programs: Vec<Program> = programs.iter().map(program).collect();
    let machine = machine(vec![core(); programs.len()]);
    let bays = vec![bay(Fixed::new(50, 64))];
    let mut system = System::new(&machine, bays, programs, &mut os).expect("a system");
    system.prepare();
    run(&mut system)
}

/// Returns a number of nanoseconds, which are core cycles.
fn nanos(count: u64) -> Time {
    Time(1_000_000 * count)
}

#[test]
fn a_thread_stands_still_off_its_core() {
    operate(&[(vec![load(4_000, 0, 0)], 3_000)], |system| {
        assert_eq!(system.advance(nanos(100)), Ok(None));
        assert_eq!(system.progress(0), Progress::default());
        system.put_on(0, nanos(150), None);
        assert_eq!(system.advance(nanos(400)), Ok(None));
        assert_eq!(system.progress(0).instructions, 1_000, "four per cycle for 250 cycles");
        system.take_off(0);
        assert_eq!(system.advance(nanos(700)), Ok(None));
        assert_eq!(system.progress(0).instructions, 1_000);
        system.put_on(0, nanos(700), None);
        // 2,000 instructions are left, and the last one retires a cycle after it entered.
        assert_eq!(system.advance(nanos(5_000)), Ok(Some(0)));
        assert_eq!(system.now(), nanos(700 + 500 + 1));
        assert_eq!(system.progress(0).instructions, 3_000);
        assert_eq!(system.advance(nanos(5_000)), Ok(None), "it does not start again");
    });
}

#[test]
fn the_next_thread_waits_for_the_reads_of_the_one_before() {
    let reader = (vec![load(8, 0, 0), load(9_999, 64, 0)], 100);
    let other = (vec![load(4_000, 4_096, 0)], 400);
    operate(&[reader, other], |system| {
        system.put_on(0, nanos(0), None);
        assert_eq!(system.advance(nanos(50)), Ok(None));
        system.take_off(0);
        system.put_on(1, nanos(50), Some(0));
        assert_eq!(system.advance(nanos(100)), Ok(None));
        assert_eq!(system.progress(1).instructions, 0);
        // The read entered in cycle 2 and has its data in 102.
        assert_eq!(system.advance(nanos(112)), Ok(None));
        assert_eq!(system.progress(1).instructions, 40);
        assert_eq!(system.progress(0), Progress { instructions: 100, reads: 1, writes: 0 });
    });
}

#[test]
fn the_next_thread_waits_for_accesses_that_need_the_data_of_those_before() {
    // Three reads, each of which needs the one before, are in the window: they are answered in
    // cycles 102, 202 and 302. No two threads work on one core meanwhile.
    let chain = vec![load(4, 0, 0), load(4, 4_096, 1), load(4, 8_192, 1), load(9_999, 64, 0)];
    let other = (vec![load(4_000, 12_288, 0)], 400);
    operate(&[(chain, 100), other], |system| {
        system.put_on(0, nanos(0), None);
        assert_eq!(system.advance(nanos(50)), Ok(None));
        system.take_off(0);
        system.put_on(1, nanos(50), Some(0));
        assert_eq!(system.advance(nanos(302)), Ok(None));
        assert_eq!(system.progress(1).instructions, 0);
        assert_eq!(system.advance(nanos(312)), Ok(None));
        assert_eq!(system.progress(1).instructions, 40);
        assert_eq!(system.progress(0).reads, 3);
    });
}

#[test]
fn a_thread_that_goes_on_elsewhere_holds_up_nobody() {
    let reader = (vec![load(8, 0, 1)], 80_000);
    let other = (vec![load(4_000, 4_096, 0)], 400);
    operate(&[reader, other.clone(), other], |system| {
        system.put_on(0, nanos(0), None);
        assert_eq!(system.advance(nanos(50)), Ok(None));
        system.take_off(0);
        system.put_on(1, nanos(50), Some(0));
        system.put_on(0, nanos(50), None);
        system.put_on(2, nanos(50), Some(0));
        assert_eq!(system.advance(nanos(60)), Ok(None));
        assert_eq!([1, 2].map(|thread| system.progress(thread).instructions), [40, 40]);
    });
}

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let access = (1u64..80, 0u64..512, prop::sample::select(vec![0u8, 0, 0, 1, 2]), 0u32..4);
    prop::collection::vec(access, 1..60).prop_map(|accesses| {
        let access = |(gap, line, kind, needs): (u64, u64, u8, u32)| match kind {
            2 => Access { instructions: 0, ..store(gap, line) },
            1 => store(gap, line),
            _ => load(gap, line * 64, needs),
        };
        let mut all: Vec<Access> = accesses.into_iter().map(access).collect();
        all[0].instructions = all[0].instructions.max(1);
        all
    })
}

fn store(gap: u64, line: u64) -> Access {
    Access { kind: AccessKind::Store, ..load(gap, line * 64, 0) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn turns_on_a_core_lose_no_work(
        programs in prop::collection::vec(accesses(), 1..4),
        turns in prop::collection::vec((0usize..4, 1u64..900), 1..40),
    ) {
        let programs: Vec<_> = programs.into_iter().map(|accesses| (accesses, 3_000)).collect();
        let count = programs.len();
        // One core, and then one thread after the other to its end.
        let all = turns.into_iter().chain((0..count).map(|thread| (thread, 1_000_000)));
        let shared = operate(&programs, |system| {
            let (mut before, mut over) = (None, vec![false; count]);
            for (thread, span) in all {
                let thread = thread % count;
                if over[thread] {
                    continue;
                }
                let until = system.now().after(nanos(span));
                system.put_on(thread, system.now(), before);
                match system.advance(until).expect("memory for all") {
                    Some(ended) => over[ended] = true,
                    None => system.take_off(thread),
                }
                before = Some(thread);
            }
            assert!(over.iter().all(|over| *over), "{over:?}");
            // Reads in flight come back.
            let _ = system.advance(system.now().after(nanos(100_000)));
            (0..count).map(|thread| system.progress(thread)).collect::<Vec<_>>()
        });
        for (program, shared) in programs.iter().zip(shared) {
            let alone = operate(std::slice::from_ref(program), |system| {
                system.put_on(0, Time::default(), None);
                assert_eq!(system.advance(nanos(1_000_000)), Ok(Some(0)));
                let _ = system.advance(system.now().after(nanos(100_000)));
                system.progress(0)
            });
            prop_assert_eq!(shared.instructions, 3_000);
            prop_assert_eq!(shared.writes, alone.writes);
            // Reads of one line at the same time are one; with other times, others meet.
            prop_assert!(shared.reads >= 1 || alone.reads == 0);
        }
    }

    #[test]
    fn every_miss_comes_back_whatever_the_machine(
        programs in prop::collection::vec(accesses(), 1..4), room in 1usize..20, mshrs in 1u32..9,
        caches in any::<[bool; 3]>(), latency in 1u64..80,
    ) {
        let level = |bytes: u64, wanted: bool| wanted.then(|| CacheLevel {
            geometry: CacheGeometry::new(Bytes(bytes), 2), latency: 3,
        });
        let [l1, l2, llc] = caches;
        let core = CoreConfig { mshrs, l1: level(256, l1), l2: level(1024, l2), ..core() };
        let mut machine = machine(vec![core; programs.len()]);
        machine.llc = level(8192, llc);
        let mut os = os();
        let programs: Vec<Program> = programs
            .into_iter()
            .map(|accesses| program(vec![accesses], 3_000, &mut os))
            .collect();
        let bays = vec![bay(Fixed::new(latency, room))];
        let mut system = System::new(&machine, bays, programs, &mut os).unwrap();
        let run = system.run().unwrap();
        prop_assert_eq!(system.misses.len(), 0);
        prop_assert!(system.cores.iter().all(|core| core.outstanding == 0));
        let bays = system.into_bays();
        let memory = &bays[0].memory;
        prop_assert_eq!(memory.answered, memory.taken.len());
        for thread in &run.threads {
            prop_assert!(thread.finished >= Time(750_000_000), "four per cycle at most");
            let tally = &thread.tally;
            prop_assert_eq!(tally.read_rows.total(), tally.reads);
            prop_assert!(tally.reads <= tally.llc_misses);
            prop_assert!(tally.parallelism.mean().is_none_or(|banks| (1.0..=2.0).contains(&banks)));
        }
    }
}
