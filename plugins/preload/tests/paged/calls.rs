//! Calls that have another meaning for mappings of a file than for plain memory.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use memweir_abi::kernel::PAGE_BYTES;
use memweir_abi::kernel::pagemap::{ENTRY_BYTES, Entry, entry_offset};
use memweir_abi::preload::page::{PAGE_ORDER_VARIABLE, PageCounter, PageCounters, PageOrder};

pub(crate) const PAGE: usize = PAGE_BYTES;
const PAGES: usize = 64;
/// `MADV_GUARD_INSTALL`, of Linux 6.13.
const GUARD_INSTALL: i32 = 102;
const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Memory that the program gets by `mmap`.
struct Block(usize, usize);

impl Block {
    fn new(pages: usize) -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), pages * PAGE, BOTH, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Self(start as usize, pages)
    }

    fn at(&self, page: usize) -> &AtomicU64 {
        // SAFETY: the memory is mapped, and the word is one.
        unsafe { AtomicU64::from_ptr((self.0 + page * PAGE + page % 500 * 8) as *mut u64) }
    }

    fn write(&self, salt: u64) {
        (0..self.1).for_each(|page| self.at(page).store(page as u64 ^ salt, Ordering::Relaxed));
    }

    fn has(&self, pages: std::ops::Range<usize>, salt: u64) -> bool {
        pages.into_iter().all(|page| self.at(page).load(Ordering::Relaxed) == page as u64 ^ salt)
    }

    fn is_zero(&self, pages: std::ops::Range<usize>) -> bool {
        pages.into_iter().all(|page| self.at(page).load(Ordering::Relaxed) == 0)
    }

    fn address(&self, page: usize) -> *mut c_void {
        (self.0 + page * PAGE) as *mut c_void
    }

    /// Returns the number of pages with a copy in DRAM.
    fn in_dram(&self) -> usize {
        use std::os::unix::fs::FileExt;
        let pagemap = std::fs::File::open("/proc/self/pagemap").expect("pagemap");
        let mut entries = vec![0; self.1 * ENTRY_BYTES];
        pagemap.read_exact_at(&mut entries, entry_offset(self.0)).expect("pagemap");
        Entry::all(&entries).filter(|entry| entry.is_present() && !entry.is_file()).count()
    }

    /// Returns the number of pages that a forked child has mapped.
    fn mapped_in_child(&self) -> usize {
        let is_mapped = |page: usize| {
            let mut resident = 0u8;
            // SAFETY: the kernel writes one byte.
            unsafe { libc::mincore(self.address(page), PAGE, &mut resident) == 0 }
        };
        let mut ends = [0; 2];
        let mut count = [0u8; 8];
        // SAFETY: the child only makes system calls, writes the result to the pipe, and ends.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            let child = libc::fork();
            if child == 0 {
                let found = (0..self.1).filter(|page| is_mapped(*page)).count().to_ne_bytes();
                libc::write(ends[1], found.as_ptr().cast(), found.len());
                libc::_exit(0);
            }
            assert_eq!(libc::read(ends[0], count.as_mut_ptr().cast(), count.len()), 8);
            assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
            for end in ends {
                libc::close(end);
            }
        }
        usize::from_ne_bytes(count)
    }

    /// Waits until all pages have left DRAM while other memory comes to it.
    fn evict(&self) {
        for round in 0..200 {
            if self.in_dram() == 0 {
                return;
            }
            let ballast = Self::new(6000);
            ballast.write(round);
            assert!(ballast.has(0..6000, round));
            ballast.unmap();
        }
        panic!("{} pages stay in DRAM", self.in_dram());
    }

    /// Changes the number of pages by `mremap`, which may move them.
    fn resized(self, pages: usize) -> Self {
        let (before, after) = (self.1 * PAGE, pages * PAGE);
        // SAFETY: the memory is the test's, which uses its new place from here on.
        let moved = unsafe { libc::mremap(self.address(0), before, after, libc::MREMAP_MAYMOVE) };
        assert_ne!(moved, libc::MAP_FAILED);
        Self(moved as usize, pages)
    }

    fn unmap(self) {
        // SAFETY: the memory is no longer used.
        assert_eq!(unsafe { libc::munmap(self.address(0), self.1 * PAGE) }, 0);
    }

    fn advise(&self, pages: std::ops::Range<usize>, advice: i32) -> i32 {
        // SAFETY: the memory is the test's.
        unsafe { libc::madvise(self.address(pages.start), pages.len() * PAGE, advice) }
    }
}

