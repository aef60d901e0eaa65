//! Variable-length encoding of numbers, in which recorded streams are held in memory.

/// Maps small differences of either sign to small numbers.
pub(super) fn zigzag(difference: u64) -> u64 {
    difference << 1 ^ ((difference as i64) >> 63) as u64
}

/// Reverses [`zigzag`].
pub(super) fn unzigzag(value: u64) -> u64 {
    value >> 1 ^ (value & 1).wrapping_neg()
}

/// Appends a number, seven bits per byte, the lowest first.
pub(super) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// A read position among numbers that were [`put`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reader(usize);

impl Reader {
    pub(super) fn is_at_end(self, bytes: &[u8]) -> bool {
        self.0 >= bytes.len()
    }

    /// Returns the next number and moves past it.
    pub(super) fn take(&mut self, bytes: &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[self.0];
            self.0 += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value;
            }
            shift += 7;
        }
    }
}
