//! The shared memory of the software PMU, seen from the scheduler.
//!
//! Both files are anonymous (`memfd`), so that nothing is left behind however memweir ends. The
//! plugin opens them as `/proc/PID/fd/N` of memweir. When memweir is gone, running processes keep
//! their mappings, and programs that they execute run natively and uncounted.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use memmap2::MmapRaw;
use memweir_abi::softpmu::layout::{JobHeader, MAGIC, VERSION};
use memweir_abi::softpmu::{
    AddressCell, ChunkCell, JobPage, LineBatch, LlcHeader, RawChunk, Sampling, Totals, Unfinished,
};
use memweir_core::cache::{CacheGeometry, CacheHierarchy};
use memweir_core::placement::Placement;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// An anonymous shared file, mapped.
#[derive(Debug)]
pub(crate) struct SharedFile {
    file: File,
    map: MmapRaw,
}

impl SharedFile {
    /// Makes a file of `size` zero bytes that no process can shrink.
    pub(crate) fn new(name: &str, size: usize) -> io::Result<Self> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create(name, flags)?);
        file.set_len(size as u64)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let map = MmapRaw::map_raw(&file)?;
        Ok(Self { file, map })
    }

    /// Returns the first byte of the mapping.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.map.as_ptr()
    }

    /// Returns its content now.
    pub(crate) fn content(&self) -> io::Result<Vec<u8>> {
        let mut content = vec![0; self.map.len()];
        self.file.read_exact_at(&mut content, 0)?;
        Ok(content)
    }

    /// Returns true if the process maps the file now.
    pub(crate) fn is_mapped_by(&self, pid: i32) -> io::Result<bool> {
        let inode = self.file.metadata()?.ino().to_string();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        // Range, access, offset, device, inode, path. Other file systems may repeat the inode.
        Ok(maps.lines().any(|line| {
            let mut fields = line.split_whitespace().skip(4);
            fields.next() == Some(&inode) && fields.next().is_some_and(|p| p.starts_with("/memfd:"))
        }))
    }

    /// Returns the path at which other processes of this user can open it.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }
}

/// Parameters of the plugin's counting.
#[derive(Clone, Debug, PartialEq)]
pub struct CountingPlan {
    /// The caches to simulate.
    pub caches: CacheHierarchy,
    /// Which pages lie in which medium.
    pub placement: Placement,
    /// The part of the execution that runs through the cache model.
    pub sampling: Sampling,
    /// Instructions per chunk, if chunks are wanted. A chunk may be longer where the program
    /// touches nothing but its first-level cache.
    pub chunk_instructions: Option<u64>,
}

impl CountingPlan {
    /// Returns a plan with everything in local DRAM, everything simulated, and no chunks.
    #[must_use]
    pub fn new(caches: CacheHierarchy) -> Self {
        let (placement, sampling) = (Placement::default(), Sampling::All);
        Self { caches, placement, sampling, chunk_instructions: None }
    }
}

/// The counters of one job.
#[derive(Debug)]
pub struct JobCounters {
    file: SharedFile,
}

impl JobCounters {
    /// Makes zero counters for a job that is about to start. The caches must be valid
    /// ([`CacheHierarchy::validate`]).
    pub fn new(plan: &CountingPlan) -> io::Result<Self> {
        let counters = Self { file: SharedFile::new("memweir-job", size_of::<JobPage>())? };
        let header = counters.header();
        header.set_caches(&plan.caches);
        header.placement.set(&plan.placement);
        header.chunk_instructions.store(plan.chunk_instructions.unwrap_or(0), Relaxed);
        if let Some(bursts) = plan.sampling.plan() {
            let lengths = [bursts.warm_up, bursts.burst, bursts.fast_forward];
            for (word, length) in header.sampling.iter().zip(lengths) {
                word.store(length, Relaxed);
            }
        }
        // The job's first program.
        header.uncounted_programs.store(1, Relaxed);
        header.magic.store(MAGIC, Relaxed);
        header.version.store(VERSION, Relaxed);
        Ok(counters)
    }

