//! Operations on sixteen small numbers at once: comparing the ways of a set with a tag, or finding
//! the oldest.

/// Number of lanes.
pub const LANES: usize = 16;

/// Makes the host fetch the line of `place` into its caches.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has SSE, and a prefetch changes nothing but the host's caches.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Returns one bit per lane, set where the byte is `wanted`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub fn equal_bytes(bytes: &[u8; LANES], wanted: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    // SAFETY: every x86-64 has SSE2; a vector is as large as the array and need not be aligned.
    unsafe {
        let all = _mm_loadu_si128(bytes.as_ptr().cast());
        _mm_movemask_epi8(_mm_cmpeq_epi8(all, _mm_set1_epi8(wanted.cast_signed()))) as u32
    }
}

/// Returns one bit per lane, set where the byte is `wanted`.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
#[must_use]
pub fn equal_bytes(bytes: &[u8; LANES], wanted: u8) -> u32 {
    bytes.iter().rev().fold(0, |found, here| found << 1 | u32::from(*here == wanted))
}

/// Returns one bit per lane, set where the number is `wanted`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub fn equal_words(words: &[u16; LANES], wanted: u16) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16,
        _mm_set1_epi16,
    };
    let halves: *const __m128i = words.as_ptr().cast();
    // SAFETY: every x86-64 has SSE2; the array is two vectors, which need not be aligned.
    unsafe {
        let wanted = _mm_set1_epi16(wanted.cast_signed());
        let low = _mm_cmpeq_epi16(_mm_loadu_si128(halves), wanted);
        let high = _mm_cmpeq_epi16(_mm_loadu_si128(halves.add(1)), wanted);
        _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
    }
}

/// Returns one bit per lane, set where the number is `wanted`.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
#[must_use]
pub fn equal_words(words: &[u16; LANES], wanted: u16) -> u32 {
    words.iter().rev().fold(0, |found, here| found << 1 | u32::from(*here == wanted))
}

/// Returns the first of the lanes with the least number.
#[inline(always)]
#[must_use]
pub fn least(numbers: &[i16; LANES]) -> usize {
    // Signed, because every x86-64 can compute the minimum of eight signed numbers at once.
    let least = numbers.iter().fold(i16::MAX, |least, here| least.min(*here));
    let found = equal_words(&numbers.map(i16::cast_unsigned), least.cast_unsigned());
    // The bit that is always set guarantees a result.
    (found | 1 << (LANES - 1)).trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Few values, so that several lanes are equal.
    fn value() -> impl Strategy<Value = i16> {
        prop_oneof![Just(i16::MIN), Just(i16::MAX), Just(0), -2_i16..2]
    }

    proptest! {
        #[test]
        fn all_equal_lanes_are_found(numbers: [u8; LANES], wanted: u8) {
            let numbers = numbers.map(|number| number % 4);
            let wanted = wanted % 4;
            let expected = (0..LANES)
                .filter(|lane| numbers[*lane] == wanted)
                .fold(0, |found, lane| found | 1 << lane);
            prop_assert_eq!(equal_bytes(&numbers, wanted), expected);
            // Numbers that differ in one half alone.
            let spread = |number: u8| u16::from(number & 1) << 15 | u16::from(number & 2);
            prop_assert_eq!(equal_words(&numbers.map(spread), spread(wanted)), expected);
        }

        #[test]
        fn the_first_of_the_least_is_found(numbers in proptest::array::uniform16(value())) {
            let least_of_all = *numbers.iter().min().unwrap();
            let expected = numbers.iter().position(|number| *number == least_of_all).unwrap();
            prop_assert_eq!(least(&numbers), expected);
        }
    }
}
