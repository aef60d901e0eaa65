//! Places data of Rust programs in pages of chosen colors (B8): the functions of `memweir_color.h`
//! with types.
//!
//! The functions themselves are in the preload library, which `memweir color run` loads into the
//! program. They are looked up at run time, so the program is built without them and also runs
//! without them; then [`colors`] is `None`, and every other function fails with
//! [`Error::NotColored`].
//!
//! ```
//! use memweir_color_api::{ColoredMemory, Error, colors};
//! use memweir_core::Bytes;
//!
//! let mut rows = match ColoredMemory::new(Bytes(1 << 20), &"2-3".parse().unwrap()) {
//!     Ok(memory) => memory,
//!     Err(Error::NotColored) => return assert_eq!(colors(), None),
//!     Err(error) => panic!("{error}"),
//! };
//! rows.fill(1);
//! ```

mod library;

use std::ffi::CString;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use memweir_core::Bytes;
use memweir_core::address_map::ColorSet;

use library::Library;

/// Reason why data cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The program was not started by `memweir color run`, or its pages can no longer be placed.
    #[error("pages are not placed; start the program with `memweir color run`")]
    NotColored,
    /// Not all of these colors are among those that the program was given.
    #[error("the program was not given all of the colors {0}; name them in its --colors")]
    NotGiven(String),
    /// 1024 ranges, 1024 threads or 64 different sets of colors are in use.
    #[error("too many ranges, threads or different sets of colors are in use; give some back")]
    TooMany,
    /// The system has no memory left for it.
    #[error("there is no memory for it")]
    NoMemory,
}

impl Error {
    /// Reads `errno`, which the call for these colors has just set.
    fn last(colors: &str) -> Self {
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::ENOSYS) => Self::NotColored,
            Some(libc::EINVAL) => Self::NotGiven(colors.to_owned()),
            Some(libc::ENOSPC) => Self::TooMany,
            _ => Self::NoMemory,
        }
    }
}

/// Returns the number of colors of the machine's map; `None` if pages are not placed.
#[must_use]
pub fn colors() -> Option<u32> {
    Library::loaded().map(Library::count).filter(|count| *count > 0)
}

/// Sets the colors of pages that the calling thread is the first to touch from now on; with `None`,
/// all of the program's. Memory of a [`ColoredMemory`] keeps its own colors.
///
/// # Errors
/// If the program was not given the colors, or if pages are not placed.
pub fn set_thread_colors(colors: Option<&ColorSet>) -> Result<(), Error> {
    let library = Library::loaded().ok_or(Error::NotColored)?;
    let text = colors.map(written);
    if library.thread_colors(text.as_deref()) {
        Ok(())
    } else {
        Err(Error::last(&colors.map(ToString::to_string).unwrap_or_default()))
    }
}

/// Memory whose pages have chosen colors, zeroed at first. It begins at a page, so slices of any
/// plain type can be cast from it.
#[derive(Debug)]
pub struct ColoredMemory {
    start: NonNull<u8>,
    size: usize,
    library: Library,
}

// SAFETY: the memory belongs to this value alone, and any thread may use and free it.
unsafe impl Send for ColoredMemory {}
// SAFETY: shared references only read it.
unsafe impl Sync for ColoredMemory {}

impl ColoredMemory {
    /// Allocates memory of `size` bytes in pages of these colors. Pages are allocated on first
    /// touch, from all colors in turn.
    ///
    /// # Errors
    /// If the program was not given the colors, if pages are not placed, or if memory is short.
    pub fn new(size: Bytes, colors: &ColorSet) -> Result<Self, Error> {
        let library = Library::loaded().ok_or(Error::NotColored)?;
        let size = usize::try_from(size.0).map_err(|_| Error::NoMemory)?;
        let start = library.alloc(size, &written(colors));
        let start = start.ok_or_else(|| Error::last(&colors.to_string()))?;
        Ok(Self { start, size, library })
    }
}

impl Deref for ColoredMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: this many readable bytes begin there until this value is dropped, zeroed by the
        // kernel, and they change through this value only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }
}

impl DerefMut for ColoredMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and they are writable.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.size) }
    }
}

impl Drop for ColoredMemory {
    fn drop(&mut self) {
        // SAFETY: only this value knew the memory, and it is gone.
        unsafe { self.library.free(self.start, self.size) };
    }
}

/// Returns the colors in the format that the library reads.
fn written(colors: &ColorSet) -> CString {
    CString::new(colors.to_string()).unwrap_or_else(|_| unreachable!("digits, commas and hyphens"))
}
