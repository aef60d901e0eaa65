//! Functions for programs that place data themselves (B8); see `include/memweir_color.h`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

use memweir_core::address_map::ColorSet;

use crate::color::choice::{set_of, words_of};
use crate::control::{self, Ask, Control};
use crate::patch;
use crate::sys::{self, Errno};
use crate::uffd::PAGE;

/// Colors of the map; zero while pages are not placed.
pub(crate) static COLORS: AtomicU32 = AtomicU32::new(0);

/// Returns the number of the set that `colors` names. `EINVAL` if it is no set, or has colors that
/// the program was not given; `ENOSPC` if too many sets are in use.
///
/// # Safety
/// `colors` must be null or a string.
unsafe fn number_of(control: &Control, colors: *const c_char) -> Result<usize, Errno> {
    if colors.is_null() {
        return Ok(0);
    }
    // SAFETY: guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(colors) }.to_str().map_err(|_| Errno(libc::EINVAL))?;
    let colors = ColorSet::from_str(text).map_err(|_| Errno(libc::EINVAL))?;
    let words = words_of(&colors).ok_or(Errno(libc::EINVAL))?;
    if words.iter().zip(set_of(control, 0)).any(|(word, given)| word & !given != 0) {
        return Err(Errno(libc::EINVAL));
    }
    let used = control.sets_used.load(Ordering::Acquire) as usize;
    if let Some(number) = (0..used).find(|number| set_of(control, *number) == words) {
        return Ok(number);
    }
    let free = control.sets_used.fetch_add(1, Ordering::AcqRel) as usize;
    let Some(set) = control.sets.get(free) else {
        control.sets_used.fetch_sub(1, Ordering::AcqRel);
        return Err(Errno(libc::ENOSPC));
    };
    words.iter().zip(set).for_each(|(word, place)| place.store(*word, Ordering::Release));
    Ok(free)
}

fn ready() -> Result<&'static Control, Errno> {
    control::get().filter(|control| control.is_ready()).ok_or(Errno(libc::ENOSYS))
}

/// Returns the number of colors of the map; 0 if pages are not placed.
#[unsafe(no_mangle)]
pub extern "C" fn memweir_color_count() -> u32 {
    if ready().is_ok() { COLORS.load(Ordering::Relaxed) } else { 0 }
}

/// Allocates memory of `size` bytes whose pages have these colors (`"0-3,8"`; null: all of the
/// program's). Returns null with `errno` `ENOSYS` if pages are not placed, `EINVAL` for colors that
/// the program was not given, `ENOMEM`, or `ENOSPC`.
///
/// # Safety
/// `colors` must be null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memweir_color_alloc(size: usize, colors: *const c_char) -> *mut c_void {
    // SAFETY: as the caller says.
    match unsafe { allocate(size, colors) } {
        Ok(start) => start as *mut c_void,
        Err(errno) => {
            patch::fail(errno);
            ptr::null_mut()
        }
    }
}

unsafe fn allocate(size: usize, colors: *const c_char) -> Result<usize, Errno> {
    let control = ready()?;
    // SAFETY: as the caller says.
    let set = unsafe { number_of(control, colors) }?;
    let length = size.max(1).checked_next_multiple_of(PAGE).ok_or(Errno(libc::ENOMEM))?;
    let start = sys::map(length, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE)?;
    let order = (Ordering::AcqRel, Ordering::Relaxed);
    let free = control
        .regions
        .iter()
        .find(|region| region[0].compare_exchange(0, 1, order.0, order.1).is_ok());
    let Some(region) = free else {
        // SAFETY: the mapping is new.
        let _ = unsafe { sys::sys!(libc::SYS_munmap, start, length) };
        return Err(Errno(libc::ENOSPC));
    };
    region[1].store(start + length, Ordering::Relaxed);
    region[2].store(set, Ordering::Relaxed);
    region[0].store(start, Ordering::Release);
    control.ask(Ask::Watch, start, length);
    Ok(start)
}

/// Frees the memory that [`memweir_color_alloc`] returned, with the same size.
///
/// # Safety
/// The memory must not be used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memweir_color_free(memory: *mut c_void, size: usize) {
    let start = memory as usize;
    if start == 0 {
        return;
    }
    if let Some(control) = control::get() {
        let ours = control.regions.iter().find(|region| region[0].load(Ordering::Acquire) == start);
        ours.inspect(|region| region[0].store(0, Ordering::Release));
    }
    // SAFETY: as the caller says. The replaced munmap of libc keeps the helper at bay.
    unsafe { libc::munmap(memory, size.max(1).next_multiple_of(PAGE)) };
}

/// Sets the colors of pages that the calling thread touches first from now on (null: all of the
/// program's). Returns 0, or -1 with `errno` as [`memweir_color_alloc`].
///
/// # Safety
/// `colors` must be null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memweir_thread_colors(colors: *const c_char) -> c_int {
    patch::done(ready().and_then(|control| {
        // SAFETY: as the caller says.
        let set = unsafe { number_of(control, colors) }?;
        set_thread(control, sys::thread_id(), set).map(|()| 0)
    }))
}

/// Sets the colors of a thread to the set with that number. `ENOSPC` if too many threads have some.
fn set_thread(control: &Control, thread: i32, set: usize) -> Result<(), Errno> {
    let entry = (thread as u64) << 32 | set as u64;
    let replace = |owner: i32| {
        control.threads.iter().any(|place| {
            let old = place.load(Ordering::Relaxed);
            (old >> 32) as i32 == owner
                && place.compare_exchange(old, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    };
    if replace(thread) || replace(0) { Ok(()) } else { Err(Errno(libc::ENOSPC)) }
}
