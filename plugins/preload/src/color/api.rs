//! Functions for programs that place data themselves (B8); see `include/memweir_color.h`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use memweir_core::address_map::ColorSet;

use crate::color::choice::{Set, set_of, words_of};
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
    // A signal's handler may ask for a set, too.
    sys::without_signals(|| {
        while control.adding_set.swap(1, Ordering::Acquire) != 0 {
            sys::sleep_micros(10);
        }
        let number = find_or_add(control, &words);
        control.adding_set.store(0, Ordering::Release);
        number.ok_or(Errno(libc::ENOSPC))
    })
}

/// Returns the number of a set, which is added if need be; `None` if there is no room. No other
/// thread may add one meanwhile.
fn find_or_add(control: &Control, words: &Set) -> Option<usize> {
    let used = control.sets_used.load(Ordering::Acquire) as usize;
    if let Some(number) = (0..used).find(|number| set_of(control, *number) == *words) {
        return Some(number);
    }
    let set = control.sets.get(used)?;
    words.iter().zip(set).for_each(|(word, place)| place.store(*word, Ordering::Relaxed));
    control.sets_used.store(used as u32 + 1, Ordering::Release);
    Some(used)
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
    let start = sys::map(length, sys::READ_WRITE, libc::MAP_PRIVATE)?;
    let Some(region) = claim(control) else {
        sys::unmap(start, length);
        return Err(Errno(libc::ENOSPC));
    };
    region[1].store(start + length, Ordering::Relaxed);
    region[2].store(set, Ordering::Relaxed);
    region[0].store(start, Ordering::Release);
    control.ask(Ask::Watch, start, length);
    Ok(start)
}

/// Takes an entry for a range. As long as it has no start, no page is in it.
fn claim(control: &Control) -> Option<&[AtomicUsize; 3]> {
    const NO_START: usize = usize::MAX;
    let order = (Ordering::AcqRel, Ordering::Relaxed);
    let mut regions = control.regions.iter();
    regions.find(|region| region[0].compare_exchange(0, NO_START, order.0, order.1).is_ok())
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

/// Sets the colors of a thread to the set with that number. `ENOSPC` if too many threads have some
/// of their own: those that have ended do not count, nor those with all of the program's.
fn set_thread(control: &Control, thread: i32, set: usize) -> Result<(), Errno> {
    let replace = |entry: u64, is_wanted: &dyn Fn(i32) -> bool| {
        control.threads.iter().any(|place| {
            let old = place.load(Ordering::Relaxed);
            is_wanted((old >> 32) as i32)
                && place.compare_exchange(old, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    };
    let is_own = |owner: i32| owner == thread;
    if set == 0 {
        replace(0, &is_own);
        return Ok(());
    }
    let entry = (thread as u64) << 32 | set as u64;
    let has_ended = |owner: i32| {
        // SAFETY: only checks whether the thread exists.
        let lives = unsafe { sys::sys!(libc::SYS_tgkill, sys::process_id(), owner, 0) };
        lives == Err(Errno(libc::ESRCH))
    };
    let is_free = |owner: i32| owner == 0;
    if replace(entry, &is_own) || replace(entry, &is_free) || replace(entry, &has_ended) {
        Ok(())
    } else {
        Err(Errno(libc::ENOSPC))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;
    use crate::color::choice::chosen;
    use crate::color::choice::tests::set;
    use crate::control::{SETS, THREADS};

    /// Returns the control words of a program that was given all colors.
    fn control() -> Box<Control> {
        let control = crate::all_zero::<Control>();
        control.sets[0].iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        control.sets_used.store(1, Ordering::Relaxed);
        control
    }

    #[test]
    fn threads_that_ask_at_once_get_the_same_sets_whole() {
        let control = control();
        let number = |color: u32| {
            let colors = CString::new(format!("{color},{}", color + 4000)).unwrap();
            // SAFETY: it is a string.
            unsafe { number_of(&control, colors.as_ptr()) }
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for color in 1..SETS as u32 {
                        let words = set(&[color, color + 4000]);
                        assert_eq!(set_of(&control, number(color).unwrap()), words);
                    }
                    assert_eq!(number(SETS as u32), Err(Errno(libc::ENOSPC)));
                });
            }
        });
        assert_eq!(control.sets_used.load(Ordering::Relaxed), SETS as u32);
    }

    #[test]
    fn no_page_is_in_a_range_that_is_about_to_be_allocated() {
        let control = control();
        assert_eq!(find_or_add(&control, &set(&[5])), Some(1));
        let region = claim(&control).unwrap();
        region[1].store(1 << 40, Ordering::Relaxed);
        region[2].store(1, Ordering::Relaxed);
        assert_eq!(chosen(&control, 4 * PAGE, 0), set_of(&control, 0));
        region[0].store(4 * PAGE, Ordering::Relaxed);
        assert_eq!(chosen(&control, 4 * PAGE, 0), set(&[5]));
    }

    #[test]
    fn threads_that_have_ended_leave_room_for_others() {
        let control = control();
        assert_eq!(find_or_add(&control, &set(&[5])), Some(1));
        let this = sys::thread_id();
        set_thread(&control, this, 1).unwrap();
        // No thread has a number as high as these.
        let ended = i32::MAX - THREADS as i32..i32::MAX - 1;
        ended.for_each(|thread| set_thread(&control, thread, 1).unwrap());
        set_thread(&control, i32::MAX, 1).unwrap();
        assert_eq!(chosen(&control, PAGE, i32::MAX as u32), set(&[5]));
        assert_eq!(chosen(&control, PAGE, this as u32), set(&[5]), "it lives");
        set_thread(&control, this, 0).unwrap();
        assert!(control.threads.iter().any(|entry| entry.load(Ordering::Relaxed) == 0));
    }
}
