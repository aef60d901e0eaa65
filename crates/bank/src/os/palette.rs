//! Colors of a zone's pages: by bank, by cache set, by both, or a single color (B4).

use memweir_core::address_map::{Color, ColorSet, Coloring, Span};
use memweir_core::input::Refusal;

/// Coloring of a zone's pages. Address bits that choose both bank and cache set (13 to 15 on the
/// paper's machine, section 3.2) contribute to the color once, not twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Palette {
    whole: Coloring,
    bank: Coloring,
    cache: Coloring,
}

impl Palette {
    /// Creates a palette with a single color, as of a kernel without coloring. `page_bits` is the
    /// number of bits of the offset within a page.
    #[must_use]
    pub fn plain(page_bits: u32) -> Self {
        let none = Coloring::of_span(&Span::default(), page_bits, 0);
        Self { whole: none.clone(), bank: none.clone(), cache: none }
    }

    /// Creates a palette of bank colors: each page has a color of `bank`.
    #[must_use]
    pub fn banks(bank: &Coloring) -> Self {
        let cache = Coloring::of_span(&Span::default(), bank.page_bits(), 0);
        Self { whole: bank.clone(), bank: bank.clone(), cache }
    }

    /// Creates a palette of cache colors: each page has a color of `cache`.
    #[must_use]
    pub fn caches(cache: &Coloring) -> Self {
        let bank = Coloring::of_span(&Span::default(), cache.page_bits(), 0);
        Self { whole: cache.clone(), bank, cache: cache.clone() }
    }

    /// Creates a palette of bank and cache colors: two pages have the same color exactly if both
    /// agree.
    ///
    /// # Errors
    /// If the two are of different page sizes, or of address maps with different offsets.
    pub fn both(bank: &Coloring, cache: &Coloring) -> Result<Self, Refusal> {
        if bank.page_bits() != cache.page_bits() || bank.offset() != cache.offset() {
            return Err(Refusal::new(
                "bank and cache colors are of different pages",
                "color banks and cache for one page size, with an address map without offset",
            ));
        }
        let functions = bank.span().basis().iter().chain(cache.span().basis()).copied();
        let whole = Coloring::of_span(&Span::new(functions), bank.page_bits(), bank.offset());
        Ok(Self { whole, bank: bank.clone(), cache: cache.clone() })
    }

    /// Returns the coloring that the allocator uses.
    #[must_use]
    pub fn coloring(&self) -> &Coloring {
        &self.whole
    }

    /// Returns the number of distinct colors.
    #[must_use]
    pub fn colors(&self) -> u32 {
        self.whole.colors()
    }

    /// Returns the bits of the offset within a page.
    #[must_use]
    pub fn page_bits(&self) -> u32 {
        self.whole.page_bits()
    }

    /// Returns the colors whose bank color is in `banks` and whose cache color is in `caches`;
    /// `None` stands for all bank or all cache colors. The result is empty if the two contradict
    /// each other in the bits that they share.
    #[must_use]
    pub fn allow(&self, banks: Option<&ColorSet>, caches: Option<&ColorSet>) -> ColorSet {
        let within = |set: Option<&ColorSet>, part: &Coloring, color: Color| {
            set.is_none_or(|set| set.contains(self.whole.part(color, part)))
        };
        let fits = |color: &Color| {
            within(banks, &self.bank, *color) && within(caches, &self.cache, *color)
        };
        (0..self.colors()).map(Color).filter(fits).collect()
    }

    /// Refuses a set of colors that no page can have.
    pub(super) fn check(&self, colors: &ColorSet) -> Result<(), Refusal> {
        if colors.is_empty() {
            return Err(Refusal::new("no color is allowed", "allow at least one"));
        }
        colors.within(self.colors())
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::PhysAddr;
    use memweir_core::address_map::XorFunction;
    use proptest::prelude::*;

    use super::*;

    fn coloring(functions: &[&[u8]]) -> Coloring {
        let span = functions.iter().map(|bits| XorFunction::of_bits(bits)).collect();
        Coloring::of_span(&span, 12, 0)
    }

    #[test]
    fn the_machine_of_the_paper_has_32_bank_colors_of_which_8_are_cache_colors() {
        let banks = coloring(&[&[13], &[14], &[15], &[21], &[22]]);
        let caches = coloring(&[&[13], &[14], &[15]]);
        let palette = Palette::both(&banks, &caches).unwrap();
        assert_eq!(palette.colors(), 32);
        let of_cache = palette.allow(None, Some(&"0".parse().unwrap()));
        assert_eq!(of_cache.to_string(), "0,8,16,24");
        let of_bank = palette.allow(Some(&"0-7".parse().unwrap()), None);
        assert_eq!(of_bank.to_string(), "0-7");
        let both = palette.allow(Some(&"0-7".parse().unwrap()), Some(&"0-1".parse().unwrap()));
        assert_eq!(both.to_string(), "0-1");
        let at_odds = palette.allow(Some(&"0".parse().unwrap()), Some(&"1".parse().unwrap()));
        assert!(at_odds.is_empty());
    }

    #[test]
    fn a_kernel_without_colors_has_one() {
        assert_eq!(Palette::plain(12).colors(), 1);
        assert_eq!(Palette::plain(12).allow(None, None).to_string(), "0");
    }

    #[test]
    fn colors_of_different_pages_are_refused() {
        let small = coloring(&[&[13]]);
        let large = Coloring::of_span(&Span::new([XorFunction(1 << 22)]), 21, 0);
        assert!(Palette::both(&small, &large).is_err());
    }

    proptest! {
        #[test]
        fn parts_agree_with_what_they_are_parts_of(
            banks in prop::collection::vec(0u64..1 << 24, 0..6),
            caches in prop::collection::vec(0u64..1 << 24, 0..6),
            address in 0u64..1 << 24,
        ) {
            let color = |masks: &[u64]| {
                let span = masks.iter().copied().map(XorFunction).collect();
                Coloring::of_span(&span, 12, 0)
            };
            let (banks, caches) = (color(&banks), color(&caches));
            let palette = Palette::both(&banks, &caches).unwrap();
            let whole = palette.coloring().color_of(PhysAddr(address));
            for part in [banks, caches] {
                prop_assert_eq!(palette.whole.part(whole, &part), part.color_of(PhysAddr(address)));
            }
        }
    }
}
