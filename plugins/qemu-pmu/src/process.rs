//! One process of the job: its slot in the shared page, its address space in the last-level cache,
//! and the progress of chunks and sampling.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::io;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::time::Duration;

use memweir_abi::softpmu::layout::{MAGIC, REGIONS, SLOTS, VERSION};
use memweir_abi::softpmu::{
    AddressCell, BurstPlan, ChunkCell, JobPage, LineAccess, LlcHeader, Slot, Totals, claim,
};
use memweir_core::cache::CacheHierarchy;

use crate::mapping::{map, map_nothing_over, map_over, window};
use crate::model::placement::PageMap;
use crate::model::shared::SharedCache;
use crate::model::vcpu::Events;

/// Treatment of memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Simulated and counted.
    Counted = 0,
    /// Simulated, to fill the caches.
    WarmUp = 1,
    /// Not simulated.
    FastForward = 2,
}

/// The state that the vCPUs of a process share.
pub(crate) struct Process {
    page: &'static JobPage,
    llc: &'static LlcHeader,
    llc_words: &'static [AtomicU64],
    /// The slot of this process, always at the same address: translated code adds to it, and the
    /// child of a fork has that code too.
    slot: &'static Slot,
    slot_number: AtomicU64,
    pub(crate) caches: CacheHierarchy,
    /// Placement of the job's pages; absent if everything is in local DRAM.
    pages: Option<&'static PageMap<'static>>,
    /// Number of this process among those of the job.
    ordinal: AtomicU64,
    chunk: u64,
    plan: Option<BurstPlan>,
    phase: AtomicU8,
    /// Set by the vCPU that currently handles chunks and phases.
    keeping: AtomicBool,
    /// Instructions of this slot at which the phase ends.
    phase_end: AtomicU64,
    /// Instructions of this slot up to which `simulated` has been brought.
    counted_to: AtomicU64,
    /// Only the holder of `keeping` may access it.
    course: UnsafeCell<Course>,
}

/// Counts at the start of the current chunk and at the last check.
#[derive(Default)]
struct Course {
    chunk_start: Totals,
    last_look: Totals,
}

// SAFETY: everything is atomic or immutable except `course`, which is accessed only by the thread
// that has set `keeping`, or by the only thread of a process.
unsafe impl Sync for Process {}
// SAFETY: nothing belongs to the thread that created it.
unsafe impl Send for Process {}

impl Process {
    /// Maps the shared files and takes a slot.
    pub(crate) fn open(page: &CStr, llc: &CStr) -> io::Result<Self> {
        let (page, _) = map(page, size_of::<JobPage>())?;
        // SAFETY: the mapping is page-aligned, as large as a `JobPage`, never unmapped, and any
        // bytes are a valid `JobPage`.
        let page: &'static JobPage = unsafe { &*page.cast() };
        let header = &page.header;
        let (llc, llc_bytes) = map(llc, size_of::<LlcHeader>())?;
        // SAFETY: as above.
        let llc: &'static LlcHeader = unsafe { &*llc.cast() };
        for (magic, version) in [(&header.magic, &header.version), (&llc.magic, &llc.version)] {
            if magic.load(Relaxed) != MAGIC || version.load(Relaxed) != VERSION {
                return Err(io::Error::other("shared file of another version of memweir"));
            }
        }
        let caches = header.caches();
        caches.validate().map_err(io::Error::other)?;
        if llc_bytes < LlcHeader::file_size(&caches.llc) {
            return Err(io::Error::other("shared cache is smaller than its geometry"));
        }
        let ways = (caches.llc.sets() * u64::from(caches.llc.ways)) as usize;
        // SAFETY: the file has been checked to hold this many words after its header.
        let llc_words =
            unsafe { std::slice::from_raw_parts(ptr::from_ref(llc).add(1).cast(), ways) };
        let [warm_up, burst, fast_forward] = [0, 1, 2].map(|i| header.sampling[i].load(Relaxed));
        let window = window()?;
        // SAFETY: the window is one page of zeros, at least as large and aligned as a `Slot`, and
        // stays mapped; later mappings over it are a `Slot` too.
        let slot: &'static Slot = unsafe { &*window };
        let process = Self {
            page,
            llc,
            llc_words,
            slot,
            slot_number: AtomicU64::new(0),
            caches,
            pages: header.placement.get().map(|placement| {
                &*Box::leak(Box::new(PageMap::new(placement, &header.placement, &page.heat)))
            }),
            ordinal: AtomicU64::new(0),
            chunk: header.chunk_instructions.load(Relaxed),
            plan: (burst > 0).then_some(BurstPlan { warm_up, burst, fast_forward }),
            phase: AtomicU8::new(0),
            keeping: AtomicBool::new(false),
            phase_end: AtomicU64::new(0),
            counted_to: AtomicU64::new(0),
            course: UnsafeCell::default(),
        };
        process.begin();
        header.uncounted_programs.fetch_sub(1, Relaxed);
        Ok(process)
    }

