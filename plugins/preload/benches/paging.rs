//! What paging with direct read costs: reads and writes of evicted pages, evictions, swap-in from
//! zram in the same run, and a program that fits its budget beside the same without the library.
//!
//! `cargo bench -p memweir-preload --bench paging`; `MEMWEIR_PAIRS` is the number of pairs of the
//! last figure.

use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use memweir_core::Bytes;
use memweir_core::metrics::hodges_lehmann;
use memweir_core::preload::page::{
    DirectRead, NvmPlace, PAGE_COUNTERS_BYTES, PAGE_ORDER_VARIABLE, PageCounter, PageCounters,
    PageOrder, WhenFull,
};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
/// The memory whose pages are looked at.
const ARENA: usize = 64 * MIB;
/// Accesses that are timed together: the clock costs as much as a tenth of one.
const GROUP: usize = 16;
const PAIRS: usize = 15;
const LEVEL: f64 = 0.95;
const MADV_PAGEOUT: i32 = 21;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "faults"] => faults(),
        [_, "fits"] => fits(),
        _ if arguments.iter().any(|argument| argument == "--bench") => measure(),
        _ => println!("run `cargo bench -p memweir-preload --bench paging` to measure"),
    }
    ExitCode::SUCCESS
}

fn measure() {
    let counters = paged("faults", 128).expect("root, and userfaultfd");
    let pages = counters.get(PageCounter::Evictions).max(1);
    let nanos = counters.get(PageCounter::EvictionNanos) as f64 / pages as f64;
    println!("eviction of a page, in batches      {:8.3} us", nanos / 1000.0);
    match zram() {
        Ok(micros) => println!("swap-in of a page from zram         {micros:8.3} us"),
        Err(reason) => println!("SKIPPED: zram: {reason}"),
    }
    pairs();
}

/// CPU time of the same program, paged and not, in pairs.
fn pairs() {
    let pairs = std::env::var("MEMWEIR_PAIRS")
        .map_or(PAIRS, |number| number.parse().expect("MEMWEIR_PAIRS is a number"));
    let mut changes = Vec::new();
    for pair in 0..pairs {
        let native = || used(|| drop(itself("fits").status()));
        let paged = || used(|| drop(paged("fits", 1024)));
        let (native, paged) = if pair % 2 == 0 {
            let native = native();
            (native, paged())
        } else {
            let paged = paged();
            (native(), paged)
        };
        changes.push((paged / native - 1.0) * 100.0);
    }
    let (change, interval) = hodges_lehmann(&changes, LEVEL).expect("pairs");
    let within = interval.map_or(String::new(), |i| format!(" [{:+.2}, {:+.2}]", i.low, i.high));
    println!("a program that fits, against native {change:+8.2} %{within}, 1 % allowed");
}

/// CPU time of children that `work` starts and waits for.
fn used(work: impl FnOnce()) -> f64 {
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
    now() - before
}

fn itself(work: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg(work);
    command
}

/// Runs the work paged with so many MiB of DRAM; none if that is not possible here.
fn paged(work: &str, dram: u64) -> Option<PageCounters> {
    let counters = tempfile::NamedTempFile::new_in("/dev/shm").ok()?;
    counters.as_file().set_len(PAGE_COUNTERS_BYTES as u64).ok()?;
    let order = PageOrder {
        dram: Bytes(dram << 20),
        nvm: NvmPlace::Memfd,
        nvm_size: Bytes(1 << 30),
        direct_read: DirectRead::InPlace,
        victims: "fifo".to_owned(),
        delay: None,
        when_full: WhenFull::Stop,
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

/// Private memory of whole pages.
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

/// Median microseconds of an access to one of the pages.
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

/// Whether nothing is mapped for the page.
fn is_away(pagemap: &std::fs::File, page: usize) -> bool {
    let mut entry = [0; 8];
    pagemap.read_exact_at(&mut entry, (page / PAGE * 8) as u64).expect("pagemap");
    u64::from_le_bytes(entry) >> 63 == 0
}

/// Reads evicted pages, and writes what was read, and what was not.
fn faults() {
    let arena = pages_of(map(ARENA), ARENA);
    write(&arena);
    let ballast = map(160 * MIB);
    write(&pages_of(ballast, 160 * MIB));
    // SAFETY: nobody uses the memory. With it gone nothing has to be evicted.
    unsafe { libc::munmap(ballast as *mut libc::c_void, 160 * MIB) };
    std::thread::sleep(Duration::from_millis(200));
    let pagemap = std::fs::File::open("/proc/self/pagemap").expect("pagemap");
    let away: Vec<usize> = arena.into_iter().filter(|page| is_away(&pagemap, *page)).collect();
    assert!(away.len() > 1000, "{} pages were evicted", away.len());
    let (direct, straight) = away.split_at(away.len() / 2);
    println!("read of an evicted page, in place   {:8.3} us", per_page(direct, read));
    println!("write to a page read in place       {:8.3} us", per_page(direct, write));
    println!("write to an evicted page            {:8.3} us", per_page(straight, write));
}

/// Fills memory, sorts it, and fills some more.
fn fits() {
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

/// Microseconds of reading a page that the kernel swapped out to zram.
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
