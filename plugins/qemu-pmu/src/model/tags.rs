//! Finds a line among the ways of a set: short tags, compared many at a time.

use super::lanes::{LANES, equal_words};

/// Ways whose tags are compared at once.
pub const GROUP: usize = LANES;

/// The short tags of some ways, in the layout that the comparison needs.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub struct Group(pub [u16; GROUP]);

/// Returns sixteen bits that differ between most lines. Lines with equal tags may differ.
#[inline(always)]
#[must_use]
pub fn short_tag(line: u64) -> u16 {
    // Fibonacci hashing: the upper bits of the product depend on all bits of the line.
    (line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as u16
}

/// Returns the ways of a group whose tag is `tag`, lowest first.
#[inline(always)]
pub fn candidates(group: &Group, tag: u16) -> impl Iterator<Item = usize> + use<> {
    let mut found = equal_words(&group.0, tag);
    std::iter::from_fn(move || {
        let way = found.trailing_zeros();
        found &= found.wrapping_sub(1);
        (way < u32::BITS).then_some(way as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_ways_with_the_tag_are_candidates(tags: [u8; GROUP], tag: u8) {
            // Few values, so that several ways are equal.
            let group = Group(tags.map(|tag| u16::from(tag % 4) << 14 | 7));
            let tag = u16::from(tag % 4) << 14 | 7;
            let expected: Vec<usize> = (0..GROUP).filter(|way| group.0[*way] == tag).collect();
            prop_assert_eq!(candidates(&group, tag).collect::<Vec<_>>(), expected);
        }
    }
}