fn evicted(salt: u64) -> Block {
    let block = Block::new(PAGES);
    block.write(salt);
    block.evict();
    block
}

/// Pages that are touched again, at the end of the program.
pub(crate) const TOUCHED_AGAIN: usize = 4000;

/// Touches memory again that was evicted, in a budget of 80 MiB, and dropped.
pub(crate) fn touching_again() {
    let block = Block::new(TOUCHED_AGAIN);
    block.write(1);
    for round in 0..100 {
        if block.in_dram() == 0 {
            break;
        }
        let ballast = Block::new(24_000);
        ballast.write(round);
        ballast.unmap();
    }
    assert_eq!(block.in_dram(), 0);
    assert_eq!(block.advise(0..TOUCHED_AGAIN, libc::MADV_DONTNEED), 0);
    block.write(2);
}

/// All tests, in one program.
pub(crate) fn program() {
    assert!(std::env::var_os(PAGE_ORDER_VARIABLE).is_some());
    dropping();
    dropping_without_libc();
    moving();
    failing_to_move();
    moving_while_memory_leaves();
    moving_again_and_again();
    locking();
    locks_outlive_moves_and_advice();
    calling_within_a_page();
    advising();
    advising_while_memory_leaves();
    advice_outlives_locks_and_moves();
    guarding();
    asking_for_a_protection_key();
    binding_to_nodes();
    sealing();
    keeping_from_children();
    staying_beside_what_changes();
    reusing();
    protecting();
    signals();
    refusing();
    heap();
}

fn dropping() {
    let plain = Block::new(PAGES);
    plain.write(6);
    assert_eq!(plain.advise(4..20, libc::MADV_FREE), 0);
    assert!(plain.is_zero(4..20) && plain.has(0..4, 6) && plain.has(20..PAGES, 6));
    plain.unmap();
    for advice in [libc::MADV_DONTNEED, libc::MADV_FREE] {
        let block = evicted(7);
        assert!(block.has(0..8, 7), "read in place");
        block.at(9).fetch_add(0x100, Ordering::Relaxed);
        assert_eq!(block.advise(4..20, advice), 0);
        assert!(block.is_zero(4..20));
        assert!(block.has(0..4, 7) && block.has(20..PAGES, 7));
        block.write(8);
        block.evict();
        assert!(block.has(0..PAGES, 8));
        block.unmap();
    }
}

/// The kernel alone would leave the content of evicted pages.
fn dropping_without_libc() {
    let block = evicted(9);
    let vector = [block.address(0) as usize, 8 * PAGE];
    for (advice, refusal) in [(libc::MADV_DONTNEED, libc::ENOSYS), (GUARD_INSTALL, libc::EINVAL)] {
        // SAFETY: the memory is the test's.
        let results = unsafe {
            let itself = libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0);
            let one = libc::syscall(libc::SYS_madvise, vector[0], vector[1], advice, 0, 0, 0);
            let first = errno();
            let (call, parts) = (libc::SYS_process_madvise, &raw const vector);
            let more = libc::syscall(call, itself, parts, 1, advice, 0, 0);
            let second = errno();
            libc::close(itself as i32);
            [(one, first), (more, second)]
        };
        assert_eq!(results, [(-1, refusal); 2]);
        assert!(block.has(0..PAGES, 9));
    }
    block.unmap();
}

