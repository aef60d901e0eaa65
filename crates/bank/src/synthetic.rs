//! Synthetic programs: access streams whose structure determines intensity, row-buffer locality and
//! bank-level parallelism.
//!
//! A program walks along several *streams* at once. Each reads consecutive lines of a block of the
//! footprint (a *run*) and then jumps to another block. The length of the runs determines the share
//! of row-buffer hits. Within a run the addresses are known in advance, but a jump needs the data
//! of the stream's previous access, as in a linked list of blocks; so the number of streams
//! determines the number of banks that work at the same time. Misses come in bursts with compute
//! between them, so that programs with few misses also find open rows.
//!
//! All addresses are *virtual*: the operating system and the address map determine rows and banks.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use memweir_core::Bytes;
use memweir_core::units::LINE_BYTES;

use crate::stream::{Access, AccessKind, Stream};

/// Maximum number of streams of a program.
pub const MOST_STREAMS: usize = 64;

/// Address bits of a thread's private data: the data of consecutive threads begins 1 TiB apart.
const THREAD_BITS: u32 = 40;
/// The random stream of a thread's first phase is this far beyond that of its accesses.
const PHASE_STREAM: u64 = 1 << 16;
/// Start of the data that all threads share.
pub const SHARED_BASE: u64 = 1 << 46;
/// Start of the data that stays in the cache, relative to the thread's own data.
const RESIDENT_BASE: u64 = 1 << 39;

/// Structure of a program's memory accesses.
#[derive(Clone, Debug, PartialEq)]
pub struct Structure {
    /// Accesses to the streams per 1,000 instructions.
    pub intensity: f64,
    /// Mean length of a run in lines, at least one; infinite for streams that never jump.
    pub run: f64,
    /// Mean number of concurrent streams, at least one. For a fraction, some bursts have one stream
    /// more.
    pub streams: f64,
    /// Lines of a run that are requested together before the next stream's turn; at least one.
    /// Objects of a few lines are read at once, arrays line by line.
    pub together: u32,
    /// Share of the accesses within a run that need the data of the stream's previous access, 0 to
    /// 1.
    pub chained: f64,
    /// Number of accesses in a burst.
    pub burst: u32,
    /// Accesses per 1,000 instructions during a burst; at least `intensity`.
    pub burst_intensity: f64,
    /// Share of the accesses that write their line.
    pub stores: f64,
    /// Bytes per thread that the streams cover.
    pub footprint: Bytes,
    /// Data that is reused and should stay in the cache.
    pub resident: Option<Resident>,
    /// Data that all threads of the program use.
    pub shared: Option<Shared>,
    /// Accesses from a store to its write-back, which is then part of the stream; for machines
    /// without a cache that would produce it.
    pub write_backs_after: Option<u32>,
}

/// Data that should stay in the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resident {
    /// Size of the data.
    pub bytes: Bytes,
    /// Accesses to it per 1,000 instructions.
    pub intensity: f64,
}

/// Data that all threads of a program use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shared {
    /// Size of the data.
    pub bytes: Bytes,
    /// Share of the runs that read it, 0 to 1.
    pub share: f64,
}

impl Default for Structure {
    /// Returns one stream of independent reads, 20 per 1,000 instructions, that never jumps.
    fn default() -> Self {
        Self {
            intensity: 20.0,
            run: f64::INFINITY,
            streams: 1.0,
            together: 1,
            chained: 0.0,
            burst: 64,
            burst_intensity: 20.0,
            stores: 0.0,
            footprint: Bytes(256 << 20),
            resident: None,
            shared: None,
            write_backs_after: None,
        }
    }
}

/// One of the streams.
#[derive(Clone, Copy, Debug, Default)]
struct Walk {
    /// The next line, as an address.
    next: u64,
    /// Its region: address of the first byte, and size.
    region: (u64, u64),
    /// Lines left in the run.
    left: u64,
    /// The number of its last access, counted from one; zero before the first.
    last: u64,
}

/// An access to a stream, before its position in the whole stream is known.
#[derive(Clone, Copy, Debug)]
struct Step {
    walk: usize,
    instructions: u64,
    address: u64,
    written: bool,
    /// Number of the access whose data it needs; zero for none.
    producer: u64,
}

