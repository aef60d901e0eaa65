//! Single mappings of the program, asked from the kernel one at a time (`PROCMAP_QUERY`, Linux
//! 6.11), or read from the list of all where it cannot be asked.

use crate::maps::{FileId, Mapping, Maps};
use crate::page::spans::Span;
use crate::sys::sys;

/// `_IOWR('f', 17, struct procmap_query)`.
const QUERY: usize = (3 << 30) | (104 << 16) | ((b'f' as usize) << 8) | 17;
/// The mapping at the address, or the next one.
const COVERING_OR_NEXT: u64 = 0x10;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;

/// The mapping that holds `address`. `maps` is `/proc/self/maps`, opened.
pub(crate) fn at(maps: i32, list: &mut Maps, address: usize) -> Option<Mapping> {
    next(maps, list, address).filter(|mapping| mapping.start <= address)
}

/// The mapping that holds `address`, or the next one.
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

/// Protection of a mapping as `mmap` takes it.
pub(crate) fn protection(mapping: Mapping) -> i32 {
    let bit = |set: bool, bit: i32| if set { bit } else { 0 };
    bit(mapping.readable, libc::PROT_READ)
        | bit(mapping.writable, libc::PROT_WRITE)
        | bit(mapping.executable, libc::PROT_EXEC)
}

pub(crate) fn span(mapping: Mapping) -> Span {
    Span::new(mapping.start, mapping.end)
}
