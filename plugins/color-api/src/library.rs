//! The functions of the preload library, if it is loaded; [`crate`] documents them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

type Count = unsafe extern "C" fn() -> u32;
type Alloc = unsafe extern "C" fn(usize, *const c_char) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void, usize);
type ThreadColors = unsafe extern "C" fn(*const c_char) -> c_int;

/// The library's functions. It is never unloaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library {
    count: Count,
    alloc: Alloc,
    free: Free,
    thread_colors: ThreadColors,
}

impl Library {
    /// Returns the library that the loader preloaded.
    pub(crate) fn loaded() -> Option<Self> {
        // SAFETY: the functions of these names have these signatures, by `memweir_color.h`.
        unsafe {
            Some(Self {
                count: std::mem::transmute::<*mut c_void, Count>(find(c"memweir_color_count")?),
                alloc: std::mem::transmute::<*mut c_void, Alloc>(find(c"memweir_color_alloc")?),
                free: std::mem::transmute::<*mut c_void, Free>(find(c"memweir_color_free")?),
                thread_colors: std::mem::transmute::<*mut c_void, ThreadColors>(find(
                    c"memweir_thread_colors",
                )?),
            })
        }
    }

    /// Returns the number of colors of the map; 0 if pages are not placed.
    pub(crate) fn count(self) -> u32 {
        // SAFETY: the function has no conditions.
        unsafe { (self.count)() }
    }

    /// Allocates memory of these colors; `None` and `errno` on failure.
    pub(crate) fn alloc(self, size: usize, colors: &CStr) -> Option<NonNull<u8>> {
        // SAFETY: the colors are a string.
        NonNull::new(unsafe { (self.alloc)(size, colors.as_ptr()) }.cast())
    }

    /// Frees memory.
    ///
    /// # Safety
    /// It must come from [`alloc`](Self::alloc) with this size, and must not be used any more.
    pub(crate) unsafe fn free(self, memory: NonNull<u8>, size: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe { (self.free)(memory.as_ptr().cast(), size) };
    }

    /// Sets the colors of the calling thread; returns false and sets `errno` on failure.
    pub(crate) fn thread_colors(self, colors: Option<&CStr>) -> bool {
        // SAFETY: the colors are a string or null.
        unsafe { (self.thread_colors)(colors.map_or(ptr::null(), CStr::as_ptr)) == 0 }
    }
}

fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: looks a symbol up.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
