//! Share of a program's traffic that goes to each memory, from the placement of its pages (H8): by
//! share, by address range, or hot pages in DRAM by sampled counts.
//!
//! The pages are a small model: a number of pages, accessed by a Zipf distribution. The popularity
//! of a page is independent of its address. Migration of pages at run time is not part of this
//! module.

use memweir_core::{Bytes, MAX_MEDIA, PAGE};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::task::Placement;

/// Most pages that the model distinguishes: above, it groups neighbors in popularity.
const MOST_PAGES: u64 = 1 << 20;

/// Distribution of a program's accesses over its pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Popularity {
    /// Memory that it uses.
    pub footprint: Bytes,
    /// Exponent of the Zipf distribution of reads over the pages: the page of rank `k` gets a
    /// share in proportion to `1 / k^hotness`. Zero is uniform.
    pub read_hotness: f64,
    /// Exponent of the distribution of writes, over the same ranks.
    pub write_hotness: f64,
    /// Seed of the pages' popularity and of the samples.
    pub seed: u64,
}

/// Rule that selects the pages in DRAM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PagePolicy {
    /// This share of the traffic goes to DRAM, regardless of the pages: from 0 to 1.
    Share(f64),
    /// The lowest addresses, as many as fit into this much DRAM.
    AddressRange(Bytes),
    /// The pages with the most sampled accesses, as many as fit into `dram`.
    HotPages {
        /// DRAM for this program.
        dram: Bytes,
        /// Accesses that are sampled; `None` uses the true popularity.
        samples: Option<u64>,
    },
}

impl Popularity {
    /// Returns the placement under a policy: pages that are not in DRAM, the first memory, are in
    /// `other`.
    ///
    /// # Panics
    /// If `other` is the first memory or not a possible memory.
    #[must_use]
    pub fn placement(&self, policy: PagePolicy, other: usize) -> Placement {
        assert!((1..MAX_MEDIA).contains(&other), "there is no other memory {other}");
        let (reads, writes) = match policy {
            PagePolicy::Share(share) => (share.clamp(0.0, 1.0), share.clamp(0.0, 1.0)),
            PagePolicy::AddressRange(dram) => self.covered(&self.shuffled(), dram),
            PagePolicy::HotPages { dram, samples } => {
                let order = match samples {
                    None => (0..self.groups()).collect(),
                    Some(samples) => self.by_samples(samples),
                };
                self.covered(&order, dram)
            }
        };
        let shares = |dram: f64| {
            let mut shares = [0.0; MAX_MEDIA];
            (shares[0], shares[other]) = (dram, 1.0 - dram);
            shares
        };
        Placement { reads: shares(reads), writes: shares(writes) }
    }

    /// Returns the share of accesses of this hotness that goes to each of `parts` equal parts of
    /// the memory, the most popular part first.
    #[must_use]
    pub fn shares(&self, hotness: f64, parts: usize) -> Vec<f64> {
        let (groups, mut all) = (self.groups(), 0.0);
        let mut shares = vec![0.0; parts];
        for (rank, weight) in weights(hotness, groups).enumerate() {
            all += weight;
            if let Some(share) = shares.get_mut(rank * parts / groups) {
                *share += weight;
            }
        }
        shares.iter().map(|share| share / all).collect()
    }

    /// Number of pages, or of groups of pages if there are too many.
    fn groups(&self) -> usize {
        self.footprint.0.div_ceil(PAGE.0).clamp(1, MOST_PAGES) as usize
    }

    /// Returns the ranks in the order of the addresses.
    fn shuffled(&self) -> Vec<usize> {
        let mut ranks: Vec<usize> = (0..self.groups()).collect();
        ranks.shuffle(&mut ChaCha8Rng::seed_from_u64(self.seed));
        ranks
    }

    /// Returns the ranks by sampled accesses, the most first; ties in the order of the addresses.
    fn by_samples(&self, samples: u64) -> Vec<usize> {
        let mut order = self.shuffled();
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(1);
        let mut counts = vec![0_u64; order.len()];
        let mut sum = 0.0;
        let cumulative: Vec<f64> = weights(self.read_hotness, order.len())
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        for _ in 0..samples {
            let drawn = random.random_range(0.0..sum);
            let rank = cumulative.partition_point(|up_to| *up_to <= drawn);
            counts[rank.min(order.len() - 1)] += 1;
        }
        order.sort_by_key(|rank| std::cmp::Reverse(counts[*rank]));
        order
    }

    /// Returns the shares of the reads and of the writes that go to the first pages of `order`, as
    /// many as fit into `dram`.
    fn covered(&self, order: &[usize], dram: Bytes) -> (f64, f64) {
        let pages = u128::from(dram.0) * order.len() as u128 / u128::from(self.footprint.0.max(1));
        let fit = order.len().min(pages as usize);
        let mut inside = vec![false; order.len()];
        for rank in &order[..fit] {
            inside[*rank] = true;
        }
        let share = |hotness: f64| {
            let (mut covered, mut all) = (0.0, 0.0);
            for (weight, inside) in weights(hotness, order.len()).zip(&inside) {
                all += weight;
                covered += if *inside { weight } else { 0.0 };
            }
            covered / all
        };
        (share(self.read_hotness), share(self.write_hotness))
    }
}