/// A thread's stream of a synthetic program.
#[derive(Debug)]
pub struct Synthetic {
    structure: Structure,
    random: ChaCha8Rng,
    /// Address of the first byte of the thread's own data.
    base: u64,
    walks: Vec<Walk>,
    /// Number of streams in this burst, and the stream whose turn it is.
    active: usize,
    turn: usize,
    /// Lines left in this turn.
    of_turn: u32,
    /// Instructions that belong before the next round of turns.
    owed: f64,
    /// Accesses left in the burst.
    left: u32,
    /// Number of accesses with an instruction so far.
    count: u64,
    /// Instructions due before the next access, with the fraction that whole instructions leave.
    debt: f64,
    /// Instructions until the next access to resident data.
    until_resident: f64,
    /// A step already drawn that follows an access to resident data.
    held: Option<Step>,
    /// Dirty lines not written back yet, the oldest first.
    dirty: std::collections::VecDeque<(u64, u64)>,
}

impl Synthetic {
    /// Creates the stream of `thread`, which starts at a random point between the starts of two
    /// bursts. Equal seeds give equal streams; threads differ.
    #[must_use]
    pub fn new(structure: &Structure, thread: u16, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(u64::from(thread));
        let count = (structure.streams.ceil() as usize).clamp(1, MOST_STREAMS);
        let mut program = Self {
            structure: structure.clone(),
            random,
            base: u64::from(thread) << THREAD_BITS,
            walks: vec![Walk::default(); count],
            active: 1,
            turn: 0,
            of_turn: 0,
            owed: 0.0,
            left: 0,
            count: 0,
            debt: 0.0,
            until_resident: structure.resident.map_or(f64::INFINITY, |r| 1_000.0 / r.intensity),
            held: None,
            dirty: std::collections::VecDeque::new(),
        };
        (0..count).for_each(|walk| program.jump(walk));
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(PHASE_STREAM + u64::from(thread));
        program.begin(random.random_range(0.0..1.0));
        program
    }

    /// Begins at a phase from 0, before a gap, to 1, after the burst that follows it. So a short
    /// run has the mean rate of a long one.
    fn begin(&mut self, phase: f64) {
        let (gap, spacing) = (self.begin_burst(), self.spacing());
        let at = phase * (gap + f64::from(self.left) * spacing);
        // The accesses of the burst come with this spacing, the first at the end of the gap.
        let passed = (((at - gap) / spacing + 1.0) as u32).min(self.left);
        self.left -= passed;
        self.owed = gap + f64::from(passed) * spacing - at;
    }

    /// Returns the instructions between two accesses of a burst.
    fn spacing(&self) -> f64 {
        1_000.0 / self.structure.burst_intensity.max(self.structure.intensity)
    }

    /// Returns the first byte and size of each region that holds data; the program writes them
    /// before it computes.
    pub fn regions(&self) -> impl Iterator<Item = (u64, u64)> {
        let own = (self.base, self.structure.footprint.0);
        let resident = self.structure.resident.map(|r| (self.base + RESIDENT_BASE, r.bytes.0));
        let shared = self.structure.shared.map(|s| (SHARED_BASE, s.bytes.0));
        std::iter::once(own).chain(resident).chain(shared)
    }

    /// Moves a stream to the start of a new run.
    fn jump(&mut self, walk: usize) {
        let structure = &self.structure;
        let shared = structure.shared.filter(|shared| self.random.random_bool(shared.share));
        let (first, size) = match shared {
            Some(shared) => (SHARED_BASE, shared.bytes.0),
            None => (self.base, structure.footprint.0),
        };
        let lines = (size / LINE_BYTES).max(1);
        let left = run_length(structure.run, &mut self.random);
        let next = first + self.random.random_range(0..lines) * LINE_BYTES;
        let last = self.walks[walk].last;
        self.walks[walk] = Walk { next, region: (first, lines * LINE_BYTES), left, last };
    }

    /// Begins a burst and returns the number of instructions before it.
    fn begin_burst(&mut self) -> f64 {
        let structure = &self.structure;
        self.left = structure.burst.max(1);
        let streams = structure.streams.clamp(1.0, MOST_STREAMS as f64);
        self.active =
            streams.floor() as usize + usize::from(self.random.random_bool(streams.fract()));
        self.turn = 0;
        let per_access = |intensity: f64| 1_000.0 / intensity;
        let idle = per_access(structure.intensity) - per_access(structure.burst_intensity);
        f64::from(self.left) * idle.max(0.0)
    }

