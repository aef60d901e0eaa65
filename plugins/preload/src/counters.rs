//! The counters' file, mapped into every process of a colored program.

use std::sync::atomic::{AtomicU64, Ordering};

use memweir_core::preload::{COUNTERS, Counter, POOLS};

use crate::sys::sys;

/// The mapped counters; nothing is counted where they could not be mapped.
#[derive(Clone, Copy)]
pub(crate) struct Counters(Option<&'static [AtomicU64; COUNTERS + POOLS * 5]>);

impl Counters {
    /// Counts nothing.
    pub(crate) const NONE: Self = Self(None);

    /// Maps the file that is open as `fd`.
    pub(crate) fn map(fd: i32) -> Self {
        let length = (COUNTERS + POOLS * 5) * 8;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping.
        let start = unsafe { sys!(libc::SYS_mmap, 0, length, both, libc::MAP_SHARED, fd, 0) };
        // SAFETY: the launcher made the file as long as this; all fields are atomic.
        Self(start.ok().map(|start| unsafe { &*(start as *const _) }))
    }

    pub(crate) fn add(self, counter: Counter, amount: u64) {
        if let Some(words) = self.0 {
            words[counter as usize].fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Tells the auditor which memory of the process is the pool.
    pub(crate) fn tell_pool(self, process: i32, ranges: [usize; 4]) {
        let Some(words) = self.0 else { return };
        let entry = COUNTERS + process as usize % POOLS * 5;
        words[entry].store(process as u64, Ordering::Relaxed);
        for (word, value) in words[entry + 1..].iter().zip(ranges) {
            word.store(value as u64, Ordering::Relaxed);
        }
    }
}
