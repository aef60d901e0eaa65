//! Runs the helper before other threads, so that none of them fills memory while the helper waits
//! for a processor. The kernel throttles a process of real-time priority that has used 95 % of a
//! second (`sched_rt_runtime_us`), for the rest of that second, even if the processor is otherwise
//! idle. So a helper with that much work sleeps often enough on its own, while all writers are
//! stalled.

use super::memory::Memory;
use super::pressure::Pressure;
use crate::sys::{self, sys};

/// Microseconds between measurements of the helper's own CPU time.
const WINDOW: u64 = 100_000;
/// Percentage of a processor that it may use.
const MOST: u64 = 92;

/// Start of the measurement and CPU time used until then, in microseconds.
pub(super) struct Urgency {
    since: u64,
    used: u64,
}

impl Urgency {
    /// Switches to real-time priority. Where that is not allowed, the budget is kept less well.
    pub(super) fn claim() -> Self {
        let parameter = 1i32;
        // SAFETY: changes this process alone.
        unsafe {
            let _ = sys!(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const parameter);
            let _ = sys!(libc::SYS_prctl, libc::PR_SET_TIMERSLACK, 1000);
        }
        Self::now()
    }

    fn now() -> Self {
        Self { since: sys::micros(), used: sys::cpu_micros() }
    }

    /// Sleeps if the kernel would throttle the helper otherwise.
    pub(super) fn sleep_in_time(&mut self, pressure: &Pressure, memory: &mut Memory) {
        let time = sys::micros() - self.since;
        if time < WINDOW {
            return;
        }
        let owed = owed(time, sys::cpu_micros() - self.used);
        if owed > 0 && !pressure.cannot_evict(memory) {
            if pressure.can_keep_budget() {
                memory.stall_writers();
            }
            sys::sleep_micros(owed);
        }
        *self = Self::now();
    }
}

/// Returns the time to sleep after `work` in `time`.
fn owed(time: u64, work: u64) -> u64 {
    (work * 100 / MOST).saturating_sub(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_works_all_the_time_sleeps_a_twelfth_of_it() {
        // 100 ms of 108.7.
        assert_eq!(owed(100_000, 100_000), 8_695);
        assert_eq!(owed(100_000, 92_001), 1);
        assert_eq!(owed(100_000, 92_000), 0);
    }
}
