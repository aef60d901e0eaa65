//! Measures for how long the machine keeps a process from its processor although the process runs
//! before all others, the pager's helper included. If the host stops processors for a moment, no
//! budget can be kept to the page.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_micros(100);
/// Above the helper's priority, so that a helper does not count as the machine.
const PRIORITY: i32 = 2;

/// Threads, one on each processor, that sleep and measure how late they wake.
pub(crate) struct Witness {
    ends: Arc<AtomicBool>,
    sleepers: Vec<JoinHandle<Duration>>,
}

impl Witness {
    /// Begins to watch all processors.
    pub(crate) fn begin() -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let watch = |processor| {
            let ends = Arc::clone(&ends);
            std::thread::spawn(move || longest_on(processor, &ends))
        };
        let sleepers = (0..processors).map(watch).collect();
        Self { ends, sleepers }
    }

    /// Ends the watch. Returns the longest time by which a wake-up was late on any processor.
    pub(crate) fn longest(self) -> Duration {
        self.ends.store(true, Ordering::Relaxed);
        let stalls = self.sleepers.into_iter().map(|thread| thread.join().expect("it only sleeps"));
        stalls.max().unwrap_or_default()
    }
}

fn longest_on(processor: usize, ends: &AtomicBool) -> Duration {
    // SAFETY: zero is valid for both, and they concern this thread alone, which is a new one.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
        let mut parameter = std::mem::zeroed::<libc::sched_param>();
        parameter.sched_priority = PRIORITY;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1000);
    }
    // The new thread moves to its processor.
    std::thread::sleep(PAUSE);
    let mut longest = Duration::ZERO;
    while !ends.load(Ordering::Relaxed) {
        let before = Instant::now();
        std::thread::sleep(PAUSE);
        longest = longest.max(before.elapsed().saturating_sub(PAUSE));
    }
    longest
}
