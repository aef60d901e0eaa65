//! Selects the colors for a page.

use std::sync::atomic::{AtomicUsize, Ordering};

use memweir_core::address_map::ColorSet;

use crate::control::{Control, SET_WORDS};

/// A set of colors: one bit for each.
pub(crate) type Set = [u64; SET_WORDS];

/// Returns true if a set, as words, has the color.
pub(crate) fn has(set: &[u64], color: usize) -> bool {
    set.get(color / 64).is_some_and(|word| word >> (color % 64) & 1 == 1)
}

/// Returns the first color from `from` on, and after the last from 0 on, that both sets have.
pub(crate) fn next_common(one: &Set, other: &Set, from: usize) -> Option<usize> {
    let upper = u64::MAX << (from % 64);
    (0..=SET_WORDS).find_map(|step| {
        let word = (from / 64 + step) % SET_WORDS;
        let asked = match step {
            0 => upper,
            SET_WORDS => !upper,
            _ => u64::MAX,
        };
        let common = one[word] & other[word] & asked;
        (common != 0).then(|| word * 64 + common.trailing_zeros() as usize)
    })
}

/// Returns the set with that number.
pub(crate) fn set_of(control: &Control, number: usize) -> Set {
    let words = &control.sets[number.min(control.sets.len() - 1)];
    std::array::from_fn(|i| words[i].load(Ordering::Relaxed))
}

/// Returns the colors for a page: those of its range, of the thread that touches it, or of the
/// process.
pub(crate) fn chosen(control: &Control, page: usize, thread: u32) -> Set {
    if control.sets_used.load(Ordering::Acquire) > 1 {
        let holds = |region: &&[AtomicUsize; 3]| {
            let start = region[0].load(Ordering::Acquire);
            start != 0 && (start..region[1].load(Ordering::Relaxed)).contains(&page)
        };
        if let Some(region) = control.regions.iter().find(holds) {
            return set_of(control, region[2].load(Ordering::Relaxed));
        }
        let of_thread =
            |entry: u64| (thread != 0 && (entry >> 32) as u32 == thread).then_some(entry);
        let mut threads = control.threads.iter().map(|entry| entry.load(Ordering::Relaxed));
        if let Some(entry) = threads.find_map(of_thread) {
            return set_of(control, (entry & 0xffff_ffff) as usize);
        }
    }
    set_of(control, 0)
}

/// Returns the set of these colors; `None` if there is no room for one of them.
pub(crate) fn words_of(colors: &ColorSet) -> Option<Set> {
    let mut words = [0; SET_WORDS];
    for color in colors.iter() {
        *words.get_mut(color.0 as usize / 64)? |= 1 << (color.0 % 64);
    }
    Some(words)
}

#[cfg(test)]
pub(crate) mod tests {
    use memweir_core::address_map::Color;

    use super::*;

    pub(crate) fn set(colors: &[u32]) -> Set {
        words_of(&colors.iter().map(|color| Color(*color)).collect()).unwrap()
    }

    #[test]
    fn colors_come_in_turn() {
        let (one, other) = (set(&[0, 3, 64, 100, 4095]), set(&[3, 5, 64, 100, 101, 4095]));
        let expected = [(0, 3), (3, 3), (4, 64), (65, 100), (101, 4095), (4095, 4095)];
        for (from, color) in expected {
            assert_eq!(next_common(&one, &other, from), Some(color), "{from}");
        }
        // After the last color, the search wraps around, within the same word too.
        assert_eq!(next_common(&set(&[2]), &set(&[2]), 3), Some(2));
        assert_eq!(next_common(&set(&[2]), &set(&[2]), 4095), Some(2));
        assert_eq!(next_common(&one, &set(&[1, 2]), 0), None);
        assert!(has(&one, 100) && !has(&one, 101) && !has(&one, 1 << 20));
    }
}
