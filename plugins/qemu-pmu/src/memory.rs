//! Reads and writes the program's memory: nothing happens where it is not accessible.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::api;

/// Reads `buffer.len()` bytes at `address`; returns true if all could be read.
pub(crate) fn read(address: u64, buffer: &mut [u8]) -> bool {
    read_part(address, buffer) == buffer.len()
}

/// Reads at most `buffer.len()` bytes at `address`; returns the number of those that could be read.
pub(crate) fn read_part(address: u64, buffer: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = remote(address, buffer.len());
    // SAFETY: copies into `buffer`; the kernel checks the other side.
    let copied =
        unsafe { libc::process_vm_readv(std::process::id() as i32, &local, 1, &remote, 1, 0) };
    usize::try_from(copied).unwrap_or(0)
}

/// Writes `bytes` at `address`; returns true if all could be written.
pub(crate) fn write(address: u64, bytes: &[u8]) -> bool {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = remote(address, bytes.len());
    // SAFETY: copies out of `bytes`; the kernel checks the other side.
    let copied =
        unsafe { libc::process_vm_writev(std::process::id() as i32, &local, 1, &remote, 1, 0) };
    copied == bytes.len() as isize
}

/// Writes `bytes` at `address`, also where the program may only read, except in memory that it
/// shares; returns true if all could be written.
pub(crate) fn write_protected(address: u64, bytes: &[u8]) -> bool {
    let place = remote(address, bytes.len()).iov_base as u64;
    let by_force = || {
        let memory = File::options().write(true).open("/proc/self/mem")?;
        memory.write_all_at(bytes, place)
    };
    write(address, bytes) || by_force().is_ok()
}

fn remote(address: u64, length: usize) -> libc::iovec {
    libc::iovec { iov_base: address.wrapping_add(api::guest_base()) as *mut _, iov_len: length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_neither_read_nor_written() {
        let mut word = 5_u64.to_le_bytes();
        let address = word.as_mut_ptr() as u64;
        let mut copy = [0; 8];
        assert!(read(address, &mut copy));
        assert_eq!(u64::from_le_bytes(copy), 5);
        assert!(write(address, &6_u64.to_le_bytes()));
        assert!(read(address, &mut copy));
        assert_eq!(u64::from_le_bytes(copy), 6);
        assert!(!read(8, &mut copy));
        assert!(!write(8, &copy));
        let constant = c"constant".as_ptr() as u64;
        assert!(!write(constant, &copy[..1]), "read-only");
    }

    #[test]
    fn what_is_protected_is_written_only_by_force() {
        let word = b"constant";
        let address = word.as_ptr() as u64;
        assert!(!write(address, b"C"));
        assert!(write_protected(address, b"C"));
        let mut copy = [0; 8];
        assert!(read(address, &mut copy));
        assert_eq!(&copy, b"Constant");
        assert!(!write_protected(8, b"C"));
    }
}