/// Moves memory that is evicted.
pub(crate) fn moving() {
    for after in [300, 16, PAGES] {
        let block = evicted(21);
        block.at(3).store(3 ^ 21, Ordering::Relaxed);
        // Prevents growth in place.
        let beside = Block::new(300);
        let moved = block.resized(after);
        assert!(moved.has(0..PAGES.min(after), 21));
        assert!(moved.is_zero(PAGES.min(after)..after));
        moved.write(22);
        moved.evict();
        assert!(moved.has(0..after, 22));
        beside.unmap();
        moved.unmap();
    }
    let (block, target) = (evicted(23), Block::new(PAGES));
    target.write(1);
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let (from, length) = (block.address(0), PAGES * PAGE);
    // SAFETY: both are the test's.
    let moved = unsafe { libc::mremap(from, length, length, flags, target.address(0)) };
    assert_eq!(moved, target.address(0));
    assert!(target.has(0..PAGES, 23));
    // An array that grows step by step, as large arrays do.
    let mut array = Vec::new();
    for value in 0..1_500_000u64 {
        array.push(value);
    }
    assert!(array.iter().enumerate().all(|(i, value)| i as u64 == *value));
}

/// A part that cannot be read makes a move fail half way. The block is as it was, and the next
/// memory at the new address is empty.
fn failing_to_move() {
    let (block, target) = (evicted(25), Block::new(PAGES));
    let protect = |protection: i32| {
        // SAFETY: the memory is the test's.
        unsafe { libc::mprotect(block.address(PAGES / 2), PAGES / 2 * PAGE, protection) }
    };
    assert_eq!(protect(libc::PROT_NONE), 0);
    let (flags, length) = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, PAGES * PAGE);
    // SAFETY: both are the test's.
    let moved = unsafe { libc::mremap(block.address(0), length, length, flags, target.address(0)) };
    assert_eq!(moved, libc::MAP_FAILED);
    assert_eq!(protect(BOTH), 0);
    assert!(block.has(0..PAGES, 25));
    let fixed = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: as above.
    let start = unsafe { libc::mmap(target.address(0), length, BOTH, fixed, -1, 0) };
    assert_eq!(start, target.address(0));
    // The pages in between leave together with these.
    (0..PAGES).step_by(8).for_each(|page| target.at(page).store(1, Ordering::Relaxed));
    target.evict();
    let rest = (0..PAGES).filter(|page| page % 8 != 0);
    assert_eq!(rest.filter(|page| target.at(*page).load(Ordering::Relaxed) != 0).count(), 0);
    block.unmap();
    target.unmap();
}

/// Does the work, which must succeed, while another thread writes all the time, so that other
/// memory is put into the file at any moment.
fn while_memory_leaves(work: impl FnOnce() -> bool) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let ballast = Block::new(6000);
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                ballast.write(round);
                round += 1;
            }
            ballast.unmap();
        });
        let succeeded = work();
        done.store(true, Ordering::Relaxed);
        assert!(succeeded);
    });
}

fn moving_while_memory_leaves() {
    const AT_ONCE: u64 = 20;
    let moved = |salt: u64| {
        let block = Block::new(PAGES);
        block.write(salt);
        block.resized(2 * PAGES)
    };
    let keeps = |round: u64| {
        let salts = round * AT_ONCE..(round + 1) * AT_ONCE;
        let blocks: Vec<Block> = salts.clone().map(moved).collect();
        let whole = |(block, salt): (&Block, u64)| block.has(0..PAGES, salt);
        let kept = blocks.iter().zip(salts).all(whole);
        blocks.into_iter().for_each(Block::unmap);
        kept
    };
    while_memory_leaves(|| (0..30).all(keeps));
}

/// Moves a block again and again. Parts of it go to the file meanwhile, also between a call of the
/// program and the helper's answer. In the second round the block is several mappings, which a
/// kernel since 6.17 moves to a fixed place one by one.
fn moving_again_and_again() {
    const LARGE: usize = 800;
    const BALLAST: usize = 5120;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let ballast = Block::new(BALLAST);
    ballast.write(0);
    for salt in [30, 31] {
        let mut block = Block::new(LARGE);
        block.write(salt);
        if salt == 31 {
            assert_eq!(block.advise(LARGE / 4..LARGE / 2, libc::MADV_NOHUGEPAGE), 0);
        }
        for round in 0..500 {
            (0..50).for_each(|i| {
                ballast.at((round * 50 + i) * 2_963 % BALLAST).fetch_add(1, Ordering::Relaxed);
            });
            assert!(block.has(round..round + 20, salt));
            let (length, target) = (LARGE * PAGE, Block::new(LARGE).address(0));
            // SAFETY: both are the test's, which uses the new place from here on.
            let start = unsafe { libc::mremap(block.address(0), length, length, flags, target) };
            assert_eq!(start, target, "move {round}: {}", errno());
            block = Block(start as usize, LARGE);
        }
        assert!(block.has(0..LARGE, salt));
        block.unmap();
    }
    ballast.unmap();
}

