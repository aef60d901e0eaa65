//! Programs under the pager, for real: this file starts itself again as the program, with the
//! library and an order in its environment.
//!
//! `MEMWEIR_STRESS_EVICTIONS` makes the stress tests continue until this many pages were evicted.

#[path = "paged/budget.rs"]
mod budget;
#[path = "paged/calls.rs"]
mod calls;
#[path = "paged/forks.rs"]
mod forks;
#[path = "paged/memory.rs"]
mod memory;
#[path = "paged/stalls.rs"]
mod stalls;
#[path = "paged/stress.rs"]
mod stress;

use std::path::PathBuf;
use std::process::Command;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use memweir_abi::preload::page::{
    DirectRead, NvmPlace, PAGE_COUNTERS_BYTES, PAGE_ORDER_VARIABLE, PageCounter, PageCounters,
    PageOrder, Slowdown, TmpfsOptions, UnpagedPrograms, WhenFull,
};
use memweir_core::Bytes;
use memweir_test_support::rows::record;

/// Names the work of the program.
const WORK: &str = "MEMWEIR_TEST_WORK";
const MIB: u64 = 1 << 20;

/// The works of a program, by name.
const WORKS: &[(&str, fn())] = &[
    ("stress", stress::program),
    ("stress-wide", stress::wide),
    ("uncontrolled", stress::uncontrolled),
    ("fill", memory::fill),
    ("border", memory::fill_across_a_border),
    ("random", memory::random_writes),
    ("dive", memory::dive),
    ("drop", memory::drop_while_filling),
    ("calls", calls::program),
    ("moves", calls::moving),
    ("lock-all", calls::locking_all),
    ("touch-again", calls::touching_again),
    ("map-in-handler", calls::mapping_in_a_handler),
    ("forks", forks::snapshots),
    ("vforks", forks::vforks),
    ("execs", forks::programs),
    ("fill-and-fork", forks::fill_while_forking),
    ("allocate-and-fork", forks::fork_while_allocating),
    ("blind-child", forks::blind_child),
    ("child-without-room", forks::child_without_room),
    ("no-children", forks::no_children),
    ("children-at-once", forks::children_at_once),
    ("limited", forks::start_with_limits),
];

fn order(dram: u64) -> PageOrder {
    PageOrder {
        dram: Bytes(dram * MIB),
        nvm: NvmPlace::Memfd,
        nvm_size: Bytes(1024 * MIB),
        direct_read: DirectRead::InPlace,
        victims: "fifo".to_owned(),
        delay: None,
        when_full: WhenFull::Stop,
        unpaged: UnpagedPrograms::Count,
        counters: String::new(),
    }
}

/// Keeps the programs of other tests away from those of a test that they would disturb.
static MACHINE: RwLock<()> = RwLock::new(());

/// Runs the work as a paged program, which must succeed; returns the counters. `None` if programs
/// cannot be paged here.
fn run(work: &str, order: PageOrder) -> Option<PageCounters> {
    possible().then(|| run_anywhere(work, order))
}

/// Does the same without asking whether they can.
fn run_anywhere(work: &str, order: PageOrder) -> PageCounters {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    run_now(work, order)
}

/// Does the same for a test that holds [`MACHINE`] itself.
fn run_now(work: &str, mut order: PageOrder) -> PageCounters {
    let counters = tempfile::NamedTempFile::new_in("/dev/shm").expect("/dev/shm");
    counters.as_file().set_len(PAGE_COUNTERS_BYTES as u64).expect("room in /dev/shm");
    order.counters = counters.path().display().to_string();
    let output = program(work)
        .env("LD_PRELOAD", library())
        .env(PAGE_ORDER_VARIABLE, order.to_string())
        .output()
        .expect("this program");
    let read = || PageCounters::of(&std::fs::read(counters.path()).expect("counters"));
    // The helpers count for a moment after the programs have ended.
    let begun = Instant::now();
    while read().processes().count() > 0 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(read().processes().count(), 0, "helpers that do not end");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}\n{errors}", output.status);
    read()
}

fn program(work: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "the_program", "--nocapture", "--test-threads=1"]).env(WORK, work);
    command
}

fn library() -> PathBuf {
    let executable = std::env::current_exe().expect("this program");
    executable.with_file_name("libmemweir_preload.so")
}

/// Seconds after which a program that hangs is ended.
const PROGRAM_TIMEOUT: u32 = 600;

