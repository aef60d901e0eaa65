//! Effects of a map on pages: banks per page, colors at each page size, and the overlap of bank
//! colors and cache colors (bpm Fig. 3). Drawing is done elsewhere.

use std::collections::BTreeSet;

use memweir_core::address_map::{AddressMap, Coloring, Interleave};
use memweir_core::cache::CacheGeometry;
use memweir_core::{Bytes, PhysAddr};
use serde::Serialize;

/// Page sizes of the views: base pages of x86 and ARM64, and a huge page.
pub const PAGES: [Bytes; 4] = [Bytes(4 << 10), Bytes(16 << 10), Bytes(64 << 10), Bytes(2 << 20)];

/// Effects of a map on pages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PageView {
    /// Size of the page in bytes.
    pub page: Bytes,
    /// Number of banks, over all channels and ranks, that hold the bytes of one page; the largest,
    /// if pages differ because the number of channels is no power of two.
    pub banks_touched: u64,
    /// Number of strict colors: classes of pages that share no bank.
    pub colors: u32,
    /// Overlap with the cache colors, if a cache was given.
    pub cache: Option<CacheView>,
}

/// Overlap of the colors of a cache with those of the banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CacheView {
    /// Number of colors of the cache.
    pub colors: u32,
    /// Number of colors that bank and cache have in common: a program that gets a bank color is
    /// thereby confined to one of this many parts of the cache.
    pub common: u32,
    /// Number of bank colors within one common color: the choices of banks in the same part of the
    /// cache.
    pub banks_apart: u32,
}

/// Returns the number of banks that the map distinguishes, over all channels and ranks.
#[must_use]
pub fn banks(map: &AddressMap) -> u64 {
    let channels = map.interleave.map_or(1, |interleave| interleave.channels);
    u64::from(channels) << map.functions.len()
}

/// Returns the effects of `map` on pages of `page` bytes, a power of two, beside `cache`.
#[must_use]
pub fn page_view(map: &AddressMap, page: Bytes, cache: Option<&CacheGeometry>) -> PageView {
    let page_bits = page.0.trailing_zeros();
    let coloring = map.coloring(page_bits);
    let cache = cache.map(|cache| cache_view(&coloring, &Coloring::of_cache(cache, page_bits)));
    PageView { page, banks_touched: banks_touched(map, page), colors: coloring.colors(), cache }
}

fn cache_view(banks: &Coloring, cache: &Coloring) -> CacheView {
    let common = banks.span().intersection(cache.span());
    CacheView {
        colors: cache.colors(),
        common: 1 << common.dimension(),
        banks_apart: banks.colors() >> common.dimension(),
    }
}

/// Returns the banks of the page that touches the most. Pages begin at any place of their channels
/// if the number of channels is no power of two.
fn banks_touched(map: &AddressMap, page: Bytes) -> u64 {
    let (channels, block) = match map.interleave {
        None => (1, page),
        Some(Interleave { channels, granule }) => (channels.into(), granule.min(page)),
    };
    let span = map.span();
    let blocks = Coloring::of_span(&span, block.0.trailing_zeros(), 0);
    let banks_of_block = (1 << span.dimension()) / u64::from(blocks.colors());
    let colors_of = |page_number: u64| {
        let start = map.offset.wrapping_add(page_number * page.0);
        let place = |address| {
            let (way, inner) = map.enter(PhysAddr(address));
            (way, blocks.color_of(PhysAddr(inner)))
        };
        let addresses = (0..page.0 / block.0).map(|number| start.wrapping_add(number * block.0));
        addresses.map(place).collect::<BTreeSet<_>>().len() as u64
    };
    // Places in the channels repeat after as many pages.
    banks_of_block * (0..channels).map(colors_of).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::tests::map;

    fn counts(map: &AddressMap) -> Vec<(u64, u32)> {
        let view = |page: &Bytes| page_view(map, *page, None);
        PAGES.iter().map(view).map(|view| (view.banks_touched, view.colors)).collect()
    }

    #[test]
    fn colors_of_published_maps() {
        // The table of the colors in the manual has these rows.
        let i7_860 = map(&[&[13], &[14], &[15], &[21], &[22]], &[], 34);
        assert_eq!(counts(&i7_860), [(1, 32), (2, 16), (8, 4), (8, 4)]);
        let zen_3 =
            map(&[&[11, 20, 24], &[10, 19, 23, 27], &[9, 18, 22, 26], &[8, 17, 21, 25]], &[], 34);
        assert_eq!(counts(&zen_3), [(16, 1), (16, 1), (16, 1), (16, 1)]);
        let coffee_lake = map(&[&[16, 19], &[15, 18], &[14, 17], &[6, 13]], &[], 34);
        assert_eq!(counts(&coffee_lake)[0], (2, 8));
    }

    #[test]
    fn the_cache_of_the_paper_shares_three_bits_with_its_banks() {
        // bpm Fig. 3 counts bits 13 to 15 as the cache's; in a cache of 8 MiB with 16 ways they are
        // three of seven, and the common ones.
        let i7_860 = map(&[&[13], &[14], &[15], &[21], &[22]], &[], 34);
        let llc = CacheGeometry::new(Bytes(8 << 20), 16);
        let view = page_view(&i7_860, PAGES[0], Some(&llc)).cache.unwrap();
        assert_eq!(view, CacheView { colors: 128, common: 8, banks_apart: 4 });
    }

    #[test]
    fn a_page_over_three_channels_touches_banks_of_each() {
        let interleave = Some(Interleave { channels: 3, granule: Bytes(256) });
        let three = AddressMap { interleave, ..map(&[&[8], &[20]], &[], 34) };
        assert_eq!(banks(&three), 12);
        // 16 blocks of 256 bytes: six at most in one channel, so bit 8 varies.
        assert_eq!(page_view(&three, PAGES[0], None).banks_touched, 6);
        assert_eq!(page_view(&three, PAGES[0], None).colors, 1);
    }

    #[test]
    fn a_page_between_two_banks_of_its_channels_touches_both() {
        let interleave = Some(Interleave { channels: 3, granule: Bytes(256) });
        let three = AddressMap { interleave, ..map(&[&[11], &[13]], &[], 34) };
        let touched = PAGES.map(|page| page_view(&three, page, None).banks_touched);
        // A channel has bytes 1536 to 2560 of the second page of 4 KiB, where bit 11 changes, and
        // of the second page of 16 KiB those around 8 KiB, where bit 13 changes, too.
        assert_eq!(touched, [6, 12, 12, 12]);
        // Of the first page it has the first 1536 bytes at most, in one bank.
        let coarse = Interleave { channels: 3, granule: Bytes(4096) };
        let whole = AddressMap { interleave: Some(coarse), ..three };
        assert_eq!(page_view(&whole, PAGES[0], None).banks_touched, 2);
    }
}