/// The kernel refuses this advice for mappings of a file.
fn advising_while_memory_leaves() {
    let accepts = |salt: u64| {
        let block = Block::new(PAGES);
        block.write(salt);
        let advised = block.advise(0..PAGES, libc::MADV_WIPEONFORK) == 0;
        block.unmap();
        advised
    };
    while_memory_leaves(|| (0..600).all(accepts));
}

/// Locks the first pages; returns false, and reports a skip, if that is not permitted.
fn locks(block: &Block, pages: usize) -> bool {
    // SAFETY: the memory is the test's.
    let locked = unsafe { libc::mlock(block.address(0), pages * PAGE) } == 0;
    if !locked {
        memweir_test_support::skip!(Privilege, "mlock: {}", std::io::Error::last_os_error());
    }
    locked
}

fn locking() {
    let block = evicted(31);
    if !locks(&block, 8) {
        return;
    }
    let first = Block(block.0, 8);
    assert_eq!(first.in_dram(), 8);
    first.write(32);
    let ballast = Block::new(9000);
    (0..3).for_each(|round| ballast.write(round));
    assert_eq!(first.in_dram(), 8, "locked pages stay");
    assert!(first.has(0..8, 32));
    // SAFETY: as above.
    assert_eq!(unsafe { libc::munlock(block.address(0), 8 * PAGE) }, 0);
    first.evict();
    assert!(first.has(0..8, 32) && block.has(8..PAGES, 31));
}

/// Returns the kilobytes of memory that are locked.
fn locked() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("VmLck");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn locks_outlive_moves_and_advice() {
    let (block, other, beside) = (evicted(33), evicted(34), locked());
    if !(locks(&block, PAGES) && locks(&other, PAGES)) {
        return;
    }
    let moved = block.resized(2 * PAGES);
    assert_eq!(other.advise(0..PAGES, libc::MADV_DONTDUMP), 0);
    assert_eq!(locked() - beside, 3 * PAGES * PAGE / 1024);
    assert!(moved.has(0..PAGES, 33) && moved.is_zero(PAGES..2 * PAGES) && other.has(0..PAGES, 34));
    moved.unmap();
    other.unmap();
}

/// The pages behind bytes within a page that are locked, or would be advised about if the kernel
/// did not refuse that, leave DRAM like any other memory.
fn calling_within_a_page() {
    let block = Block::new(PAGES);
    block.write(37);
    let bytes = (block.0 + 8 * PAGE + 24) as *mut c_void;
    // SAFETY: the memory is the test's.
    let advised = unsafe { libc::madvise(bytes, 16, libc::MADV_DONTDUMP) };
    assert_eq!((advised, errno()), (-1, libc::EINVAL));
    // SAFETY: as above.
    if unsafe { libc::mlock(bytes, 16) } != 0 {
        return memweir_test_support::skip!(Privilege, "mlock: errno {}", errno());
    }
    let (page, behind) = (Block(block.0 + 8 * PAGE, 1), Block(block.0 + 9 * PAGE, PAGES - 9));
    behind.evict();
    assert_eq!(page.in_dram(), 1, "it is locked");
    // SAFETY: as above.
    assert_eq!(unsafe { libc::munlock(bytes, 16) }, 0);
    page.evict();
    assert!(block.has(0..PAGES, 37));
    block.unmap();
}

/// Locks all memory, evicted and plain, and unlocks it again.
pub(crate) fn locking_all() {
    let plain = Block::new(PAGES);
    plain.write(81);
    lock_all_with(&plain, 82);
    let block = evicted(83);
    lock_all_with(&block, 84);
    plain.evict();
    assert!(plain.has(0..PAGES, 82));
    locks_of_all_outlive_moves();
    dropping_what_is_locked();
    locked_memory_is_counted();
}

