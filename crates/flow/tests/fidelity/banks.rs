//! Programs at bank level: each computes for a while, posts its writes, reads a line, waits for it,
//! and so on. This module simulates their accesses to the memory; the parent module compares the
//! result with the flow model.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use memweir_core::{Cycles, Direction, LINE_BYTES, PhysAddr};
use memweir_dram::request::{Completion, Request, Source};
use memweir_dram::{MemoryConfig, MemorySystem, Observer};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A program that accesses random lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// Mean time between the data of a read and the next read, in memory cycles; the times are
    /// exponentially distributed.
    pub(crate) computes: f64,
    /// Share of reads among its lines; more than zero.
    pub(crate) reads: f64,
}

/// Returns the lines that each of these programs moves in `cycles` cycles, running together.
pub(crate) fn lines(config: &MemoryConfig, programs: &[Program], cycles: u64) -> Vec<u64> {
    let mut machine = Machine::new(config, programs);
    while machine.step(cycles) {}
    machine.strands.iter().map(|strand| strand.lines).collect()
}

struct Strand {
    program: Program,
    /// Writes to post before the next read.
    writes: u32,
    lines: u64,
}

/// Completed reads: the time and the program of each.
#[derive(Default)]
struct Answers(Vec<(u64, usize)>);

impl Observer for Answers {
    fn completed(&mut self, completion: &Completion) {
        if completion.request.direction == Direction::Read {
            self.0.push((completion.done.0, completion.request.tag as usize));
        }
    }
}

struct Machine {
    memory: MemorySystem,
    /// Size of the memory in lines.
    size: u64,
    strands: Vec<Strand>,
    /// Programs with a line for the memory, by the cycle from which on it is ready; in a tie, in
    /// the order in which the lines became ready.
    ready: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// Number of lines that have become ready.
    turns: u64,
    answers: Answers,
    random: ChaCha8Rng,
}

impl Machine {
    fn new(config: &MemoryConfig, programs: &[Program]) -> Self {
        let strand = |program: &Program| Strand { program: *program, writes: 0, lines: 0 };
        let mut machine = Self {
            memory: MemorySystem::new(config).unwrap(),
            size: config.capacity().0 / LINE_BYTES,
            strands: programs.iter().map(strand).collect(),
            ready: BinaryHeap::new(),
            turns: 0,
            answers: Answers::default(),
            random: ChaCha8Rng::seed_from_u64(77),
        };
        (0..programs.len()).for_each(|number| machine.compute(0, number));
        machine
    }

    /// Lets a program compute from `now` on, and draws the number of lines that it will write.
    fn compute(&mut self, now: u64, number: usize) {
        let strand = &mut self.strands[number];
        let time = -strand.program.computes * (1.0 - self.random.random::<f64>()).ln();
        while !self.random.random_bool(strand.program.reads) {
            strand.writes += 1;
        }
        self.turn(now + time.round() as u64, number);
    }

    /// Queues a program that has a new line for the memory.
    fn turn(&mut self, from: u64, number: usize) {
        self.turns += 1;
        self.ready.push(Reverse((from, self.turns, number)));
    }

    /// Executes the next event before `end`; returns false if there is none.
    fn step(&mut self, end: u64) -> bool {
        let Some(Reverse((ready, ..))) = self.ready.peek().copied() else {
            return self.wait(end);
        };
        if self.memory.next_event().is_some_and(|event| event.0 < ready) {
            return self.wait(end);
        }
        if ready >= end {
            return false;
        }
        self.memory.advance(Cycles(ready.saturating_sub(1)), &mut self.answers);
        if let Some(Reverse((now, turn, number))) = self.ready.pop() {
            self.offer(now, turn, number);
        }
        true
    }

    /// Executes the memory's next event; returns false if there is none before `end`.
    fn wait(&mut self, end: u64) -> bool {
        let Some(event) = self.memory.next_event().filter(|event| event.0 < end) else {
            return false;
        };
        self.memory.advance(event, &mut self.answers);
        for (done, number) in std::mem::take(&mut self.answers.0) {
            self.strands[number].lines += 1;
            self.compute(done + 1, number);
        }
        true
    }

    /// Offers a program's next line to the memory, or retries at the memory's next event.
    fn offer(&mut self, now: u64, turn: u64, number: usize) {
        let strand = &mut self.strands[number];
        let direction = if strand.writes > 0 { Direction::Write } else { Direction::Read };
        let address = PhysAddr(self.random.random_range(0..self.size) * LINE_BYTES);
        let tag = number as u32;
        let request = Request { address, direction, source: Source(number as u16), tag };
        if self.memory.enqueue(Cycles(now), request).is_err() {
            let event = self.memory.next_event().expect("a full memory has something to do");
            self.ready.push(Reverse((event.0.max(now) + 1, turn, number)));
        } else if direction == Direction::Write {
            strand.writes -= 1;
            strand.lines += 1;
            self.turn(now + 1, number);
        }
    }
}
