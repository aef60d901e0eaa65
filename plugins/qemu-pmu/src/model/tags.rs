//! Finding a line among the ways of a set: short tags, compared many at a time.

/// Ways whose tags are compared at once.
pub const GROUP: usize = 16;

/// The short tags of some ways, in memory as the comparison wants them.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub struct Group(pub [u16; GROUP]);

/// Sixteen bits that differ between most lines. Equal tags do not make equal lines.
#[inline(always)]
#[must_use]
pub fn short_tag(line: u64) -> u16 {
    // Fibonacci hashing: the upper bits of the product depend on all bits of the line.
    (line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as u16
}

/// The ways of a group whose tag is `tag`, lowest first.
#[inline(always)]
pub fn candidates(group: &Group, tag: u16) -> impl Iterator<Item = usize> + use<> {
    let mut found = matches(group, tag);
    std::iter::from_fn(move || {
        let way = found.trailing_zeros();
        found &= found.wrapping_sub(1);
        (way < u32::BITS).then_some(way as usize)
    })
}

/// One bit per way, set where the tag is `tag`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn matches(group: &Group, tag: u16) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi16, _mm_load_si128, _mm_movemask_epi8, _mm_packs_epi16,
        _mm_set1_epi16,
    };
    let halves: *const __m128i = std::ptr::from_ref(group).cast();
    // SAFETY: every x86-64 has SSE2; a group is two aligned vectors.
    unsafe {
        let wanted = _mm_set1_epi16(tag.cast_signed());
        let low = _mm_cmpeq_epi16(_mm_load_si128(halves), wanted);
        let high = _mm_cmpeq_epi16(_mm_load_si128(halves.add(1)), wanted);
        _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
    }
}

/// One bit per way, set where the tag is `tag`.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn matches(group: &Group, tag: u16) -> u32 {
    group.0.iter().rev().fold(0, |found, here| found << 1 | u32::from(*here == tag))
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