/// Waits until the helper has counted all memory as locked.
fn locked_memory_is_counted() {
    let block = Block::new(4000);
    block.write(87);
    let order = std::env::var(PAGE_ORDER_VARIABLE).expect("an order");
    let path = order.parse::<PageOrder>().expect("an order").counters;
    let counted = || {
        let counters = PageCounters::of(&std::fs::read(&path).expect("counters"));
        counters.get(PageCounter::UnpageableBytes) >= (block.1 * PAGE) as u64
    };
    if !locks_all() {
        return;
    }
    for _ in 0..1000 {
        if counted() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(counted());
    // SAFETY: unlocks this program's memory.
    unsafe { libc::munlockall() };
}

/// Locks all memory; returns false, and reports a skip, if that is not permitted.
fn locks_all() -> bool {
    // SAFETY: locks this program's memory.
    let locked = unsafe { libc::mlockall(libc::MCL_CURRENT) } == 0;
    if !locked {
        memweir_test_support::skip!(Privilege, "mlockall: {}", std::io::Error::last_os_error());
    }
    locked
}

/// Locks and unlocks a block that moves in the meantime, in two ways at once.
fn locks_of_all_outlive_moves() {
    let block = evicted(85);
    if !(locks(&block, 8) && locks_all()) {
        return;
    }
    let before = locked();
    let moved = block.resized(2 * PAGES);
    let more = locked() - before;
    assert_eq!(more, PAGES * PAGE / 1024, "all that moved is locked, and what is new");
    // SAFETY: unlocks this program's memory.
    unsafe { libc::munlockall() };
    moved.evict();
    assert!(moved.has(0..PAGES, 85) && moved.is_zero(PAGES..2 * PAGES));
}

/// Drops more locked memory than is dropped at a time.
fn dropping_what_is_locked() {
    const LARGE: usize = 1500;
    const DONTNEED_LOCKED: i32 = 24;
    let block = Block::new(LARGE);
    block.write(86);
    block.evict();
    if !locks_all() {
        return;
    }
    assert_eq!(block.advise(0..LARGE, DONTNEED_LOCKED), 0);
    assert!(block.is_zero(0..LARGE));
    // SAFETY: unlocks this program's memory.
    unsafe { libc::munlockall() };
    block.unmap();
}

/// Locks all memory while more is written than there is room for; the block stays in DRAM
/// meanwhile.
fn lock_all_with(block: &Block, salt: u64) {
    if !locks_all() {
        return;
    }
    assert_eq!(block.in_dram(), block.1);
    block.write(salt);
    let ballast = Block::new(9000);
    for round in 0..3 {
        ballast.write(round);
        assert_eq!(block.in_dram(), block.1, "locked pages stay");
    }
    assert!(ballast.has(0..9000, 2) && block.has(0..block.1, salt));
    // SAFETY: as above.
    assert_eq!(unsafe { libc::munlockall() }, 0);
    ballast.unmap();
    block.evict();
    assert!(block.has(0..block.1, salt));
}

fn advising() {
    let block = evicted(41);
    assert_eq!(block.advise(0..8, libc::MADV_WIPEONFORK), 0, "asks for plain memory");
    assert_eq!(block.advise(8..16, libc::MADV_DONTFORK), 0);
    assert!(block.has(0..PAGES, 41));
    let huge = block.advise(16..PAGES, libc::MADV_HUGEPAGE);
    let absent = std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
    assert!(huge == 0 || absent);
    assert!(block.has(0..PAGES, 41));
}

/// Children find zeros in such memory, and would find the content of what had left DRAM.
fn advice_outlives_locks_and_moves() {
    let block = evicted(61);
    assert_eq!(block.advise(0..PAGES, libc::MADV_WIPEONFORK), 0);
    // SAFETY: the memory is the test's.
    unsafe {
        libc::mlock(block.address(0), 8 * PAGE);
        libc::munlock(block.address(0), 8 * PAGE);
    }
    let block = Block(block.resized(2 * PAGES).0, PAGES);
    stays(&block, 61);
}

/// Asserts that all pages stay in DRAM while other memory comes to it.
fn stays(block: &Block, salt: u64) {
    let ballast = Block::new(9000);
    (0..3).for_each(|round| ballast.write(round));
    ballast.unmap();
    assert_eq!(block.in_dram(), block.1);
    assert!(block.has(0..block.1, salt));
}

/// The helper has no right to read memory with a key. The answer of the kernel does not matter, so
/// a machine without keys shows it, too.
fn asking_for_a_protection_key() {
    let block = evicted(62);
    let (start, length) = (block.address(0) as usize, 8 * PAGE);
    // SAFETY: libc has the function, and the memory is the test's.
    let set = |key: i32| unsafe { pkey_mprotect(start, length, BOTH, key) };
    assert_eq!((set(-1), block.in_dram()), (0, 0), "another name of `mprotect`");
    // SAFETY: makes a key, if the machine has any.
    let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, 0) } as i32;
    assert_eq!(set(if key < 0 { 1 } else { key }), if key < 0 { -1 } else { 0 });
    assert_eq!(block.in_dram(), 8);
    assert!(block.has(0..PAGES, 62));
}

