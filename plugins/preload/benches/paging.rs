//! Cost of paging with direct read: reads and writes of evicted pages, evictions, swap-in from zram
//! in the same run, and a program that fits its budget beside the same program without the library.
//!
//! Before huge pages are used, as many are touched and released: the host of a virtual machine may
//! provide free memory only when it is touched, which takes milliseconds for each huge page, for
//! any process.
//!
//! `cargo bench -p memweir-preload --bench paging`; `MEMWEIR_ROUNDS` is the number of measurements
//! of each access and eviction, `MEMWEIR_PAIRS` that of the pairs of programs.

use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use memweir_abi::kernel::PAGE_BYTES;
use memweir_abi::kernel::pagemap::{ENTRY_BYTES, Entry, entry_offset};
use memweir_abi::preload::page::{
    DirectRead, NvmPlace, PAGE_COUNTERS_BYTES, PAGE_ORDER_VARIABLE, PageCounter, PageCounters,
    PageOrder, TmpfsOptions, UnpagedPrograms, WhenFull,
};
use memweir_core::Bytes;
use memweir_core::metrics::hodges_lehmann;
use memweir_test_support::rows::record;

const PAGE: usize = PAGE_BYTES;
const MIB: usize = 1 << 20;
/// Size of the memory whose pages are accessed.
const ARENA: usize = 64 * MIB;
/// Accesses that are timed together: reading the clock costs as much as a tenth of one.
const GROUP: usize = 16;
const ROUNDS: usize = 3;
const PAIRS: usize = 15;
const LEVEL: f64 = 0.95;
const MADV_PAGEOUT: i32 = 21;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "faults"] => faults(),
        [_, "rounds"] => rounds(),
        [_, "fits"] => fits(),
        [_, "nothing"] => {}
        _ if arguments.iter().any(|argument| argument == "--bench") => measure(),
        _ => println!("run `cargo bench -p memweir-preload --bench paging` to measure"),
    }
    ExitCode::SUCCESS
}

