//! Finds the program's static variables that begin as zeros (`.bss`). The kernel maps them at the
//! start of the program, before any call of libc. Those of libraries are left in DRAM: they are
//! small, and some belong to this library, whose helper must never wait for itself.

use std::ffi::{c_int, c_void};

use libc::{Elf64_Phdr, PT_LOAD, dl_phdr_info};

use crate::page::spans::Span;
use crate::uffd::PAGE;

/// Returns the whole pages of such variables of the program; empty if there are none.
pub(crate) fn zeroed() -> Span {
    let mut span = Span::default();
    // SAFETY: `of_first` takes a span, and keeps no pointer to it.
    unsafe { libc::dl_iterate_phdr(Some(of_first), (&raw mut span).cast()) };
    span
}

/// Looks at the first object, which is the program, and ends the iteration.
unsafe extern "C" fn of_first(info: *mut dl_phdr_info, _: usize, span: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid object, whose headers stay mapped.
    let (base, headers) = unsafe {
        let info = &*info;
        (info.dlpi_addr, std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()))
    };
    // SAFETY: `zeroed` passes its span.
    unsafe { *span.cast() = zeroed_of(base, headers) };
    1
}

/// Returns the longest such part: what a segment has in memory beyond its part of the file. Its
/// first page holds the last bytes of that part too, and belongs to the file.
fn zeroed_of(base: u64, headers: &[Elf64_Phdr]) -> Span {
    let round_up = |address: u64| (address as usize).next_multiple_of(PAGE);
    let beyond_file = |header: &Elf64_Phdr| {
        let start = base + header.p_vaddr;
        Span::new(round_up(start + header.p_filesz), round_up(start + header.p_memsz))
    };
    let loaded = headers.iter().filter(|header| header.p_type == PT_LOAD);
    loaded.map(beyond_file).max_by_key(|span| span.length()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(kind: u32, address: u64, in_file: u64, in_memory: u64) -> Elf64_Phdr {
        Elf64_Phdr {
            p_type: kind,
            p_flags: 6,
            p_offset: 0,
            p_vaddr: address,
            p_paddr: address,
            p_filesz: in_file,
            p_memsz: in_memory,
            p_align: 4096,
        }
    }

    #[test]
    fn the_pages_beyond_those_of_the_file_are_found() {
        let base = 0x5555_0000_0000;
        let code = segment(PT_LOAD, 0, 0x1234, 0x1234);
        let data = segment(PT_LOAD, 0x3df0, 0x230, 0x8_0000);
        let thread_local = segment(libc::PT_TLS, 0x3df0, 0, 0x100_0000);
        let found = zeroed_of(base, &[code, thread_local, data]);
        assert_eq!(found, Span::new(0x5555_0000_5000, 0x5555_0008_4000));
        assert!(zeroed_of(base, &[code, thread_local]).is_empty());
        // A few variables, in the page that the file has too.
        assert!(zeroed_of(base, &[segment(PT_LOAD, 0x3000, 0x10, 0x500)]).is_empty());
        assert!(zeroed_of(base, &[]).is_empty());
    }
}
