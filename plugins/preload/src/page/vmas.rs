//! Looks up single mappings of the program, by a query for each (`PROCMAP_QUERY`, Linux 6.11), or
//! in the list of all mappings if the kernel has no such query.

use crate::maps::{FileId, Mapping, Maps};
use crate::page::spans::Span;
use crate::sys::sys;

/// `_IOWR('f', 17, struct procmap_query)`.
const QUERY: usize = (3 << 30) | (104 << 16) | ((b'f' as usize) << 8) | 17;
/// Selects the mapping at the address, or the next one.
const COVERING_OR_NEXT: u64 = 0x10;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;

/// Returns the mapping that holds `address`. `maps` is an open `/proc/self/maps`.
pub(crate) fn at(maps: i32, list: &mut Maps, address: usize) -> Option<Mapping> {
    next(maps, list, address).filter(|mapping| mapping.start <= address)
}

/// Returns the mapping that holds `address`, or the next one.
pub(crate) fn next(maps: i32, list: &mut Maps, address: usize) -> Option<Mapping> {
    let mut words = [0u64; 13];
    words[..3].copy_from_slice(&[104, COVERING_OR_NEXT, address as u64]);
    // SAFETY: the words have the layout of `struct procmap_query`, without room for a name.
    match unsafe { sys!(libc::SYS_ioctl, maps, QUERY, words.as_mut_ptr()) } {
        Ok(_) => Some(mapping_of(&words)),
        Err(crate::sys::Errno(libc::ENOENT)) => None,
        Err(_) => {
            list.read();
            list.find_next(address)
        }
    }
}

fn mapping_of(words: &[u64; 13]) -> Mapping {
    let (flags, inode) = (words[5], words[8]);
    Mapping {
        start: words[3] as usize,
        end: words[4] as usize,
        readable: flags & READABLE != 0,
        writable: flags & WRITABLE != 0,
        executable: flags & EXECUTABLE != 0,
        anonymous: inode == 0 && flags & SHARED == 0,
        file: FileId { device: words[9], inode },
    }
}

pub(crate) fn span(mapping: Mapping) -> Span {
    Span::new(mapping.start, mapping.end)
}