unsafe extern "C" {
    fn pkey_mprotect(address: usize, length: usize, protection: i32, key: i32) -> i32;
}

/// Memory that the program places on nodes of its choice is not placed on others.
fn binding_to_nodes() {
    let bound = |mode: i32, nodes: &[u64]| {
        let block = Block::new(PAGES);
        let (start, length, nodes) = (block.address(0), PAGES * PAGE, nodes.as_ptr());
        // SAFETY: the memory is the test's, and the kernel reads as many nodes as there are.
        let done = unsafe { libc::syscall(libc::SYS_mbind, start, length, mode, nodes, 64, 0) };
        (done == 0).then(|| block.write(63))?;
        Some(block)
    };
    let (Some(fixed), Some(local)) = (bound(libc::MPOL_BIND, &[1]), bound(libc::MPOL_LOCAL, &[0]))
    else {
        return memweir_test_support::skip!(Kernel, "mbind: {}", errno());
    };
    stays(&fixed, 63);
    fixed.unmap();
    local.evict();
    assert!(local.has(0..PAGES, 63));
}

/// Sealed memory cannot be replaced.
fn sealing() {
    let block = Block::new(PAGES);
    // SAFETY: the memory is the test's.
    if unsafe { libc::syscall(libc::SYS_mseal, block.address(0), PAGES * PAGE, 0) } != 0 {
        return memweir_test_support::skip!(Kernel, "mseal is of Linux 6.10");
    }
    block.write(65);
    stays(&block, 65);
}

/// Pages that were guarded are empty, wherever their content was.
fn guarding() {
    const REMOVE: i32 = 103;
    let block = evicted(71);
    if block.advise(0..8, GUARD_INSTALL) != 0 {
        return memweir_test_support::skip!(Kernel, "MADV_GUARD_INSTALL is of Linux 6.13");
    }
    assert_eq!(block.advise(0..8, REMOVE), 0);
    assert!(block.is_zero(0..8) && block.has(8..PAGES, 71));
}

/// Memory that forked children do not inherit leaves DRAM like any other, and they do not get its
/// slots either.
fn keeping_from_children() {
    let block = Block::new(PAGES);
    block.write(91);
    assert_eq!(block.advise(0..PAGES - 8, libc::MADV_DONTFORK), 0);
    block.evict();
    assert_eq!(block.mapped_in_child(), 8);
    assert!(block.has(0..PAGES, 91));
    // Before the memory is in the file, and while it is.
    block.evict();
    assert_eq!(block.advise(PAGES - 8..PAGES, libc::MADV_DONTFORK), 0);
    assert_eq!(block.mapped_in_child(), 0);
    let beside = Block::new(300);
    let moved = block.resized(300);
    assert!(moved.has(0..PAGES, 91));
    assert_eq!(moved.mapped_in_child(), 0);
    moved.evict();
    assert_eq!(moved.mapped_in_child(), 0);
    assert_eq!(moved.advise(0..8, libc::MADV_DONTNEED), 0);
    assert_eq!(moved.advise(8..300, libc::MADV_DOFORK), 0);
    moved.evict();
    assert_eq!(moved.mapped_in_child(), 292);
    assert!(moved.is_zero(0..8) && moved.has(8..PAGES, 91));
    moved.unmap();
    beside.unmap();
}