    /// Takes a slot and starts counting in it, in this process image or in the child of a fork.
    /// Makes only system calls that are safe there.
    pub(crate) fn begin(&self) {
        let phase = self.phase();
        let left = self.phase_end.load(Relaxed).saturating_sub(self.totals().instructions());
        let pid = std::process::id();
        let number = claim(&self.page.owners, pid, is_alive).unwrap_or(SLOTS);
        self.ordinal.store(self.page.header.processes.fetch_add(1, Relaxed), Relaxed);
        self.slot_number.store(number as u64, Relaxed);
        let mapped = match self.page.slots.get(number) {
            Some(slot) => {
                self.page.header.slots_used.fetch_max(number as u64 + 1, Relaxed);
                map_over(slot, self.slot)
            }
            None => false,
        };
        if !mapped {
            self.page.header.uncounted.fetch_add(1, Relaxed);
            map_nothing_over(self.slot);
        }
        // Only the thread of the fork continues in the child, so no thread holds these any more.
        self.keeping.store(false, Relaxed);
        let (phase, length) = match (phase, self.plan) {
            // The child has the parent's translated code, which ignores accesses.
            (Phase::FastForward, _) => (Phase::FastForward, left),
            (_, Some(plan)) => (Phase::Counted, plan.burst),
            (_, None) => (Phase::Counted, u64::MAX),
        };
        self.phase.store(phase as u8, Relaxed);
        let now = self.totals();
        let instructions = now.instructions();
        self.counted_to.store(instructions, Relaxed);
        self.phase_end.store(instructions.saturating_add(length), Relaxed);
        // SAFETY: this process has one thread now.
        unsafe { *self.course.get() = Course { chunk_start: now.clone(), last_look: now } };
    }

