//! The files whose pages are the slots: one of single pages, and one of huge pages for chunks that
//! were full when they were converted. A slot has the same offset in both.

use std::ffi::CStr;

use crate::page::pager::Place;
use crate::page::slots::FILE_BYTES;
use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;

/// The files.
#[derive(Clone, Copy)]
pub(super) struct Files {
    pub(super) single: i32,
    /// True if the file system makes larger pages of what should be single ones. The kernel does
    /// not remove a part of such a page while it is referenced.
    pub(super) may_be_large: bool,
    /// The file of huge pages, if the kernel can create it.
    pub(super) huge: Option<i32>,
}

impl Files {
    /// Creates the files: they have no names, so nothing is left of them however the processes end.
    pub(super) fn create(place: Place) -> Result<Self, Errno> {
        let (single, huge) = match place {
            Place::Memfd | Place::Node(_) => (memfd()?, in_tmpfs(c"always", c"").ok()),
            // All pages follow the mount options that the user chose.
            Place::Tmpfs { huge, policy } => (in_tmpfs(huge, policy)?, None),
        };
        // A tmpfs reports its page size as the preferred block size.
        let may_be_large = sys::status(single).is_none_or(|s| s.st_blksize as usize > PAGE);
        Ok(Self { single, may_be_large, huge })
    }

    /// Iterates over all files.
    pub(super) fn each(self) -> impl Iterator<Item = i32> {
        std::iter::once(self.single).chain(self.huge)
    }

    /// Returns the bytes that the files occupy.
    pub(super) fn used(self) -> usize {
        let occupied = |fd| sys::status(fd).map_or(0, |status| status.st_blocks as usize * 512);
        self.each().map(occupied).sum()
    }
}

fn memfd() -> Result<i32, Errno> {
    // SAFETY: creates a descriptor.
    let fd = unsafe { sys!(libc::SYS_memfd_create, c"memweir-nvm".as_ptr(), libc::MFD_CLOEXEC) }?;
    // SAFETY: the file is new, and no other code uses it.
    unsafe { sys!(libc::SYS_ftruncate, fd, FILE_BYTES) }?;
    Ok(fd as i32)
}

/// Creates a file in a tmpfs of its own, with these mount options; empty for the default. Nobody
/// else can fill it, which would end the program at its next page fault (SIGBUS).
fn in_tmpfs(huge: &CStr, policy: &CStr) -> Result<i32, Errno> {
    const SET_STRING: usize = 1;
    const CREATE: usize = 6;
    const CLOSE_ON_EXEC: usize = 1;
    // SAFETY: creates a file system that no other process sees; all names end with a zero byte.
    let mount = unsafe {
        let context = sys!(libc::SYS_fsopen, c"tmpfs".as_ptr(), CLOSE_ON_EXEC)?;
        // Without a size there is no limit; the amount of data is limited elsewhere.
        let made = [(c"huge", huge), (c"mpol", policy), (c"size", c"0")]
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .try_for_each(|(key, value)| {
                let (key, value) = (key.as_ptr(), value.as_ptr());
                sys!(libc::SYS_fsconfig, context, SET_STRING, key, value, 0).map(drop)
            })
            .and_then(|()| sys!(libc::SYS_fsconfig, context, CREATE, 0, 0, 0))
            .and_then(|_| sys!(libc::SYS_fsmount, context, CLOSE_ON_EXEC, 0));
        sys::close(context as i32);
        made?
    };
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: the name ends with a zero byte; the file is new, and no other code uses it.
    let file = unsafe {
        sys!(libc::SYS_openat, mount, c".".as_ptr(), flags, 0o600).and_then(|file| {
            sys!(libc::SYS_ftruncate, file, FILE_BYTES)
                .map(|_| file as i32)
                .inspect_err(|_| sys::close(file as i32))
        })
    };
    sys::close(mount as i32);
    file
}
