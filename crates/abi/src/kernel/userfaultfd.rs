//! userfaultfd (`linux/userfaultfd.h`): its requests, their flags, and the messages that it sends.
//! Constants carry the kernel's names.

use super::ioctl::{ior, iowr};

/// Version of the interface, the first word of [`UFFDIO_API`].
pub const UFFD_API: u64 = 0xaa;

const KIND: u8 = 0xaa;
/// Bytes of `struct uffdio_range`.
const RANGE: usize = 16;

/// Handshake: [`UFFD_API`], features asked for and known, ioctls known.
pub const UFFDIO_API: u64 = iowr(KIND, 0x3f, 24);
/// Watches a range: start, length, modes, ioctls known.
pub const UFFDIO_REGISTER: u64 = iowr(KIND, 0, 32);
/// Ends the watch of a range: start, length.
pub const UFFDIO_UNREGISTER: u64 = ior(KIND, 1, RANGE);
/// Wakes the threads that wait for a range: start, length.
pub const UFFDIO_WAKE: u64 = ior(KIND, 2, RANGE);
/// Fills missing pages with a copy: to, from, length, mode, bytes done.
pub const UFFDIO_COPY: u64 = iowr(KIND, 3, 40);
/// Fills missing pages with the page of zeros: start, length, mode, bytes done.
pub const UFFDIO_ZEROPAGE: u64 = iowr(KIND, 4, 32);
/// Fills missing pages with others of the process: to, from, length, mode, bytes done (Linux 6.8).
pub const UFFDIO_MOVE: u64 = iowr(KIND, 5, 40);
/// Protects a range from writes, or ends that: start, length, mode.
pub const UFFDIO_WRITEPROTECT: u64 = iowr(KIND, 6, 24);
/// Makes accesses to missing pages an error: start, length, mode, bytes done (Linux 6.6).
pub const UFFDIO_POISON: u64 = iowr(KIND, 8, 32);

/// Watches accesses to missing pages.
pub const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;
/// Watches writes to protected pages.
pub const UFFDIO_REGISTER_MODE_WP: u64 = 2;
/// Watches accesses to pages that are in the file and not mapped.
pub const UFFDIO_REGISTER_MODE_MINOR: u64 = 4;
/// Protects; without it, [`UFFDIO_WRITEPROTECT`] ends the protection.
pub const UFFDIO_WRITEPROTECT_MODE_WP: u64 = 1;

/// Reports forks, before the child runs; for `CAP_SYS_PTRACE` only.
pub const UFFD_FEATURE_EVENT_FORK: u64 = 1 << 1;
/// Reports the thread of a fault.
pub const UFFD_FEATURE_THREAD_ID: u64 = 1 << 8;
/// Reports accesses to pages that are in the file and not mapped (Linux 5.14).
pub const UFFD_FEATURE_MINOR_SHMEM: u64 = 1 << 10;
/// Protects pages of shared memory files (Linux 5.19).
pub const UFFD_FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
/// Protects missing pages (Linux 6.4).
pub const UFFD_FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
/// Offers [`UFFDIO_POISON`] (Linux 6.6).
pub const UFFD_FEATURE_POISON: u64 = 1 << 14;
/// Offers [`UFFDIO_MOVE`] (Linux 6.8).
pub const UFFD_FEATURE_MOVE: u64 = 1 << 16;

/// A page fault or a fork, as the kernel reports it (`struct uffd_msg`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Message {
    /// [`FAULT`](Self::FAULT) or [`FORK`](Self::FORK).
    pub event: u8,
    reserved: [u8; 7],
    /// Flags of a fault; the child's descriptor of a fork.
    pub flags: u64,
    /// Address of a fault.
    pub address: u64,
    /// Thread of a fault, with [`UFFD_FEATURE_THREAD_ID`].
    pub thread: u32,
    padding: u32,
}

const _: () = assert!(size_of::<Message>() == 32);

impl Message {
    /// The event of a page fault (`UFFD_EVENT_PAGEFAULT`).
    pub const FAULT: u8 = 0x12;
    /// The event of a fork (`UFFD_EVENT_FORK`).
    pub const FORK: u8 = 0x13;
    /// Flag of a fault on a protected page (`UFFD_PAGEFAULT_FLAG_WP`).
    pub const FLAG_PROTECTED: u64 = 2;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers as `gcc -E` and `printf` give them from the kernel's header.
    #[test]
    fn requests_have_the_numbers_of_the_header() {
        let numbers = [
            (UFFDIO_API, 0xc018_aa3f),
            (UFFDIO_REGISTER, 0xc020_aa00),
            (UFFDIO_UNREGISTER, 0x8010_aa01),
            (UFFDIO_WAKE, 0x8010_aa02),
            (UFFDIO_COPY, 0xc028_aa03),
            (UFFDIO_ZEROPAGE, 0xc020_aa04),
            (UFFDIO_MOVE, 0xc028_aa05),
            (UFFDIO_WRITEPROTECT, 0xc018_aa06),
            (UFFDIO_POISON, 0xc020_aa08),
        ];
        for (number, expected) in numbers {
            assert_eq!(number, expected, "{number:#x}");
        }
    }
}
