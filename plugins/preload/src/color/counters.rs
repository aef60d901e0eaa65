//! The counters' file, mapped into every process of a colored program.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use memweir_abi::preload::{COUNTER_WORDS, COUNTERS, Counter, ENTRY, POOLS, color_word};

use crate::sys;

/// The mapped counters; nothing is counted if they could not be mapped.
#[derive(Clone, Copy)]
pub(crate) struct Counters(Option<&'static [AtomicU64; COUNTER_WORDS]>);

impl Counters {
    /// Counters that count nothing.
    pub(crate) const NONE: Self = Self(None);

    /// Maps the file; nothing is counted if that fails. A link or a FIFO in its place is refused.
    pub(crate) fn open(path: &CStr) -> Self {
        // SAFETY: the launcher made the file as long as this.
        Self(unsafe { sys::map_words(path, libc::O_NOFOLLOW | libc::O_NONBLOCK) })
    }

    pub(crate) fn add(self, counter: Counter, amount: u64) {
        if let Some(words) = self.0 {
            words[counter as usize].fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Counts a page that the program received by its bank color.
    pub(crate) fn add_color(self, color: usize) {
        if let Some(words) = self.0 {
            words[color_word(color)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Publishes the address ranges of the pool to the auditor. `started` is the start time of the
    /// process.
    pub(crate) fn tell_pool(self, process: i32, started: u64, ranges: [usize; 4]) {
        let Some(words) = self.0 else { return };
        let entry = COUNTERS + process as usize % POOLS * ENTRY;
        words[entry].store(process as u64, Ordering::Relaxed);
        words[entry + 1].store(started, Ordering::Relaxed);
        for (word, value) in words[entry + 2..].iter().zip(ranges) {
            word.store(value as u64, Ordering::Relaxed);
        }
    }
}
