//! Numbers of ioctls (`linux/ioctl.h`), which encode the size of the argument.

const NUMBER_BITS: u32 = 8;
const SIZE_SHIFT: u32 = 16;
const DIRECTION_SHIFT: u32 = 30;

const READ: u64 = 2;
const WRITE: u64 = 1;

/// `_IOR(kind, number, bytes)`.
pub(super) const fn ior(kind: u8, number: u64, bytes: usize) -> u64 {
    encode(READ, kind, number, bytes)
}

/// `_IOWR(kind, number, bytes)`.
pub(super) const fn iowr(kind: u8, number: u64, bytes: usize) -> u64 {
    encode(READ | WRITE, kind, number, bytes)
}

const fn encode(direction: u64, kind: u8, number: u64, bytes: usize) -> u64 {
    direction << DIRECTION_SHIFT
        | (bytes as u64) << SIZE_SHIFT
        | (kind as u64) << NUMBER_BITS
        | number
}
