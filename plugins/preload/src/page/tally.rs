//! The counters' file, mapped into every process of a paged program, and this process's entry in
//! it.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use memweir_abi::preload::page::{
    PAGE_COUNTERS_BYTES, PAGE_PROCESSES, PageCounter, PagedState, Timed, bucket_of, process_word,
    timed_word,
};

use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;

const WORDS: usize = PAGE_COUNTERS_BYTES / 8;

/// Index of the word after the counters that holds the number of entries ever used.
const ENTRIES: usize = timed_word(Timed::DirectRead, 0) - 1;

/// The mapped counters; nothing is counted if they could not be mapped.
#[derive(Clone, Copy)]
pub(crate) struct Tally(Option<&'static [AtomicU64; WORDS]>);

/// Sums over all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    /// Pages in DRAM.
    pub(crate) resident: usize,
    /// Bytes in NVM.
    pub(crate) nvm: usize,
    /// Bytes of NVM whose pages are in DRAM.
    pub(crate) kept: usize,
    /// Pages that can be in DRAM before a helper is notified.
    pub(crate) reach: usize,
    /// Processes with an entry.
    pub(crate) processes: usize,
}

impl Tally {
    /// Counters that count nothing.
    pub(crate) const NONE: Self = Self(None);

    /// Maps the file; nothing is counted if that fails.
    pub(crate) fn open(path: &CStr) -> Self {
        // SAFETY: the launcher made the file as long as this.
        Self(unsafe { sys::map_words(path, 0) })
    }

    pub(crate) fn add(self, counter: PageCounter, amount: usize) {
        if let Some(words) = self.0 {
            words[counter as usize].fetch_add(amount as u64, Ordering::Relaxed);
        }
    }

    /// Returns the result of a system call, and counts it if it failed.
    pub(crate) fn check<T>(self, result: Result<T, Errno>) -> Option<T> {
        if result.is_err() {
            self.add(PageCounter::Failures, 1);
        }
        result.ok()
    }

    /// Raises the counter to `value` if that is larger.
    pub(crate) fn most(self, counter: PageCounter, value: u64) {
        if let Some(words) = self.0 {
            words[counter as usize].fetch_max(value, Ordering::Relaxed);
        }
    }

    /// Counts one event that took that many nanoseconds.
    pub(crate) fn time(self, timed: Timed, nanos: u64) {
        if let Some(words) = self.0 {
            words[timed_word(timed, bucket_of(nanos))].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Claims an entry for this process; `None` if all are taken.
    pub(crate) fn claim(self, process: i32) -> Option<usize> {
        let words = self.0?;
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let free = |entry: &usize| {
            let word = &words[process_word(*entry)];
            word.compare_exchange(0, process as u64, order.0, order.1).is_ok()
        };
        let entry = (0..PAGE_PROCESSES).find(free)?;
        words[ENTRIES].fetch_max(entry as u64 + 1, Ordering::AcqRel);
        Some(entry)
    }

    /// Publishes the numbers of this process, and returns the sums over all.
    pub(crate) fn publish(self, entry: usize, own: Total, state: PagedState) -> Total {
        let Some(words) = self.0 else { return own };
        let values = [own.resident * PAGE, own.nvm, state as usize, own.kept, own.reach];
        for (word, value) in words[process_word(entry) + 1..].iter().zip(values) {
            word.store(value as u64, Ordering::Relaxed);
        }
        let mut total = Total::default();
        for entry in 0..words[ENTRIES].load(Ordering::Acquire) as usize {
            let entry = &words[process_word(entry)..];
            let number = |word: usize| entry[word].load(Ordering::Relaxed) as usize;
            if number(0) != 0 {
                total.resident += number(1) / PAGE;
                total.nvm += number(2);
                total.kept += number(4);
                total.reach += number(5);
                total.processes += 1;
            }
        }
        let tell = |now: PageCounter, most: PageCounter, bytes: usize| {
            words[now as usize].store(bytes as u64, Ordering::Relaxed);
            words[most as usize].fetch_max(bytes as u64, Ordering::Relaxed);
        };
        let resident = total.resident * PAGE;
        tell(PageCounter::DramResidentBytes, PageCounter::DramPeakBytes, resident);
        tell(PageCounter::NvmUsedBytes, PageCounter::NvmPeakBytes, total.nvm);
        words[PageCounter::NvmKeptBytes as usize].store(total.kept as u64, Ordering::Relaxed);
        total
    }

    /// Releases the entry of a process that has ended.
    pub(crate) fn release(self, entry: usize, process: u64) {
        let Some(words) = self.0 else { return };
        let at = process_word(entry);
        for word in [1, 2, 4, 5] {
            words[at + word].store(0, Ordering::Relaxed);
        }
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = words[at].compare_exchange(process, 0, order.0, order.1);
    }

    /// Releases the entries of processes that were killed together with their helpers.
    pub(crate) fn reap(self, own: usize) {
        let Some(words) = self.0 else { return };
        for entry in 0..words[ENTRIES].load(Ordering::Acquire) as usize {
            let process = words[process_word(entry)].load(Ordering::Relaxed);
            if process == 0 || entry == own {
                continue;
            }
            // SAFETY: only checks whether the process exists.
            let lives = unsafe { sys!(libc::SYS_kill, process, 0) };
            if lives == Err(Errno(libc::ESRCH)) {
                self.release(entry, process);
            }
        }
    }
}
