//! A job's placement of pages in its shared page: words that the scheduler writes before the job
//! starts and the plugin reads.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use memweir_core::medium::{MAX_MEDIA, MediumId};
use memweir_core::placement::{AddressRange, HotPages, MAX_HOT_PAGES, MAX_RANGES, Placement};

/// One in the fixed-point format of the shares, in units of 2^-32.
const WHOLE: f64 = 4_294_967_296.0;

const LOCAL: u64 = 0;
const SHARE: u64 = 1;
const RANGES: u64 = 2;
const HOT: u64 = 3;

/// A placement as words, with counters of its effects. All zeros: everything in local DRAM.
#[repr(C)]
#[derive(Debug, Default)]
pub struct PlacementWords {
    kind: AtomicU64,
    /// Shares of the pages by medium.
    shares: [AtomicU64; MAX_MEDIA],
    /// First address, end and medium of each range; empty ranges are unused.
    ranges: [[AtomicU64; 3]; MAX_RANGES],
    /// Budget in pages, medium of the other pages, memory accesses between two placements.
    hot: [AtomicU64; 3],
    /// Pages in DRAM, if hot pages are placed.
    pub in_dram: AtomicU64,
    /// Memory accesses that were examined to place hot pages.
    pub accesses: AtomicU64,
    /// Pages that were moved between media.
    pub moved: AtomicU64,
}

impl PlacementWords {
    /// Writes a placement.
    pub fn set(&self, placement: &Placement) {
        let store = |word: &AtomicU64, value: u64| word.store(value, Relaxed);
        match placement {
            placement if placement.is_local() => store(&self.kind, LOCAL),
            Placement::Share(shares) => {
                for (word, share) in self.shares.iter().zip(shares) {
                    store(word, (share.clamp(0.0, 1.0) * WHOLE).round() as u64);
                }
                store(&self.kind, SHARE);
            }
            Placement::Ranges(ranges) => {
                for (words, range) in self.ranges.iter().zip(ranges) {
                    let values = [range.from, range.to, range.medium.index() as u64];
                    words.iter().zip(values).for_each(|(word, value)| store(word, value));
                }
                store(&self.kind, RANGES);
            }
            Placement::Hot(hot) => {
                let values = [hot.pages, hot.rest.index() as u64, hot.interval];
                self.hot.iter().zip(values).for_each(|(word, value)| store(word, value));
                store(&self.kind, HOT);
            }
        }
    }

    /// Returns the placement as written; `None` if everything lies in local DRAM, or if the words
    /// are invalid.
    #[must_use]
    pub fn get(&self) -> Option<Placement> {
        let load = |word: &AtomicU64| word.load(Relaxed);
        let medium = |number: u64| MediumId::new(usize::try_from(number).ok()?);
        match load(&self.kind) {
            SHARE => {
                let shares = std::array::from_fn(|m| load(&self.shares[m]) as f64 / WHOLE);
                Some(Placement::Share(shares))
            }
            RANGES => {
                let ranges = self.ranges.iter().filter_map(|[from, to, number]| {
                    let (from, to) = (load(from), load(to));
                    Some(AddressRange { from, to, medium: medium(load(number))? })
                        .filter(|_| from < to)
                });
                Some(Placement::Ranges(ranges.collect()))
            }
            HOT => {
                let [pages, rest, interval] = [0, 1, 2].map(|n| load(&self.hot[n]));
                let sane = (1..=MAX_HOT_PAGES).contains(&pages) && interval > 0;
                let rest = medium(rest)?;
                sane.then_some(Placement::Hot(HotPages { pages, rest, interval }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn placement() -> impl Strategy<Value = Placement> {
        let range = (0_u64..1 << 47, 1_u64..1 << 30, 0_usize..MAX_MEDIA)
            .prop_map(|(from, n, m)| AddressRange { from, to: from + n, medium: MediumId::ALL[m] });
        prop_oneof![
            // Shares that a unit of 2^-32 holds exactly.
            (0_u32..=16, 0_u32..=16).prop_map(|(a, b)| {
                let (a, b) = (f64::from(a) / 64.0, f64::from(b) / 64.0);
                Placement::Share([1.0 - a - b, a, b, 0.0])
            }),
            prop::collection::vec(range, 0..=MAX_RANGES).prop_map(Placement::Ranges),
            (1..=MAX_HOT_PAGES, 1_u64..1 << 40).prop_map(|(pages, interval)| {
                Placement::Hot(HotPages { pages, rest: MediumId::ALL[2], interval })
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(placement in placement()) {
            let words = PlacementWords::default();
            words.set(&placement);
            let expected = (!placement.is_local()).then_some(placement);
            prop_assert_eq!(words.get(), expected);
        }

        #[test]
        fn nonsense_is_no_placement_or_a_harmless_one(
            kind in 0_u64..5,
            values in prop::array::uniform4(any::<u64>()),
        ) {
            let words = PlacementWords::default();
            words.kind.store(kind, Relaxed);
            for (word, value) in words.hot.iter().chain(&words.ranges[3]).zip(values) {
                word.store(value, Relaxed);
            }
            if let Some(Placement::Hot(hot)) = words.get() {
                prop_assert!(hot.interval > 0 && hot.pages <= MAX_HOT_PAGES);
            }
        }
    }
}
