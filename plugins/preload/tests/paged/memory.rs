//! Fills memory and checks that its content is unchanged.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::calls::PAGE;

/// Bytes that are filled: more than the budgets of the tests.
const SIZE: usize = 96 << 20;

fn content(page: usize, round: usize) -> u64 {
    (page as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(round as u32)
}

/// Two rounds in which each page is written and all are read.
pub(crate) fn fill() {
    fill_and_look(&mut vec![0u64; SIZE / 8]);
}

/// The same with memory on both sides of a boundary between two gibibytes, whose slots are apart.
pub(crate) fn fill_across_a_border() {
    let here = fill as fn() as usize;
    // Far above the program, and far below the existing mappings.
    let border = (here / GIB + 64) * GIB;
    let memory = zeros_at(border - SIZE / 2);
    let elsewhere = zeros_at(border + 64 * GIB);
    // In this order; otherwise the slots would happen to be adjacent.
    fill_and_look(&mut memory[..SIZE / 16]);
    fill_and_look(elsewhere);
    fill_and_look(memory);
}

const GIB: usize = 1 << 30;

/// Maps memory at a free address.
fn zeros_at(start: usize) -> &'static mut [u64] {
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let start = start as *mut libc::c_void;
    // SAFETY: a new mapping, which replaces none.
    let mapped = unsafe { libc::mmap(start, SIZE, both, how, -1, 0) };
    assert_eq!(mapped, start, "{}", std::io::Error::last_os_error());
    // SAFETY: the mapping is the caller's alone, stays, and is zero.
    unsafe { std::slice::from_raw_parts_mut(mapped.cast(), SIZE / 8) }
}

fn fill_and_look(memory: &mut [u64]) {
    for round in 0..2 {
        for (page, words) in memory.chunks_exact_mut(PAGE / 8).enumerate() {
            words[page % 512] = content(page, round);
        }
        let lost: Vec<(usize, u64)> = (memory.chunks_exact(PAGE / 8).enumerate())
            .map(|(page, words)| (page, words[page % 512]))
            .filter(|(page, word)| *word != content(*page, round))
            .collect();
        assert!(lost.is_empty(), "round {round} from {:?}: {lost:x?}", memory.as_ptr());
    }
}

/// A thread whose stack is memory like any other, and which maps more memory at every depth.
pub(crate) fn dive() {
    const STACK: usize = 32 << 20;
    // Makes memory short, so that new memory needs a request.
    fill();
    let mut thread = 0;
    // SAFETY: the first call initializes the attributes; the stack is mapped, the thread's alone,
    // and stays.
    unsafe {
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let stack = libc::mmap(std::ptr::null_mut(), STACK, both, how, -1, 0);
        let mut attributes = std::mem::zeroed();
        assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
        assert_eq!(libc::pthread_attr_setstack(&mut attributes, stack, STACK), 0);
        let made = libc::pthread_create(&mut thread, &attributes, dive_deep, std::ptr::null_mut());
        assert_eq!(made, 0);
        assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
    }
}

extern "C" fn dive_deep(_: *mut libc::c_void) -> *mut libc::c_void {
    assert_eq!(sum_of_depths(20_000), 20_000 * 20_001 / 2);
    std::ptr::null_mut()
}

#[inline(never)]
fn sum_of_depths(depth: usize) -> usize {
    let (nothing, how) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which no other code knows.
    unsafe {
        let mapped = libc::mmap(std::ptr::null_mut(), 4 * PAGE, nothing, how, -1, 0);
        assert_eq!(libc::munmap(mapped, 4 * PAGE), 0);
    }
    if depth == 0 { 0 } else { std::hint::black_box(sum_of_depths(depth - 1)) + depth }
}

/// Writes at random places, from two threads more than there are processors.
pub(crate) fn random_writes() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) + 2;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let pages = SIZE / PAGE / threads;
                let mut memory = vec![0u64; pages * PAGE / 8];
                let mut sums = vec![0u64; pages];
                let mut state = thread as u64 + 1;
                for _ in 0..pages * 3 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let page = (state >> 33) as usize % pages;
                    let word = (state >> 20) as usize % (PAGE / 8);
                    let old = std::mem::replace(&mut memory[page * PAGE / 8 + word], state);
                    sums[page] = sums[page].wrapping_add(state).wrapping_sub(old);
                }
                for (page, words) in memory.chunks_exact(PAGE / 8).enumerate() {
                    let sum = words.iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
                    assert_eq!(sum, sums[page], "page {page} of thread {thread}");
                }
            });
        }
    });
}

/// Threads drop pages of their own and find zeros there, in memory that becomes evictable just then
/// because another thread fills memory.
pub(crate) fn drop_while_filling() {
    let memory = vec![0u64; SIZE / 8];
    let start = (memory.as_ptr() as usize).next_multiple_of(PAGE);
    let rows = (SIZE / PAGE - 1) / (DROPPERS + 1);
    let filled = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for dropper in 1..=DROPPERS {
            let filled = &filled;
            scope.spawn(move || {
                let mut state = dropper;
                while filled.load(Ordering::Acquire) < rows {
                    let choice: [usize; TOGETHER] = std::array::from_fn(|_| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (state >> 33) % filled.load(Ordering::Acquire).max(1)
                    });
                    let own = |row: usize| start + (row * (DROPPERS + 1) + dropper) * PAGE;
                    choice.iter().for_each(|row| word(own(*row)).store(7, Ordering::Relaxed));
                    choice.iter().for_each(|row| drop_page(own(*row)));
                }
            });
        }
        for row in 0..rows {
            let page = start + row * (DROPPERS + 1) * PAGE;
            word(page).store(1, Ordering::Relaxed);
            filled.store(row + 1, Ordering::Release);
        }
    });
}

/// Threads that drop pages; each has every fourth page, and so does the thread that fills memory.
const DROPPERS: usize = 3;
/// Pages that a thread writes before it drops them.
const TOGETHER: usize = 256;

fn word(page: usize) -> &'static AtomicU64 {
    // SAFETY: the callers' pages are mapped as long as they are accessed.
    unsafe { AtomicU64::from_ptr(page as *mut u64) }
}

fn drop_page(page: usize) {
    // SAFETY: the page is the caller's own.
    let dropped = unsafe { libc::madvise(page as *mut libc::c_void, PAGE, libc::MADV_DONTNEED) };
    assert_eq!(dropped, 0);
    assert_eq!(word(page).load(Ordering::Relaxed), 0, "what was dropped is there again");
}
