//! The software PMU (H7): a plugin for QEMU's user mode.
//!
//! Loaded into `qemu-x86_64`, it counts the instructions of a program, runs its memory accesses
//! through a cache model whose last level is shared between all running jobs, and keeps the
//! counts in memory that the scheduler reads each quantum (`memweir_abi::softpmu`). Programs
//! that the job forks and executes are counted into the same page.
//!
//! A killed program loses the unpublished counts of its threads: at most 255 first-level misses
//! with their traffic, and, in programs with threads, 16,384 instructions per thread.

pub mod api;
mod exec;
mod gate;
mod helpers;
mod mapping;
mod memory;
pub mod model;
mod plugin;
mod process;
mod recorder;
mod regions;
mod together;
mod vcpus;

use std::ffi::{c_char, c_int};
use std::io::{self, Write};

/// The declared version of the plugin interface; a constructor sets it before the emulator reads
/// it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static mut qemu_plugin_version: c_int = 1;

/// Runs when the library is loaded. An emulator accepts only versions from its own minimum on, and
/// no emulator accepts both 1 and 2.
extern "C" fn declare() {
    if !api::has_version_one() {
        // SAFETY: no other code of this library runs yet.
        unsafe { qemu_plugin_version = 2 };
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static DECLARE: extern "C" fn() = declare;

/// Sets up the plugin; the emulator calls it once. Returns zero on success.
///
/// # Safety
/// The arguments must be as in QEMU's plugin interface: `info` is valid during the call, and
/// `arguments` are `count` C strings that stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const api::Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    let arguments = match count {
        0 => &[],
        // SAFETY: the emulator passes `count` pointers; only with none may the array be null.
        count => unsafe { std::slice::from_raw_parts(arguments, count) },
    };
    // SAFETY: passed on unchanged.
    match unsafe { plugin::install(id, &*info, arguments) } {
        Ok(()) => 0,
        Err(reason) => {
            // Where standard error cannot be written, the reason is lost.
            let _ = writeln!(io::stderr(), "memweir plugin: {reason}");
            1
        }
    }
}
