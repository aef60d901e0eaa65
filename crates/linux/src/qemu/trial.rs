//! A program for a trial of the emulator. The programs of this machine may be for another
//! architecture than the emulated one.

use std::fs::File;
use std::io::{self, Write};

use nix::sys::memfd::{MFdFlags, memfd_create};

/// Address to which the file is loaded.
const LOADED_AT: u64 = 0x40_0000;
/// Bytes of an ELF header and of a program header.
const HEADERS: (u16, u16) = (64, 56);
/// `xor edi, edi; mov eax, 231; syscall`: calls `exit_group(0)`.
const CODE: [u8; 9] = [0x31, 0xff, 0xb8, 231, 0, 0, 0, 0x0f, 0x05];

/// Returns a file in memory with a static x86-64 program that succeeds.
///
/// # Errors
/// If the kernel has no file in memory that can be executed.
pub(super) fn program() -> io::Result<File> {
    let (name, flags) = ("memweir-trial", MFdFlags::MFD_CLOEXEC);
    // Before Linux 6.3, all such files can be executed, and the flag is unknown.
    let executable = MFdFlags::from_bits_retain(libc::MFD_EXEC);
    let memory = memfd_create(name, flags | executable);
    let mut file = File::from(memory.or_else(|_| memfd_create(name, flags))?);
    file.write_all(&image())?;
    Ok(file)
}

/// Returns the ELF file: its header, one program header, and the code.
fn image() -> Vec<u8> {
    let (own, entry) = HEADERS;
    let start = u64::from(own) + u64::from(entry);
    let length = start + CODE.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let mut put = |bytes: &[u8]| file.extend_from_slice(bytes);
    // An executable (2) for x86-64 (62), of version 1.
    [2u16, 62, 1, 0].iter().for_each(|half| put(&half.to_le_bytes()));
    [LOADED_AT + start, own.into(), 0].iter().for_each(|word| put(&word.to_le_bytes()));
    // No flags and no sections.
    [0, 0, own, entry, 1, 0, 0, 0].iter().for_each(|half| put(&half.to_le_bytes()));
    // A segment to load (1) that can be read and executed (5).
    [1u32, 5].iter().for_each(|word| put(&word.to_le_bytes()));
    let segment = [0, LOADED_AT, LOADED_AT, length, length, 0x1000];
    segment.iter().for_each(|word| put(&word.to_le_bytes()));
    put(&CODE);
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_abi::kernel::image::Image;

    #[test]
    fn the_program_is_one_for_x86_64() {
        assert_eq!((image().len(), Image::of(&image())), (129, Image::X86_64));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_program_succeeds() {
        use std::os::fd::AsRawFd;
        let file = program().unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        // As in a copy: the kernel executes no file that is open for writing.
        let read = File::open(path).unwrap();
        drop(file);
        let path = format!("/proc/{}/fd/{}", std::process::id(), read.as_raw_fd());
        assert!(std::process::Command::new(path).status().unwrap().success());
    }
}
