//! Protocol between `memweir page run` and the preload library: the order to page a program, which
//! travels in the environment, and the counters that come back from all of its processes.

mod counters;
mod order;

pub use counters::{
    BUCKETS, PAGE_COUNTERS_BYTES, PageCounter, PageCounters, PageProcess, PagedState, Timed,
    bucket_of, process_word, timed_word,
};
pub use order::{
    DirectRead, NvmPlace, PageOrder, Slowdown, TmpfsOptions, UnpagedPrograms, WhenFull,
};

/// Variable of the environment that holds the [`PageOrder`].
pub const PAGE_ORDER_VARIABLE: &str = "MEMWEIR_PAGE";

/// Number of processes that can be paged at the same time. Further processes are not paged, but
/// counted.
pub const PAGE_PROCESSES: usize = 1024;
