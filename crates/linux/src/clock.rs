//! Clocks of this machine.

use std::fs;
use std::io;
use std::time::Duration;

use memweir_core::Nanos;
use nix::time::{ClockId, clock_gettime};

/// Returns the time since an arbitrary moment, on a clock that never goes back.
#[must_use]
pub fn monotonic() -> Nanos {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Returns the time since the machine was booted, suspended or not.
#[must_use]
pub fn since_boot() -> Nanos {
    read(ClockId::CLOCK_BOOTTIME)
}

/// Returns the random identifier of this boot.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Returns the CPU time that all threads of this process have used.
#[must_use]
pub fn process_cpu_time() -> Nanos {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the CPU time that the calling thread has used.
#[must_use]
pub fn thread_cpu_time() -> Nanos {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock).expect("every Linux has this clock");
    Nanos::from(Duration::from(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_passes_while_the_thread_works() {
        let start = (monotonic(), process_cpu_time(), thread_cpu_time());
        while thread_cpu_time() < start.2 + Nanos::MILLI {
            std::hint::spin_loop();
        }
        assert!(process_cpu_time() >= start.1 + Nanos::MILLI);
        assert!(monotonic() >= start.0 + Nanos::MILLI);
    }
}
