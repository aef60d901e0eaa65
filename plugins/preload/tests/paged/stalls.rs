//! Whether this machine lets a process run that comes before others. Where the host stops processors for a
//! moment, or other such processes run, no budget can be kept to the page.

use std::time::{Duration, Instant};

/// How long it is watched.
const WATCHED: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(100);

/// The longest time for which such a process was kept from running, just now, on any processor.
pub(crate) fn longest() -> Duration {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let watch = |processor| scope.spawn(move || longest_on(processor));
        let watching: Vec<_> = (0..processors).map(watch).collect();
        let stalls = watching.into_iter().map(|thread| thread.join().expect("it only sleeps"));
        stalls.max().unwrap_or_default()
    })
}

fn longest_on(processor: usize) -> Duration {
    // SAFETY: zero is valid for both, and they concern this thread alone, which is a new one.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
        let mut parameter = std::mem::zeroed::<libc::sched_param>();
        parameter.sched_priority = 1;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter);
    }
    let begun = Instant::now();
    let mut longest = Duration::ZERO;
    while begun.elapsed() < WATCHED {
        let before = Instant::now();
        std::thread::sleep(PAUSE);
        longest = longest.max(before.elapsed().saturating_sub(PAUSE));
    }
    longest
}