/// A small mapping leaves DRAM although the memory just below it, in the same chunk, is filled and
/// unmapped all the time.
fn staying_beside_what_changes() {
    const CHUNK: usize = 512;
    const BALLAST: usize = 6000;
    let room = Block::new(BALLAST + 2 * CHUNK);
    let last = (room.0 / PAGE + room.1 - CHUNK) / CHUNK * CHUNK;
    let block = Block((last + CHUNK / 2) * PAGE, PAGES);
    // Gives it a mapping of its own.
    assert_eq!(block.advise(0..PAGES, libc::MADV_DONTFORK), 0);
    block.write(71);
    let below = block.0 - BALLAST * PAGE;
    for round in 0..50 {
        if block.in_dram() == 0 {
            break;
        }
        let fixed = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: replaces memory of the test.
        let start = unsafe { libc::mmap(below as *mut c_void, BALLAST * PAGE, BOTH, fixed, -1, 0) };
        assert_eq!(start as usize, below);
        Block(below, BALLAST).write(round);
    }
    assert_eq!(block.in_dram(), 0);
    assert!(block.has(0..PAGES, 71));
    room.unmap();
}

fn reusing() {
    for round in 0..10 {
        let block = evicted(51 + round);
        let start = block.0;
        block.unmap();
        let again = Block::new(PAGES);
        assert!(again.is_zero(0..PAGES), "new memory, at {start:x} before");
        again.write(52);
        again.evict();
        assert!(again.has(0..PAGES, 52));
        let fixed = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: replaces memory of the test.
        unsafe { libc::mmap(again.address(8), 8 * PAGE, BOTH, fixed, -1, 0) };
        assert!(again.is_zero(8..16) && again.has(0..8, 52) && again.has(16..PAGES, 52));
        again.unmap();
    }
}

fn protecting() {
    let block = evicted(61);
    let protect = |protection: i32| {
        // SAFETY: the memory is the test's.
        unsafe { libc::mprotect(block.address(0), PAGES * PAGE, protection) }
    };
    assert_eq!(protect(libc::PROT_NONE), 0);
    let ballast = Block::new(6000);
    ballast.write(1);
    assert_eq!(protect(BOTH), 0);
    assert!(block.has(0..PAGES, 61));
    block.write(62);
    assert_eq!(protect(libc::PROT_READ), 0);
    ballast.write(2);
    assert!(block.has(0..PAGES, 62));
    assert_eq!(protect(BOTH), 0);
    block.write(63);
    assert_eq!(protect(libc::PROT_NONE), 0);
    assert_eq!(block.advise(0..PAGES, libc::MADV_DONTDUMP), 0, "asks for plain memory");
    assert_eq!(protect(BOTH), 0);
    assert!(block.has(0..PAGES, 63));
    // Each part keeps its own protection.
    let block = evicted(64);
    // SAFETY: the memory is the test's.
    let protect = |protection| unsafe { libc::mprotect(block.address(0), 8 * PAGE, protection) };
    assert_eq!(protect(libc::PROT_NONE), 0);
    assert_eq!(block.advise(0..PAGES, libc::MADV_DONTDUMP), 0);
    assert!(block.has(8..PAGES, 64));
    assert_eq!(protect(BOTH), 0);
    assert!(block.has(0..PAGES, 64));
}

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: i32) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// A timer that ends every so many microseconds; never for zero.
fn timer(micros: i64) -> libc::itimerval {
    let time = libc::timeval { tv_sec: 0, tv_usec: micros };
    libc::itimerval { it_interval: time, it_value: time }
}

fn signals() {
    // SAFETY: the handler adds to a number.
    unsafe {
        libc::signal(libc::SIGALRM, on_signal as *const () as libc::sighandler_t);
        libc::setitimer(libc::ITIMER_REAL, &timer(500), std::ptr::null_mut());
    }
    let ballast = Block::new(8000);
    for round in 0..3 {
        ballast.write(round);
        assert!(ballast.has(0..8000, round));
    }
    // SAFETY: as above.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer(0), std::ptr::null_mut()) };
    assert!(SIGNALS.load(Ordering::Relaxed) > 0);
}