/// Returns the unscaled shares of the ranks, in their order.
fn weights(hotness: f64, count: usize) -> impl Iterator<Item = f64> {
    (1..=count).map(move |rank| (rank as f64).powf(-hotness))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Four pages with accesses in proportion to 1, 1/2, 1/3, 1/4: 12, 6, 4, 3 of 25.
    fn four() -> Popularity {
        Popularity { footprint: Bytes(4 * PAGE.0), read_hotness: 1.0, write_hotness: 0.0, seed: 3 }
    }

    fn dram_share(popularity: &Popularity, policy: PagePolicy) -> (f64, f64) {
        let placement = popularity.placement(policy, 2);
        assert!((placement.reads.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(placement.reads[1], 0.0);
        (placement.reads[0], placement.writes[0])
    }

    #[test]
    fn hot_pages_by_hand() {
        let exact = |pages| PagePolicy::HotPages { dram: Bytes(pages * PAGE.0), samples: None };
        let (reads, writes) = dram_share(&four(), exact(2));
        assert!((reads - 18.0 / 25.0).abs() < 1e-12 && (writes - 0.5).abs() < 1e-12);
        assert_eq!(dram_share(&four(), exact(0)), (0.0, 0.0));
        assert_eq!(dram_share(&four(), exact(9)), (1.0, 1.0));
    }

    #[test]
    fn as_many_whole_pages_are_in_dram_as_fit() {
        let footprint = Bytes(100 * PAGE.0);
        let uniform = Popularity { footprint, read_hotness: 0.0, write_hotness: 0.0, seed: 3 };
        for pages in 0..100 {
            for (more, fit) in [(0, pages), (PAGE.0 - 1, pages), (PAGE.0, pages + 1)] {
                let dram = Bytes(pages * PAGE.0 + more);
                let (reads, _) = dram_share(&uniform, PagePolicy::AddressRange(dram));
                assert!((reads - fit as f64 / 100.0).abs() < 1e-12, "{reads} for {fit}");
            }
        }
    }

    #[test]
    fn parts_of_equal_size_have_the_shares_of_their_pages() {
        // 12 and 6 of 25, then 4 and 3.
        assert!((four().shares(1.0, 2)[0] - 18.0 / 25.0).abs() < 1e-12);
        assert_eq!(four().shares(0.0, 2), [0.5, 0.5]);
        let parts = large().shares(1.0, 64);
        assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(parts.is_sorted_by(|a, b| a >= b));
    }

    #[test]
    fn a_share_is_taken_as_it_is() {
        assert_eq!(dram_share(&four(), PagePolicy::Share(0.3)), (0.3, 0.3));
    }

    fn large() -> Popularity {
        Popularity { footprint: Bytes(64 << 20), read_hotness: 1.0, write_hotness: 1.0, seed: 5 }
    }

    #[test]
    fn samples_find_most_of_what_is_hot_and_addresses_find_none_of_it() {
        let dram = Bytes(16 << 20);
        let exact = dram_share(&large(), PagePolicy::HotPages { dram, samples: None }).0;
        let hot =
            |samples| dram_share(&large(), PagePolicy::HotPages { dram, samples: Some(samples) }).0;
        let (few, many) = (hot(1_000), hot(200_000));
        assert!(few < many && many <= exact, "{few} {many} {exact}");
        assert!(many > 0.97 * exact, "{many} of {exact}");
        // Of ranks 1 to 16,384, the first quarter: the harmonic numbers of 4,096 and 16,384.
        assert!((exact - 8.895 / 10.281).abs() < 1e-3, "{exact}");
        let range = dram_share(&large(), PagePolicy::AddressRange(dram)).0;
        assert!((0.1..0.5).contains(&range), "{range}");
    }

    proptest! {
        #[test]
        fn more_dram_never_covers_less_and_hot_pages_cover_most(
            pages in 1u64..300, hotness in 0.0..2.0_f64, seed: u64, dram in 0u64..400,
        ) {
            let popularity = Popularity {
                footprint: Bytes(pages * PAGE.0), read_hotness: hotness, write_hotness: 0.5, seed,
            };
            let bytes = |pages: u64| Bytes(pages * PAGE.0);
            let hot = |pages| PagePolicy::HotPages { dram: bytes(pages), samples: None };
            let sampled = PagePolicy::HotPages { dram: bytes(dram), samples: Some(50) };
            let exact = dram_share(&popularity, hot(dram)).0;
            prop_assert!(dram_share(&popularity, hot(dram + 1)).0 >= exact);
            prop_assert!(dram_share(&popularity, sampled).0 <= exact + 1e-12);
            prop_assert!(
                dram_share(&popularity, PagePolicy::AddressRange(bytes(dram))).0 <= exact + 1e-12
            );
        }
    }
}