    fn page(&self) -> &JobPage {
        // SAFETY: the mapping is page-aligned, exactly as large as a `JobPage`, cannot shrink
        // (sealed), and lives as long as `self`. A `JobPage` is atomics only, so that any content
        // is valid and other processes may write it.
        unsafe { &*self.file.map.as_ptr().cast::<JobPage>() }
    }

    /// Returns the configuration and the counts of rare events.
    #[must_use]
    pub fn header(&self) -> &JobHeader {
        &self.page().header
    }

    /// Returns the path at which the plugin opens it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.file.path()
    }

    /// Returns everything counted so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let slots = &self.page().slots;
        let used = self.header().slots_used.load(Relaxed) as usize;
        Totals::of(&slots[..used.min(slots.len())])
    }

    /// Returns the counts so far of the processes that had this slot.
    #[must_use]
    pub fn totals_of(&self, slot: usize) -> Totals {
        Totals::of(self.page().slots.get(slot..=slot).unwrap_or_default())
    }

    /// Takes the next finished chunk.
    pub fn take_chunk(&self, unfinished: Unfinished) -> Option<RawChunk> {
        ChunkCell::take(self.header(), &self.page().chunks, unfinished)
    }

    /// Makes the job's processes record their accesses to memory from now on, and wait where this
    /// process does not [take](Self::take_accesses) them. Called before the job starts.
    pub fn record_accesses(&self) {
        self.header().recorder.store(std::process::id().into(), Relaxed);
    }

    /// Ends the recording of accesses: processes of the job that still run do not wait.
    pub fn end_accesses(&self) {
        self.header().recorder.store(0, Relaxed);
    }

    /// Takes the next accesses that a thread has recorded.
    pub fn take_accesses(&self, unfinished: Unfinished) -> Option<LineBatch> {
        AddressCell::take(self.header(), &self.page().addresses, unfinished)
    }

    /// Returns the number of processes and programs of the job that were not counted.
    #[must_use]
    pub fn uncounted(&self) -> u64 {
        let header = self.header();
        header.uncounted.load(Relaxed) + header.uncounted_programs.load(Relaxed)
    }

    /// Returns messages for the user about this job's counts.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let header = self.header();
        [
            (&header.uncounted, "processes uncounted because too many ran at the same time"),
            (
                &header.uncounted_programs,
                "programs uncounted because they are not fit for the emulator or have no access to \
                 the counters (another user, another namespace)",
            ),
            (&header.avx512, "AVX-512 instructions, which the emulator does not have"),
            (&header.accesses_lost, "accesses to memory not recorded because nobody took them"),
            (&header.placement.moved, "pages moved between media, the hotter ones to DRAM"),
        ]
        .into_iter()
        .map(|(count, what)| (count.load(Relaxed), what))
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{what}: {count}"))
        .collect()
    }
}

/// The last-level cache of all jobs of a batch.
#[derive(Debug)]
pub struct LastLevel {
    file: SharedFile,
}

impl LastLevel {
    /// Makes an empty cache of a valid geometry.
    pub fn new(geometry: &CacheGeometry) -> io::Result<Self> {
        let cache = Self { file: SharedFile::new("memweir-llc", LlcHeader::file_size(geometry))? };
        // SAFETY: as in `JobCounters::page`; the file is larger than its header.
        let header = unsafe { &*cache.file.map.as_ptr().cast::<LlcHeader>() };
        let store = |word: &AtomicU64, value: u64| word.store(value, Relaxed);
        store(&header.sets, geometry.sets());
        store(&header.ways, u64::from(geometry.ways));
        store(&header.magic, MAGIC);
        store(&header.version, VERSION);
        Ok(cache)
    }

    /// Returns the path at which the plugin opens it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.file.path()
    }
}