extern "C" fn map_and_unmap(signal: i32) {
    Block::new(8).unmap();
    on_signal(signal);
}

/// Maps memory while a handler of signals does so, too.
pub(crate) fn mapping_in_a_handler() {
    // SAFETY: the handler maps memory of its own.
    unsafe {
        libc::signal(libc::SIGPROF, map_and_unmap as *const () as libc::sighandler_t);
        assert_eq!(libc::setitimer(libc::ITIMER_PROF, &timer(1000), std::ptr::null_mut()), 0);
    }
    let ballast = Block::new(8000);
    ballast.write(1);
    (0..100_000).for_each(|_| Block::new(8).unmap());
    assert!(ballast.has(0..8000, 1) && SIGNALS.load(Ordering::Relaxed) > 0);
}

fn refusing() {
    let path = std::env::current_exe().expect("this program");
    let path = std::ffi::CString::new(path.into_os_string().into_encoded_bytes()).expect("a path");
    // SAFETY: the path is a string.
    let direct = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_DIRECT) };
    assert_eq!((direct, errno()), (-1, libc::EINVAL));
    // SAFETY: the path is a string; `openat2` reads three words.
    let (plain, direct) = unsafe {
        let plain = libc::open(path.as_ptr(), libc::O_RDONLY);
        (plain, libc::fcntl(plain, libc::F_SETFL, libc::O_DIRECT))
    };
    assert_eq!((plain >= 0, direct, errno()), (true, -1, libc::EINVAL));
    let how = [0u64; 3];
    // SAFETY: as above.
    let opened =
        unsafe { libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path.as_ptr(), &how, 24) };
    assert_eq!((opened, errno()), (-1, libc::ENOSYS));
    let (block, flags) = (Block::new(1), libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP);
    // SAFETY: the memory is the test's.
    let moved = unsafe { libc::mremap(block.address(0), PAGE, PAGE, flags) };
    assert_eq!((moved, errno()), (libc::MAP_FAILED, libc::EINVAL));
    let (block, endless) = (evicted(75), usize::MAX - 8);
    // SAFETY: the memory is the test's.
    let moved =
        unsafe { libc::mremap(block.address(0), PAGES * PAGE, endless, libc::MREMAP_MAYMOVE) };
    assert_eq!((moved, errno()), (libc::MAP_FAILED, libc::EINVAL));
    let (size, fixed) = (PAGES * PAGE, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED);
    // SAFETY: as above.
    let moved = unsafe { libc::mremap(block.address(0), size, size, fixed, block.address(1)) };
    assert_eq!((moved, errno()), (libc::MAP_FAILED, libc::EINVAL), "onto itself");
    assert!(block.has(0..PAGES, 75));
    // SAFETY: nothing is written, and the kernel makes no socket.
    let (written, socket) = unsafe {
        let nothing = std::ptr::null::<libc::iovec>();
        let written = libc::process_vm_writev(libc::getpid(), nothing, 0, nothing, 0, 0);
        let written = (written, errno());
        (written, (libc::socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0), errno()))
    };
    assert_eq!(written, (-1, libc::ENOSYS));
    assert_eq!(socket, (-1, libc::EAFNOSUPPORT));
    // SAFETY: there is no such ring.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_register, -1, 0, 0, 0) };
    assert_eq!((ring, errno()), (-1, libc::ENOMEM));
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The heap grows and shrinks.
fn heap() {
    // SAFETY: other threads use libc's heap, too, so only memory that was taken just before is
    // released; if another thread took more, the test checks nothing.
    unsafe {
        let start = libc::sbrk((PAGES * PAGE) as isize) as usize;
        let block = Block(start.next_multiple_of(PAGE), PAGES - 1);
        block.write(71);
        block.evict();
        assert!(block.has(0..PAGES - 1, 71));
        if libc::sbrk(0) as usize == start + PAGES * PAGE {
            libc::sbrk(-((PAGES * PAGE) as isize));
            assert_eq!(libc::sbrk((PAGES * PAGE) as isize) as usize, start);
            assert!(block.is_zero(0..PAGES - 1));
        }
    }
}