    /// Returns the next access to a stream.
    fn walk(&mut self) -> Step {
        if self.left == 0 {
            self.owed += self.begin_burst();
        }
        self.left -= 1;
        // The streams of a round are accessed together: the instructions between their accesses
        // come before the round.
        if self.turn == 0 && self.of_turn == 0 {
            self.debt += std::mem::take(&mut self.owed);
        }
        self.owed += self.spacing();
        let instructions = self.debt.round().max(1.0);
        self.debt -= instructions;
        let place = self.turn;
        if self.of_turn == 0 {
            self.of_turn = self.structure.together.max(1);
        }
        let jumps = self.walks[place].left == 0;
        if jumps {
            self.jump(place);
        }
        self.of_turn -= 1;
        if self.of_turn == 0 || self.walks[place].left == 1 || self.left == 0 {
            self.of_turn = 0;
            self.turn = if self.left == 0 { 0 } else { (self.turn + 1) % self.active };
        }
        let chained = jumps || self.random.random_bool(self.structure.chained);
        let written = self.random.random_bool(self.structure.stores);
        let walk = &mut self.walks[place];
        let address = walk.next;
        let (first, size) = walk.region;
        walk.left -= 1;
        walk.next = first + (address + LINE_BYTES - first) % size;
        let producer = if chained { walk.last } else { 0 };
        Step { walk: place, instructions: instructions as u64, address, written, producer }
    }

    /// Returns an access to resident data if one is due before `step`.
    fn resident(&mut self, step: &mut Step) -> Option<Access> {
        let resident = self.structure.resident?;
        if self.until_resident >= step.instructions as f64 {
            self.until_resident -= step.instructions as f64;
            return None;
        }
        let instructions = self.until_resident.max(1.0) as u64;
        self.until_resident += 1_000.0 / resident.intensity - instructions as f64;
        step.instructions = step.instructions.saturating_sub(instructions).max(1);
        let lines = (resident.bytes.0 / LINE_BYTES).max(1);
        let line = self.random.random_range(0..lines);
        let address = self.base + RESIDENT_BASE + line * LINE_BYTES;
        Some(Access { instructions, address, kind: AccessKind::Load, needs: 0 })
    }

    /// Returns the write-back of the oldest dirty line if it is due.
    fn write_back(&mut self) -> Option<Access> {
        let after = u64::from(self.structure.write_backs_after?);
        let (since, address) = *self.dirty.front()?;
        if self.count < since + after {
            return None;
        }
        self.dirty.pop_front();
        Some(Access { instructions: 0, address, kind: AccessKind::WriteBack, needs: 0 })
    }
}

impl Stream for Synthetic {
    fn next(&mut self) -> Access {
        if let Some(access) = self.write_back() {
            return access;
        }
        let mut step = match self.held.take() {
            Some(step) => step,
            None => self.walk(),
        };
        self.count += 1;
        if let Some(access) = self.resident(&mut step) {
            self.held = Some(step);
            return access;
        }
        self.walks[step.walk].last = self.count;
        let kind = match (step.written, self.structure.write_backs_after) {
            (false, _) => AccessKind::Load,
            (true, None) => AccessKind::Update,
            (true, Some(_)) => {
                self.dirty.push_back((self.count, step.address));
                AccessKind::Load
            }
        };
        let needs = if step.producer == 0 { 0 } else { self.count - step.producer };
        let needs = needs.min(u64::from(u32::MAX)) as u32;
        Access { instructions: step.instructions, address: step.address, kind, needs }
    }

    fn restart(&mut self) -> Option<Access> {
        None
    }

    /// Skips the accesses before the first write-back can come.
    fn settle(&mut self) {
        let after = self.structure.write_backs_after.filter(|_| self.structure.stores > 0.0);
        (0..after.unwrap_or(0)).for_each(|_| {
            self.next();
        });
    }

    fn warms(&self) -> bool {
        true
    }
}