/// Returns true if programs can be paged here; otherwise prints the reason.
fn possible() -> bool {
    // SAFETY: asks for a descriptor.
    let file = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(file as i32) };
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    if file < 0 || !root {
        memweir_test_support::skip!(Privilege, "userfaultfd with forks needs root");
    }
    file >= 0 && root
}

/// Does the same as [`run`] with a work of which some pages must be evicted.
fn evicted(work: &str, order: PageOrder) -> Option<PageCounters> {
    let counters = run(work, order)?;
    assert!(counters.get(PageCounter::Evictions) > 0, "{work}: nothing was evicted");
    Some(counters)
}

/// Does the same with a stress, which must lose nothing in as many evictions as it takes.
fn stressed(work: &str, order: PageOrder) -> Option<PageCounters> {
    let counters = evicted(work, order)?;
    let evictions = counters.get(PageCounter::Evictions);
    println!("{work}: {evictions} evictions");
    assert!(evictions >= stress::evictions());
    record(&format!("evictions, {work}"), "pages", [evictions as f64]);
    Some(counters)
}

#[test]
fn the_program() {
    if let Ok(work) = std::env::var(WORK) {
        let (_, work) = WORKS.iter().find(|(name, _)| *name == work).expect("a known work");
        // SAFETY: asks for a signal, which ends the program.
        unsafe { libc::alarm(PROGRAM_TIMEOUT) };
        work();
    }
}

#[test]
fn no_write_is_lost() {
    let Some(counters) = stressed("stress", order(stress::BUDGET)) else { return };
    assert!(counters.copies_in() > 0 && counters.get(PageCounter::DirectReads) > 0);
}

#[test]
fn no_write_is_lost_where_many_pages_leave_together() {
    stressed("stress-wide", order(stress::WIDE * stress::BUDGET));
}

#[test]
fn no_write_is_lost_where_reads_copy() {
    let copying = PageOrder { direct_read: DirectRead::Copy, ..order(stress::BUDGET) };
    let Some(counters) = stressed("stress", copying) else { return };
    // Between mapping the file and watching the mapping, reads of another thread are direct reads.
    assert!(counters.get(PageCounter::DirectReads) * 100 < counters.copies_in());
}

#[test]
fn no_write_is_lost_where_files_have_huge_pages() {
    let nvm = NvmPlace::Tmpfs(TmpfsOptions { huge: "always".to_owned(), ..Default::default() });
    stressed("stress", PageOrder { nvm, ..order(stress::BUDGET) });
}

#[test]
fn the_stress_finds_lost_writes() {
    let output = program("uncontrolled").output().expect("this program");
    assert!(!output.status.success(), "eviction without protection loses nothing?");
    assert!(String::from_utf8_lossy(&output.stdout).contains("lost"));
}

#[test]
fn what_fits_is_left_alone() {
    let begun = Instant::now();
    let Some(counters) = run("fill", order(256)) else { return };
    let seconds = begun.elapsed().as_secs_f64();
    assert_eq!(counters.get(PageCounter::Processes), 1);
    // Twenty checks a second, and one for each growth of memory.
    let looks = counters.get(PageCounter::Looks);
    assert!((looks as f64) < 50.0 + 25.0 * seconds, "{looks} looks in {seconds} s");
    assert_eq!(counters.get(PageCounter::ConvertedBytes), 0);
    assert_eq!(counters.get(PageCounter::Evictions), 0);
}

#[test]
fn budgets_are_kept() {
    if !possible() {
        return;
    }
    let works = [(budget::FILL, 16), (budget::FILL, 48), (budget::RANDOM, 24)];
    for (work, dram) in works {
        for victims in ["fifo", "clock"] {
            budget::is_kept(work, &PageOrder { victims: victims.to_owned(), ..order(dram) });
        }
    }
}

#[test]
fn an_exceeded_budget_is_found() {
    if possible() {
        budget::is_found_exceeded(budget::FILL, &order(32), 16 * MIB);
    }
}

#[test]
fn slots_that_are_no_neighbors_are_told_apart() {
    evicted("border", order(32));
}

#[test]
fn pages_lie_in_files_of_a_tmpfs_and_on_nodes() {
    if !possible() {
        return;
    }
    let places = [
        NvmPlace::Tmpfs(TmpfsOptions::default()),
        NvmPlace::Tmpfs(TmpfsOptions { policy: "bind:0".to_owned(), ..Default::default() }),
        NvmPlace::Node { node: 0 },
    ];
    for nvm in places {
        evicted("fill", PageOrder { nvm, ..order(24) });
    }
}

