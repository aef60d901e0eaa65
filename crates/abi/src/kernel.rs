//! Interfaces of Linux that both memweir and its plugins use, and that `libc` does not declare.

mod ioctl;

pub mod image;
pub mod pagemap;
pub mod stat;
pub mod userfaultfd;

use memweir_core::PAGE;

/// Bytes of a base page of x86-64.
pub const PAGE_BYTES: usize = PAGE.0 as usize;