/// Draws the length of a run from a geometric distribution, at least one line.
fn run_length(mean: f64, random: &mut impl Rng) -> u64 {
    if !mean.is_finite() {
        return u64::MAX;
    }
    if mean <= 1.0 {
        return 1;
    }
    let stay: f64 = 1.0 - 1.0 / mean;
    let uniform: f64 = random.random_range(f64::MIN_POSITIVE..1.0);
    1 + (uniform.ln() / stay.ln()).min(1e15) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn first(structure: &Structure, count: usize) -> Vec<Access> {
        let mut program = Synthetic::new(structure, 0, 1);
        (0..count).map(|_| program.next()).collect()
    }

    fn per_kilo_instruction(accesses: &[Access]) -> f64 {
        let instructions: u64 = accesses.iter().map(|access| access.instructions).sum();
        1e3 * accesses.len() as f64 / instructions as f64
    }

    #[test]
    fn a_short_run_has_as_many_accesses_as_its_part_of_a_long_one() {
        // A burst of 64 accesses each 1,280,000 instructions.
        let structure = Structure { intensity: 0.05, ..Structure::default() };
        let within = |seed: u64| {
            let mut program = Synthetic::new(&structure, 0, seed);
            let mut instructions = 0;
            std::iter::from_fn(|| {
                let access = program.next();
                instructions += access.instructions;
                (instructions <= 128_000).then_some(access)
            })
            .count()
        };
        let mean = (0..4_000).map(within).sum::<usize>() as f64 / 4_000.0;
        assert!((mean / 6.4 - 1.0).abs() < 0.15, "{mean}");
    }

    #[test]
    fn two_streams_walk_line_by_line_in_turn() {
        let (streams, burst) = (2.0, u32::MAX);
        let structure = Structure { streams, burst, intensity: 100.0, ..Structure::default() };
        let accesses = first(&structure, 64);
        for pair in accesses.chunks(4) {
            assert_eq!(pair[2].address, pair[0].address + 64);
            assert_eq!(pair[3].address, pair[1].address + 64);
            assert!((18..=19).contains(&pair[2].instructions) && pair[3].instructions == 1);
            assert_eq!((pair[0].needs, pair[1].needs), (0, 0));
        }
    }

    #[test]
    fn jumps_need_the_access_before_them_on_their_stream() {
        let (run, streams, burst) = (1.0, 3.0, u32::MAX);
        let structure = Structure { run, streams, burst, ..Structure::default() };
        assert!(first(&structure, 60)[3..].iter().all(|access| access.needs == 3));
    }

    #[test]
    fn lines_of_a_run_are_asked_together() {
        let structure = Structure { run: 3.0, streams: 2.0, together: 100, ..Structure::default() };
        let accesses = first(&structure, 64);
        let follows = |pair: &&[Access]| pair[1].address == pair[0].address + 64;
        assert!(accesses.windows(2).filter(follows).count() > 30);
    }

    #[test]
    fn resident_data_has_its_own_rate() {
        let resident = Some(Resident { bytes: Bytes(1 << 20), intensity: 30.0 });
        let structure = Structure { resident, intensity: 5.0, ..Structure::default() };
        let accesses = first(&structure, 50_000);
        let (inside, streams): (Vec<Access>, Vec<Access>) =
            accesses.iter().partition(|access| access.address >= RESIDENT_BASE);
        let ratio = inside.len() as f64 / streams.len() as f64;
        assert!((ratio - 6.0).abs() < 0.2, "{ratio}");
        assert!((per_kilo_instruction(&accesses) - 35.0).abs() < 1.0);
    }

    #[test]
    fn a_program_that_has_run_for_long_writes_back_from_the_start() {
        let structure =
            Structure { stores: 0.25, write_backs_after: Some(1024), ..Structure::default() };
        let mut program = Synthetic::new(&structure, 0, 1);
        program.settle();
        let written = (0..1000).filter(|_| program.next().kind == AccessKind::WriteBack).count();
        // Of five requests, four are reads and one is the write-back of one of them.
        assert!((170..230).contains(&written), "{written}");
        assert!(first(&structure, 1000).iter().all(|access| access.kind == AccessKind::Load));
    }

    proptest! {
        #[test]
        fn rates_and_runs_are_as_asked(
            intensity in 0.05..120.0f64, run in 1.0..40.0f64, streams in 1.0..8.0f64,
            stores in 0.0..0.9f64,
        ) {
            let structure = Structure { intensity, run, streams, stores, ..Structure::default() };
            let accesses = first(&structure, 40_000);
            let rate = per_kilo_instruction(&accesses);
            prop_assert!((rate / intensity - 1.0).abs() < 0.03, "{rate}");
            let jumps = accesses.iter().filter(|access| access.needs > 0).count() as f64;
            let mean = accesses.len() as f64 / jumps;
            // Lengths of runs are geometric, so this is the standard deviation of their mean.
            let deviation = (run / accesses.len() as f64).sqrt();
            let cut = streams.ceil() / jumps;
            prop_assert!((mean / run - 1.0).abs() < 6.0 * deviation + cut, "{mean}");
            let written = accesses.iter().filter(|a| a.kind == AccessKind::Update).count();
            prop_assert!((written as f64 / accesses.len() as f64 - stores).abs() < 0.02);
            prop_assert!(accesses.iter().all(|access| access.instructions > 0));
        }
    }
}
