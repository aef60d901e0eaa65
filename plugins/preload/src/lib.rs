//! The preload library of `memweir color run` and `memweir page run`.
//!
//! Colored (module `color`): the heap, the anonymous mappings and the stacks of an unmodified
//! program are placed in pages of chosen colors. Paged (module `page`): its cold pages leave DRAM;
//! the module argues why no write is lost. In both, a helper process shares the program's memory
//! (`launch`), and the program's threads talk to it through `control`.
//!
//! Without [`ORDER_VARIABLE`] or [`PAGE_ORDER_VARIABLE`] in the environment, the library does
//! nothing.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the preload library knows the system calls of Linux on x86-64 only");

mod color;
mod control;
mod launch;
mod maps;
mod memory;
mod page;
mod pagemap;
mod patch;
mod sys;
mod uffd;

pub use color::api::{
    memweir_color_alloc, memweir_color_count, memweir_color_free, memweir_thread_colors,
};

use memweir_abi::preload::ORDER_VARIABLE;
use memweir_abi::preload::page::PAGE_ORDER_VARIABLE;

/// Returns what a helper finds in its memory at first, for tests.
#[cfg(test)]
fn all_zero<T>() -> Box<T> {
    // SAFETY: zero is valid for all fields of the types that tests make by this.
    unsafe { Box::<T>::new_zeroed().assume_init() }
}

/// Runs before the program, when libc works and there is only one thread.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    if let Ok(text) = std::env::var(PAGE_ORDER_VARIABLE) {
        page::begin(&text);
    } else if let Ok(text) = std::env::var(ORDER_VARIABLE) {
        color::begin(&text);
    }
}
