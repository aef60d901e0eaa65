//! Timing two reads from memory.

use super::ArenaError;

/// Rounds between two looks at the clock.
#[cfg(target_arch = "x86_64")]
const PART: u32 = 12;

/// Timer of uncached reads. Exists only where the processor has the instructions for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer(());

impl Timer {
    #[cfg(target_arch = "x86_64")]
    pub(super) fn new() -> Result<Self, ArenaError> {
        let text = std::fs::read_to_string("/proc/cpuinfo")
            .map_err(crate::OsError::of("/proc/cpuinfo"))?;
        for needed in ["clflushopt", "rdtscp", "constant_tsc"] {
            if !crate::topology::has_flag(&text, needed) {
                return Err(ArenaError::Processor(format!("`{needed}` is missing")));
            }
        }
        Ok(Self(()))
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn new() -> Result<Self, ArenaError> {
        Err(ArenaError::Processor("only x86-64 is supported".to_owned()))
    }

    /// Returns the cycles per round of reading both lines from memory: the median of parts of
    /// `rounds`, which a few interrupted parts do not move.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn pair(self, a: &u8, b: &u8, rounds: u32) -> f64 {
        let one = |_| part(a, b) as f64 / f64::from(PART);
        let mut parts: Vec<f64> = (0..rounds.div_ceil(PART).max(1)).map(one).collect();
        let middle = parts.len() / 2;
        *parts.select_nth_unstable_by(middle, f64::total_cmp).1
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn pair(self, _: &u8, _: &u8, _: u32) -> f64 {
        f64::NAN
    }
}

/// Returns the cycles of [`PART`] rounds. Each reads both lines, then flushes both, so that the
/// next round reads them from memory again.
#[cfg(target_arch = "x86_64")]
fn part(a: &u8, b: &u8) -> u64 {
    use std::arch::asm;
    use std::arch::x86_64::{__rdtscp, _mm_lfence};

    let mut processor = 0;
    // SAFETY: a `Timer` exists only where /proc/cpuinfo has rdtscp, and lfence is part of x86-64;
    // `processor` is a place that may be written.
    let now = |processor: &mut u32| unsafe {
        _mm_lfence();
        let now = __rdtscp(processor);
        _mm_lfence();
        now
    };
    let start = now(&mut processor);
    for _ in 0..PART {
        // SAFETY: both addresses come from references, so they can be read; clflushopt (checked as
        // above) and mfence change no memory. The registers are declared.
        unsafe {
            asm!(
                "mov {scratch}, byte ptr [{a}]",
                "mov {scratch}, byte ptr [{b}]",
                "lfence",
                "clflushopt [{a}]",
                "clflushopt [{b}]",
                "mfence",
                a = in(reg) std::ptr::from_ref(a),
                b = in(reg) std::ptr::from_ref(b),
                scratch = out(reg_byte) _,
                options(nostack, readonly, preserves_flags),
            );
        }
    }
    now(&mut processor).saturating_sub(start)
}