    /// Returns the last level, seen from a new address space.
    pub(crate) fn new_address_space(&self) -> SharedCache<'static> {
        let number = self.llc.address_spaces.fetch_add(1, Relaxed);
        SharedCache::new(self.llc_words, self.caches.llc.ways as usize, number)
            .with_pages(self.pages, self.ordinal.load(Relaxed))
    }

    /// Returns the number of its slot in the job's page.
    pub(crate) fn slot_number(&self) -> u64 {
        self.slot_number.load(Relaxed)
    }

    /// Returns the counter to which a block of region `region` adds its instructions.
    pub(crate) fn region_counter(&self, region: usize) -> &'static AtomicU64 {
        &self.slot.regions[region]
    }

    pub(crate) fn header(&self) -> &'static memweir_abi::softpmu::layout::JobHeader {
        &self.page.header
    }

    /// Returns true if accesses to memory are recorded.
    pub(crate) fn records(&self) -> bool {
        self.page.header.recorder.load(Relaxed) != 0
    }

    /// Hands accesses of a thread to the recorder; waits while the ring is full and the recorder
    /// lives.
    pub(crate) fn append_accesses(&self, thread: u32, accesses: &[LineAccess]) {
        let (header, ring) = (&self.page.header, &self.page.addresses);
        while !AddressCell::append(header, ring, thread, accesses) {
            let recorder = header.recorder.load(Relaxed);
            if recorder == 0 || !is_alive(recorder as u32) {
                header.accesses_lost.fetch_add(accesses.len() as u64, Relaxed);
                return;
            }
            std::thread::sleep(FULL_RING);
        }
    }

    /// Returns the current treatment of memory accesses.
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::Counted,
            1 => Phase::WarmUp,
            _ => Phase::FastForward,
        }
    }

    /// Adds instructions that a vCPU has counted.
    pub(crate) fn publish_instructions(&self, regions: &mut [u32; REGIONS]) {
        for (counter, pending) in self.slot.regions.iter().zip(regions) {
            if *pending != 0 {
                counter.fetch_add(u64::from(std::mem::take(pending)), Relaxed);
            }
        }
    }

    /// Adds events that a vCPU's caches have counted.
    pub(crate) fn publish_events(&self, events: Events) {
        if self.phase() != Phase::Counted {
            return;
        }
        let memory = &self.slot.memory;
        let elsewhere = memory.elsewhere.iter().flatten();
        let elsewhere = elsewhere.zip(events.elsewhere.into_iter().flatten());
        for (counter, pending) in [
            (&memory.reads, events.reads),
            (&memory.writes, events.writes),
            (&memory.l1_misses, events.l1_misses),
            (&memory.l2_misses, events.l2_misses),
        ]
        .into_iter()
        .chain(elsewhere)
        {
            if pending != 0 {
                counter.fetch_add(pending, Relaxed);
            }
        }
    }

    fn totals(&self) -> Totals {
        Totals::of(std::slice::from_ref(self.slot))
    }

    /// Returns true if blocks must call back although there is one thread: phases then end at their
    /// instruction, not at the next miss, which would tie them to the course of the program.
    pub(crate) fn is_sampled(&self) -> bool {
        self.plan.is_some()
    }

    /// Ends chunks and phases that are over. Returns true if the phase has changed between
    /// simulation and fast-forward, so that code must be translated again.
    pub(crate) fn keep(&self) -> bool {
        if (self.chunk == 0 && self.plan.is_none()) || self.keeping.swap(true, Acquire) {
            return false;
        }
        let totals = self.totals();
        let now = totals.instructions();
        let phase_over = now >= self.phase_end.load(Relaxed);
        // A chunk never spans two phases, so that it is either simulated or not.
        let end = if phase_over { End::Now } else { End::WhenFull };
        self.look(totals, now, end);
        let retranslate = phase_over && self.end_phase(now);
        self.keeping.store(false, Release);
        retranslate
    }

    /// Updates the count of simulated instructions and ends chunks. The caller holds `keeping`.
    fn look(&self, mut totals: Totals, now: u64, end: End) {
        let since = self.counted_to.swap(now, Relaxed);
        let new = now.saturating_sub(since);
        if self.plan.is_some() && self.phase() == Phase::Counted {
            self.slot.memory.simulated.fetch_add(new, Relaxed);
            totals.simulated += new;
        }
        if self.chunk == 0 {
            return;
        }
        // SAFETY: the caller holds `keeping`.
        let course = unsafe { &mut *self.course.get() };
        // After a long time without a miss, the part before it becomes a separate chunk.
        if new > self.chunk / 2 {
            let before = course.last_look.clone();
            self.end_chunk(course, before);
        }
        let length = now.saturating_sub(course.chunk_start.instructions());
        if end == End::Now || length >= self.chunk {
            self.end_chunk(course, totals.clone());
        }
        course.last_look = totals;
    }

    fn end_chunk(&self, course: &mut Course, at: Totals) {
        let chunk = at.since(&course.chunk_start);
        if chunk.instructions() > 0
            && ChunkCell::append(&self.page.header, &self.page.chunks, &chunk)
        {
            course.chunk_start = at;
        }
    }

    fn end_phase(&self, now: u64) -> bool {
        let Some(plan) = self.plan else { return false };
        let (next, length, retranslate) = match self.phase() {
            Phase::Counted => (Phase::FastForward, uneven(plan.fast_forward, now), true),
            Phase::FastForward => (Phase::WarmUp, plan.warm_up, true),
            Phase::WarmUp => (Phase::Counted, plan.burst, false),
        };
        self.phase.store(next as u8, Relaxed);
        self.phase_end.store(now + length, Relaxed);
        retranslate
    }

    /// Finishes the last chunk of a program that is over or about to be replaced.
    pub(crate) fn finish(&self) {
        if !self.keeping.swap(true, Acquire) {
            let totals = self.totals();
            let now = totals.instructions();
            self.look(totals, now, End::Now);
            self.keeping.store(false, Release);
        }
    }

    /// Releases the slot; its counts stay.
    pub(crate) fn release(&self) {
        if let Some(owner) = self.page.owners.get(self.slot_number.load(Relaxed) as usize) {
            owner.store(0, Release);
        }
    }
}

/// Condition for the end of a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Now,
    WhenFull,
}

/// Returns half to three halves of `length`, at random: bursts at equal distances could always hit
/// a periodic program at the same place. The same program draws about the same when it is run
/// again.
fn uneven(length: u64, seed: u64) -> u64 {
    let mixed = (seed >> INSTRUCTION_GRAIN).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let chance = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 54;
    length / 2 + length / 1024 * chance
}

/// Logarithm of a bound on the differences of counts between most runs of the same program.
const INSTRUCTION_GRAIN: u32 = 20;

/// Time between two attempts to append to a full ring.
const FULL_RING: Duration = Duration::from_micros(200);

fn is_alive(pid: u32) -> bool {
    // SAFETY: signal 0 only checks whether the process exists.
    let found = unsafe { libc::kill(pid as i32, 0) } == 0;
    found || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}