/// The kernel fills the slot of a page that the program touches first, on the node of its thread.
#[test]
fn evicted_pages_come_to_lie_on_the_node_alone() {
    let kept = |nvm| {
        let counters = evicted("touch-again", PageOrder { nvm, ..order(80) })?;
        Some(counters.get(PageCounter::NvmKeptBytes))
    };
    let touched = (calls::TOUCHED_AGAIN * calls::PAGE) as u64;
    let Some(anywhere) = kept(NvmPlace::Memfd) else { return };
    assert!(anywhere >= touched, "{anywhere} bytes");
    let on_node = kept(NvmPlace::Node { node: 0 });
    assert!(on_node.is_some_and(|bytes| bytes < touched / 4), "{on_node:?}");
}

#[test]
fn nvm_that_is_full_is_left_so() {
    let small = PageOrder { nvm_size: Bytes(8 * MIB), ..order(16) };
    let Some(counters) = run("fill", small) else { return };
    assert!(counters.get(PageCounter::NvmFull) > 0);
    // Faults put pages there for a moment that were not evicted.
    let peak = counters.get(PageCounter::NvmPeakBytes);
    assert!(peak <= 12 * MIB, "{peak} bytes in NVM");
}

#[test]
fn a_slow_medium_takes_time() {
    let delay = Some(Slowdown { read: 2.0, write: 12.0 });
    let Some(counters) = run("fill", PageOrder { delay, ..order(32) }) else { return };
    assert!(counters.get(PageCounter::DelayNanos) > 0);
}

#[test]
fn calls_mean_what_they_mean() {
    let Some(counters) = evicted("calls", order(16)) else { return };
    // The helper tries once to put sealed memory into the file.
    let failures = counters.get(PageCounter::Failures);
    assert!(failures < 20, "{failures}");
}

#[test]
fn memory_is_moved_where_reads_copy() {
    evicted("moves", PageOrder { direct_read: DirectRead::Copy, ..order(16) });
}

#[test]
fn handlers_of_signals_may_map_memory() {
    evicted("map-in-handler", order(12));
}

#[test]
fn memory_that_is_locked_as_a_whole_stays() {
    evicted("lock-all", order(16));
}

#[test]
fn what_is_dropped_meanwhile_is_zero() {
    let runs: Option<Vec<_>> = (0..10).map(|_| run("drop", order(12))).collect();
    let converted = |counters: &PageCounters| counters.get(PageCounter::ConvertedBytes) > 0;
    assert!(runs.is_none_or(|runs| runs.iter().any(converted)));
}

#[test]
fn children_see_what_was_there() {
    let Some(counters) = evicted("forks", order(12)) else { return };
    assert!(counters.get(PageCounter::ForkPauses) > 0);
}

#[test]
fn a_child_that_can_open_no_file_sees_zeros_where_it_drops_memory() {
    evicted("blind-child", order(12));
}

#[test]
fn a_child_that_gets_no_memory_is_told_so_where_it_drops_some() {
    evicted("child-without-room", order(12));
}

#[test]
fn a_program_has_no_children_that_it_did_not_start() {
    let Some(counters) = run("no-children", order(12)) else { return };
    assert_eq!(counters.get(PageCounter::Processes), 2);
}

#[test]
fn limits_of_files_are_those_of_the_program_alone() {
    let Some(counters) = run("limited", order(12)) else { return };
    assert_eq!(counters.get(PageCounter::Processes), 2);
    assert!(counters.get(PageCounter::ForkPauses) >= forks::AT_ONCE as u64);
}

#[test]
fn children_that_share_memory_stop_no_eviction() {
    let Some(counters) = evicted("vforks", order(12)) else { return };
    assert_eq!(counters.get(PageCounter::ForkPauses), 0);
}

#[test]
fn programs_that_are_started_share_the_budget() {
    let Some(counters) = run("execs", order(48)) else { return };
    assert!(counters.get(PageCounter::Processes) > forks::PROGRAMS as u64);
    run("fill-and-fork", order(16));
}

#[test]
fn stacks_may_lie_anywhere() {
    evicted("dive", order(16));
}

#[test]
fn forks_wait_for_nobody_who_gets_memory() {
    let Some(counters) = run("allocate-and-fork", order(12)) else { return };
    assert!(counters.get(PageCounter::ForkPauses) > 0);
}

#[test]
fn unfit_orders_leave_the_program_alone() {
    let scan = PageOrder { victims: "scan".to_owned(), ..order(16) };
    let counters = run_anywhere("fill", scan);
    assert_eq!(counters.get(PageCounter::Unpaged), 1);
    assert_eq!(counters.get(PageCounter::Processes), 0);
}
