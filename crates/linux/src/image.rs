//! Files of programs: their first bytes, which tell their kind, and the loader that they name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use memweir_abi::kernel::image::HEAD;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};

/// Reads the bytes by which the kernel tells what to do with a file.
pub(crate) fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD);
    File::open(path)?.take(HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Returns the loader that a 64-bit ELF file names; `None` for static programs and other files.
pub(crate) fn loader(path: &Path) -> Option<OsString> {
    let data = &ReadCache::new(File::open(path).ok()?);
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let mut segments = header.program_headers(endian, data).ok()?.iter();
    let loader = segments.find_map(|segment| segment.interpreter(endian, data).ok()?)?;
    Some(OsStr::from_bytes(loader).to_owned())
}
