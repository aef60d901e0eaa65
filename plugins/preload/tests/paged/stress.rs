//! Writers, atomic additions and system calls that write, on more threads than processors, while
//! pages are evicted. The owner of a word checks it before overwriting it.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::calls::PAGE;

/// Pages that are written: as many as [`BUDGET`] has room for; as much memory again records what
/// was written.
const PAGES: usize = 3072;
/// A budget of half the memory that the stress needs, in MiB.
pub(crate) const BUDGET: u64 = 12;
/// Factor by which the wide stress and its budget are larger: enough for batches of 144 pages.
pub(crate) const WIDE: u64 = 12;
const WORDS: usize = PAGE / 8;
/// Words of a page for atomic additions; then those of the writers, then those of system calls.
const SHARED: usize = 8;
const BY_CALLS: usize = 448;

/// Returns the least number of evictions of a run.
pub(crate) fn evictions() -> u64 {
    std::env::var("MEMWEIR_STRESS_EVICTIONS")
        .map_or(100_000, |number| number.parse().expect("MEMWEIR_STRESS_EVICTIONS is a number"))
}

/// The pages, and the sums over all threads.
struct Arena {
    words: &'static [AtomicU64],
    lost: AtomicU64,
    added: AtomicU64,
    stop: AtomicBool,
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}

impl Arena {
    /// Creates an arena of words that are zero.
    fn of(words: &'static [AtomicU64]) -> Self {
        Self {
            words,
            lost: AtomicU64::new(0),
            added: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    fn check(&self, at: usize, expected: &mut u64) {
        let found = self.words[at].load(Ordering::Relaxed);
        if found != *expected {
            self.lost.fetch_add(1, Ordering::Relaxed);
            *expected = found;
        }
    }

    fn pages(&self) -> usize {
        self.words.len() / WORDS
    }

    /// Writes words of this writer in all pages.
    fn write(&self, writer: usize, writers: usize) {
        let mut random = Random(88_172_645_463_325_252 * (writer as u64 + 3));
        let room = (BY_CALLS - SHARED) / writers;
        let mut expected = vec![0u64; self.pages() * room];
        let place = |page: usize, i: usize| page * WORDS + SHARED + i * writers + writer;
        let mut sequence = 0u64;
        while !self.stop.load(Ordering::Relaxed) {
            let (page, i) = (random.below(self.pages()), random.below(room));
            let at = place(page, i);
            self.check(at, &mut expected[page * room + i]);
            // Now and then many writes in a row, to hit the eviction of this very page.
            for _ in 0..if sequence.is_multiple_of(1024) { 2000 } else { 1 } {
                sequence += 1;
                self.words[at].store((writer as u64 + 1) << 56 | sequence, Ordering::Relaxed);
            }
            expected[page * room + i] = (writer as u64 + 1) << 56 | sequence;
            if sequence.is_multiple_of(4) {
                let shared = random.below(self.pages()) * WORDS + random.below(SHARED);
                self.words[shared].fetch_add(1, Ordering::Relaxed);
                self.added.fetch_add(1, Ordering::Relaxed);
            }
            // Mostly reads, so that pages are mapped in place before they are written.
            let mut sum = 0u64;
            for _ in 0..8 {
                let at = random.below(self.pages()) * WORDS;
                sum = sum.wrapping_add(self.words[at].load(Ordering::Relaxed));
            }
            std::hint::black_box(sum);
        }
        for page in 0..self.pages() {
            for i in 0..room {
                self.check(place(page, i), &mut expected[page * room + i]);
            }
        }
    }

    /// Makes the kernel write.
    fn read_from_pipe(&self) {
        let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
        let mut random = Random(12_345);
        let mut expected = vec![0u64; self.pages() * (WORDS - BY_CALLS)];
        let mut sequence = 0u64;
        while !self.stop.load(Ordering::Relaxed) {
            let (page, i) = (random.below(self.pages()), random.below(8) * 8);
            let values: [u64; 8] = std::array::from_fn(|k| 0xee << 56 | (sequence + k as u64));
            sequence += 8;
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
            writer.write_all(&bytes).expect("the pipe");
            let at = self.words[page * WORDS + BY_CALLS + i].as_ptr();
            // SAFETY: these eight words are this thread's own.
            let read = unsafe { libc::read(reader.as_raw_fd(), at.cast(), 64) };
            if read != 64 {
                println!("read: {read} of 64 bytes, {}", std::io::Error::last_os_error());
                self.lost.fetch_add(1, Ordering::Relaxed);
                let rest = 64 - usize::try_from(read).unwrap_or(0);
                reader.read_exact(&mut vec![0; rest]).expect("the pipe");
            }
            for (k, value) in values.iter().enumerate() {
                let mut value = *value;
                self.check(page * WORDS + BY_CALLS + i + k, &mut value);
                expected[page * (WORDS - BY_CALLS) + i + k] = value;
            }
        }
        for (at, value) in expected.iter_mut().enumerate() {
            let (page, i) = (at / (WORDS - BY_CALLS), at % (WORDS - BY_CALLS));
            self.check(page * WORDS + BY_CALLS + i, value);
        }
    }

    /// Runs until `done`, then fails if a write was lost.
    fn run(&self, done: impl Fn() -> bool, meanwhile: impl Fn() + Sync) {
        let writers = std::thread::available_parallelism().map_or(1, usize::from) + 1;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !self.stop.load(Ordering::Relaxed) {
                    meanwhile();
                }
            });
            for writer in 0..writers {
                scope.spawn(move || self.write(writer, writers));
            }
            scope.spawn(|| self.read_from_pipe());
            while !done() {
                std::thread::sleep(Duration::from_millis(20));
            }
            self.stop.store(true, Ordering::Relaxed);
        });
        let shared = (0..self.pages() * WORDS).filter(|at| at % WORDS < SHARED);
        let sum: u64 = shared.map(|at| self.words[at].load(Ordering::Relaxed)).sum();
        let missing = self.added.load(Ordering::Relaxed) as i64 - sum as i64;
        let lost = self.lost.load(Ordering::Relaxed);
        println!("lost: {lost} words, {missing} additions");
        assert!(lost == 0 && missing == 0);
    }
}