/// Returns the number in this environment variable, or the default.
fn count_of(variable: &str, default: usize) -> usize {
    let number = std::env::var(variable);
    number.map_or(default, |n| n.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

fn measure() {
    (0..count_of("MEMWEIR_ROUNDS", ROUNDS)).for_each(|_| round());
    pairs(count_of("MEMWEIR_PAIRS", PAIRS));
}

/// Measures each access and eviction once.
fn round() {
    let alone = NvmPlace::Tmpfs(TmpfsOptions::default());
    for place in [NvmPlace::Memfd, alone] {
        warm();
        let what = slots(&place);
        println!("slots in {what}:");
        let counters = paged("faults", 128, place).expect("root, and userfaultfd");
        let micros = eviction(&counters);
        record(&format!("first eviction into {what}"), "us", [micros]);
        println!("  eviction of a page for the first time{micros:8.3} us");
    }
    println!("written in a row, again and again:");
    paged("rounds", 128, NvmPlace::Memfd).expect("as before");
    match zram() {
        Ok(micros) => {
            record("swap-in from zram", "us", [micros]);
            println!("swap-in of a page from zram            {micros:8.3} us");
        }
        Err(reason) => memweir_test_support::skip!(Kernel, "zram: {reason}"),
    }
}

/// Measures the CPU time of the same program, paged and not, in pairs: what paging adds to a
/// program that does nothing, and to one that has all the memory that it needs.
fn pairs(pairs: usize) {
    let added = |[native, paged]: [f64; 2]| (paged - native) * 1000.0;
    let (differences, more, within) = compare("nothing", 1024, pairs, added);
    record("starting a program", "ms", differences);
    println!("starting a program                     {more:+8.2} ms{within}");
    let change = |[native, paged]: [f64; 2]| (paged / native - 1.0) * 100.0;
    for (dram, how) in [(1024, "easily"), (96, "just  ")] {
        let (differences, change, within) = compare("fits", dram, pairs, change);
        record(&format!("a program that fits {}", how.trim_end()), "%", differences);
        println!("a program that fits {how}, to native {change:+8.2} %{within}");
    }
}

/// Measures differences of CPU times, native and paged; returns them, what is usual, and its
/// interval.
fn compare(
    work: &str,
    dram: u64,
    pairs: usize,
    difference: impl Fn([f64; 2]) -> f64,
) -> (Vec<f64>, f64, String) {
    let native = || used(|| drop(itself(work).status()));
    let paged = || used(|| drop(paged(work, dram, NvmPlace::Memfd)));
    let pair = |number: usize| match number % 2 {
        0 => [native(), paged()],
        _ => {
            let paged = paged();
            [native(), paged]
        }
    };
    let differences: Vec<f64> = (0..pairs).map(|number| difference(pair(number))).collect();
    let (middle, interval) = hodges_lehmann(&differences, LEVEL).expect("pairs");
    let within = interval.map_or(String::new(), |i| format!(" [{:+.2}, {:+.2}]", i.low, i.high));
    (differences, middle, within)
}

/// Returns the microseconds that the eviction of a page took.
fn eviction(counters: &PageCounters) -> f64 {
    let pages = counters.get(PageCounter::Evictions).max(1);
    counters.get(PageCounter::EvictionNanos) as f64 / pages as f64 / 1000.0
}

/// Touches as much memory as a run has, in huge pages, and releases it.
fn warm() {
    const LENGTH: usize = 512 * MIB;
    let start = map(LENGTH);
    // SAFETY: the memory is this program's, and it is not used afterwards.
    unsafe {
        libc::madvise(start as *mut libc::c_void, LENGTH, libc::MADV_HUGEPAGE);
        write(&pages_of(start, LENGTH));
        libc::munmap(start as *mut libc::c_void, LENGTH);
    }
}

/// Returns the CPU time of processes that `work` starts and that have ended, helpers included: a
/// helper becomes this program's child when the process that it helped ends.
fn used(work: impl FnOnce()) -> f64 {
    // SAFETY: concerns this program's children alone.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    let now = || {
        // SAFETY: zero is valid, and the kernel writes the times.
        let usage = unsafe {
            let mut usage = std::mem::zeroed::<libc::rusage>();
            libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
            usage
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    let before = now();
    work();
    // SAFETY: waits for all remaining children, and asks for no status.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::__WALL) } > 0 {}
    now() - before
}

fn itself(work: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg(work);
    command
}

/// Runs the work paged with this many MiB of DRAM; `None` if that is not possible here.
fn paged(work: &str, dram: u64, nvm: NvmPlace) -> Option<PageCounters> {
    let counters = tempfile::NamedTempFile::new_in("/dev/shm").ok()?;
    counters.as_file().set_len(PAGE_COUNTERS_BYTES as u64).ok()?;
    let order = PageOrder {
        dram: Bytes(dram << 20),
        nvm,
        nvm_size: Bytes(1 << 30),
        direct_read: DirectRead::InPlace,
        victims: "fifo".to_owned(),
        delay: None,
        when_full: WhenFull::Stop,
        unpaged: UnpagedPrograms::Count,
        counters: counters.path().display().to_string(),
    };
    let library = std::env::current_exe().ok()?.with_file_name("libmemweir_preload.so");
    let status = itself(work)
        .env("LD_PRELOAD", library)
        .env(PAGE_ORDER_VARIABLE, order.to_string())
        .status();
    let counted = || PageCounters::of(&std::fs::read(counters.path()).unwrap_or_default());
    while counted().processes().count() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let paged = counted().get(PageCounter::Processes) > 0;
    (status.ok()?.success() && paged).then(counted)
}

/// Maps private memory of whole pages.
fn map(length: usize) -> usize {
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length, both, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start as usize
}

fn write(pages: &[usize]) {
    for page in pages {
        // SAFETY: the pages are mapped, and this thread's.
        unsafe { std::ptr::write_volatile(*page as *mut u64, *page as u64) };
    }
}

fn read(pages: &[usize]) {
    for page in pages {
        // SAFETY: the pages are mapped.
        black_box(unsafe { std::ptr::read_volatile(*page as *const u64) });
    }
}

fn pages_of(start: usize, length: usize) -> Vec<usize> {
    (start..start + length).step_by(PAGE).collect()
}

/// Returns the median microseconds of an access to one of the pages.
fn per_page(pages: &[usize], access: fn(&[usize])) -> f64 {
    let time = |group: &[usize]| {
        let begun = Instant::now();
        access(group);
        begun.elapsed().as_secs_f64() * 1e6 / group.len() as f64
    };
    let mut times: Vec<f64> = pages.chunks(GROUP).map(time).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns true if nothing is mapped for the page.
fn is_away(pagemap: &std::fs::File, page: usize) -> bool {
    let mut entry = [0; ENTRY_BYTES];
    pagemap.read_exact_at(&mut entry, entry_offset(page)).expect("pagemap");
    !Entry(u64::from_le_bytes(entry)).is_present()
}

/// Reads evicted pages, then writes the pages that were read and those that were not.
fn faults() {
    let arena = pages_of(map(ARENA), ARENA);
    write(&arena);
    let ballast = map(160 * MIB);
    write(&pages_of(ballast, 160 * MIB));
    // SAFETY: the memory is not used. Without it, nothing has to be evicted.
    unsafe { libc::munmap(ballast as *mut libc::c_void, 160 * MIB) };
    std::thread::sleep(Duration::from_millis(200));
    let pagemap = std::fs::File::open("/proc/self/pagemap").expect("pagemap");
    let away: Vec<usize> = arena.into_iter().filter(|page| is_away(&pagemap, *page)).collect();
    assert!(away.len() > 1000, "{} pages were evicted", away.len());
    let (direct, straight) = away.split_at(away.len() / 2);
    let place = slots(&order().nvm);
    for (what, pages, access) in [
        ("read of an evicted page, in place", direct, read as fn(&[usize])),
        ("write to a page read in place", direct, write),
        ("write to an evicted page", straight, write),
    ] {
        let micros = per_page(pages, access);
        record(&format!("{what}, {place}"), "us", [micros]);
        println!("  {what:<35} {micros:8.3} us");
    }
}

/// Returns the order with which this program runs.
fn order() -> PageOrder {
    std::env::var(PAGE_ORDER_VARIABLE).expect("an order").parse().expect("an order")
}

/// Names the slots of the stores that are measured here.
fn slots(place: &NvmPlace) -> &'static str {
    if *place == NvmPlace::Memfd { "huge pages" } else { "single pages" }
}

/// Writes to more memory than there is room for, so that pages are evicted that were evicted
/// before.
fn rounds() {
    let order = order();
    let counted = || PageCounters::of(&std::fs::read(&order.counters).expect("counters"));
    let arena = pages_of(map(160 * MIB), 160 * MIB);
    write(&arena);
    let before = counted();
    (0..4).for_each(|_| write(&arena));
    let after = counted();
    let more = |counter| (after.get(counter) - before.get(counter)) as f64;
    let micros = more(PageCounter::EvictionNanos) / more(PageCounter::Evictions) / 1000.0;
    record("later eviction", "us", [micros]);
    println!("  eviction of a page                   {micros:8.3} us");
}

/// Fills memory, sorts it, and fills some more, for about a second in all.
fn fits() {
    (0..8).for_each(|_| sort());
}

fn sort() {
    let mut state = 1u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    };
    let mut numbers: Vec<u64> = (0..6_000_000).map(|_| next()).collect();
    numbers.sort_unstable();
    let strings: Vec<String> = numbers.iter().step_by(16).map(u64::to_string).collect();
    black_box((numbers, strings));
}

/// Returns the microseconds of reading a page that the kernel swapped out to zram.
fn zram() -> Result<f64, String> {
    let _ = Command::new("modprobe").arg("zram").status();
    let number = std::fs::read_to_string("/sys/class/zram-control/hot_add")
        .map_err(|error| format!("no module: {error}"))?;
    let number = number.trim();
    let (device, folder) = (format!("/dev/zram{number}"), format!("/sys/block/zram{number}"));
    let size = (2 * ARENA).to_string();
    let run = |program: &str| {
        let status = Command::new(program).arg(&device).status();
        status.is_ok_and(|status| status.success()).then_some(()).ok_or(format!("{program} fails"))
    };
    let measured = std::fs::write(Path::new(&folder).join("disksize"), size)
        .map_err(|error| error.to_string())
        .and_then(|()| run("mkswap"))
        .and_then(|()| run("swapon"))
        .map(|()| {
            let start = map(ARENA);
            let pages = pages_of(start, ARENA);
            write(&pages);
            // SAFETY: the memory is this program's.
            unsafe { libc::madvise(start as *mut libc::c_void, ARENA, MADV_PAGEOUT) };
            per_page(&pages, read)
        });
    let _ = run("swapoff");
    let _ = std::fs::write("/sys/class/zram-control/hot_remove", number);
    measured
}