/// Returns the evictions counted so far, as the program itself can see them.
fn counted() -> u64 {
    use memweir_abi::preload::page::{PAGE_ORDER_VARIABLE, PageCounter, PageCounters, PageOrder};
    let order = std::env::var(PAGE_ORDER_VARIABLE).expect("an order");
    let order: PageOrder = order.parse().expect("an order");
    PageCounters::of(&std::fs::read(order.counters).expect("counters")).get(PageCounter::Evictions)
}

/// The stress, paged.
pub(crate) fn program() {
    paged(PAGES);
}

/// The same on enough memory that many pages leave together.
pub(crate) fn wide() {
    paged(PAGES * WIDE as usize);
}

fn paged(pages: usize) {
    let memory: Vec<AtomicU64> = (0..pages * WORDS).map(|_| AtomicU64::new(0)).collect();
    let arena = Arena::of(memory.leak());
    let begun = Instant::now();
    let enough = || counted() >= evictions() || begun.elapsed() > Duration::from_secs(3600);
    arena.run(enough, || std::thread::sleep(Duration::from_millis(20)));
}

/// The same while pages are evicted without protection: a fault that the stress must find.
pub(crate) fn uncontrolled() {
    let length = PAGES * PAGE;
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
    // SAFETY: a new file and a new mapping of it, which stays.
    let (file, start) = unsafe {
        let file = libc::memfd_create(c"slots".as_ptr(), libc::MFD_CLOEXEC);
        assert_eq!(libc::ftruncate(file, length as i64), 0);
        (file, libc::mmap(std::ptr::null_mut(), length, both, flags, file, 0))
    };
    assert_ne!(start, libc::MAP_FAILED);
    // SAFETY: the mapping is that large, zero at first, and never unmapped.
    let arena = Arena::of(unsafe { std::slice::from_raw_parts(start.cast(), PAGES * WORDS) });
    let start = start as usize;
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let evict = || {
        let page = next.fetch_add(1, Ordering::Relaxed) as usize * 7 % PAGES;
        let (address, length) = ((start + page * PAGE) as *mut libc::c_void, PAGE);
        // SAFETY: evicts a page of the arena, unsoundly on purpose.
        unsafe {
            libc::pwrite(file, address, length, (page * PAGE) as i64);
            libc::madvise(address, length, libc::MADV_DONTNEED);
        }
    };
    let enough = || {
        let lost = arena.lost.load(Ordering::Relaxed) > 0;
        lost || begun.elapsed() > Duration::from_secs(120)
    };
    arena.run(enough, evict);
}
