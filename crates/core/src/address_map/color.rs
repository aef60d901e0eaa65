//! Page colors: the part of a page's banks, or cache sets, that its address decides.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::gf2::{Span, XorFunction};
use crate::cache::CacheGeometry;
use crate::input::Refusal;
use crate::units::PhysAddr;

/// The number of a color, below [`Coloring::colors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Color(pub u32);

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A coloring of pages: functions of the address that are constant over a page (*strict* colors).
/// Pages of different bank colors share no bank; pages of different cache colors share no set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coloring {
    page_bits: u32,
    offset: u64,
    span: Span,
}

impl Coloring {
    /// Returns the coloring by the functions of `span` that are constant over a page of
    /// `1 << page_bits` bytes. `offset` is subtracted from an address first.
    #[must_use]
    pub fn of_span(span: &Span, page_bits: u32, offset: u64) -> Self {
        Self { page_bits, offset, span: span.above(page_bits) }
    }

    /// Returns cache colors (bpm section 3.2): the set index of a physically indexed cache without
    /// a hash. If the number of sets is not a power of two, only the bits of its largest
    /// power-of-two divisor count.
    #[must_use]
    pub fn of_cache(cache: &CacheGeometry, page_bits: u32) -> Self {
        let line_bits = cache.line.trailing_zeros();
        let bits = line_bits..line_bits + cache.sets().trailing_zeros();
        let span = bits.map(|bit| XorFunction(1 << bit)).collect();
        Self::of_span(&span, page_bits, 0)
    }

    /// Returns the number of colors, a power of two; 1 if the pages cannot be distinguished.
    #[must_use]
    pub fn colors(&self) -> u32 {
        1 << self.span.dimension()
    }

    /// Returns the bits of the offset within a page.
    #[must_use]
    pub fn page_bits(&self) -> u32 {
        self.page_bits
    }

    /// Returns the offset that is subtracted from an address first.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the functions: bit `i` of a color is the value of function `i`.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Converts a page's color under this coloring to its color under `part`, all of whose
    /// functions are sums of functions of this coloring.
    #[must_use]
    pub fn part(&self, color: Color, part: &Self) -> Color {
        // The lowest bits of the basis functions show which of them add up to a function of `part`:
        // each is in no other.
        let bit = |function: XorFunction| {
            let members = self.span.basis().iter().enumerate();
            let members = members.filter(|(_, member)| function.0 >> member.lowest() & 1 == 1);
            members.fold(0, |sum, (place, _)| sum ^ (color.0 >> place & 1))
        };
        let functions = part.span.basis().iter().enumerate();
        Color(functions.map(|(place, function)| bit(*function) << place).sum())
    }

    /// Returns the color of the page that holds `address`.
    #[must_use]
    pub fn color_of(&self, address: PhysAddr) -> Color {
        let address = address.0.wrapping_sub(self.offset);
        let bit = |(i, function): (usize, &XorFunction)| (function.value(address) as u32) << i;
        Color(self.span.basis().iter().enumerate().map(bit).sum())
    }
}

/// Colors that a program may use, in ascending order. Written `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColorSet(BTreeSet<Color>);

impl ColorSet {
    /// Returns the set of the first `colors` colors.
    #[must_use]
    pub fn all(colors: u32) -> Self {
        (0..colors).map(Color).collect()
    }

    /// Returns true if `color` is in the set.
    #[must_use]
    pub fn contains(&self, color: Color) -> bool {
        self.0.contains(&color)
    }

    /// Returns the number of colors in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the colors in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Color> {
        self.0.iter().copied()
    }

    /// Refuses colors that a coloring with `colors` colors does not have.
    ///
    /// # Errors
    /// Names the first such color.
    pub fn within(&self, colors: u32) -> Result<(), Refusal> {
        match self.iter().find(|color| color.0 >= colors) {
            None => Ok(()),
            Some(color) if colors == 1 => Err(Refusal::new(
                format!("color {color} is outside the map: it allows one color only"),
                "with one color nothing can be kept apart; see `memweir map show` for larger or smaller pages",
            )),
            Some(color) => Err(Refusal::new(
                format!("color {color} is outside the map"),
                format!("the map allows colors 0 to {}", colors - 1),
            )),
        }
    }
}

impl FromIterator<Color> for ColorSet {
    fn from_iter<I: IntoIterator<Item = Color>>(colors: I) -> Self {
        Self(colors.into_iter().collect())
    }
}

/// Upper limit of colors: enough for every map in use, and a bound on the effect of a mistyped
/// range.
pub const MAX_COLORS: u32 = 1 << 16;

impl FromStr for ColorSet {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let refuse = |part: &str| {
            Refusal::new(
                format!("`{part}` is no color or range of colors"),
                "write colors as `0-3,8`",
            )
        };
        let mut colors = BTreeSet::new();
        for part in text.split(',') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| {
                text.trim()
                    .parse::<u32>()
                    .ok()
                    .filter(|n| *n < MAX_COLORS)
                    .ok_or_else(|| refuse(part))
            };
            let (from, to) = (number(from)?, number(to)?);
            if from > to {
                return Err(refuse(part));
            }
            colors.extend((from..=to).map(Color));
        }
        Ok(Self(colors))
    }
}

impl fmt::Display for ColorSet {
    /// `0-3,8`; empty for no color.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for Color(color) in self.iter() {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == color => *last = color,
                _ => runs.push((color, color)),
            }
        }
        let run = |(from, to): &(u32, u32)| match to - from {
            0 => from.to_string(),
            _ => format!("{from}-{to}"),
        };
        f.write_str(&runs.iter().map(run).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::Bytes;

    fn i7_860() -> Span {
        [13, 14, 15, 21, 22].into_iter().map(|bit| XorFunction(1 << bit)).collect()
    }

    #[test]
    fn colors_of_the_machine_of_the_paper() {
        let banks = Coloring::of_span(&i7_860(), 12, 0);
        assert_eq!(banks.colors(), 32);
        assert_eq!(Coloring::of_span(&i7_860(), 16, 0).colors(), 4);
        assert_eq!(banks.color_of(PhysAddr(1 << 14 | 1 << 22 | 0xfff)), Color(0b10010));
        assert_eq!(Coloring::of_span(&i7_860(), 12, 1 << 13).color_of(PhysAddr(1 << 13)), Color(0));
    }

    #[test]
    fn cache_colors_are_the_set_bits_of_a_page_number() {
        // 8 MiB, 16 ways: 8192 sets, bits 6 to 18.
        let llc = CacheGeometry::new(Bytes(8 << 20), 16);
        let colors = Coloring::of_cache(&llc, 12);
        assert_eq!(colors.colors(), 128);
        assert_eq!(colors.span().intersection(&i7_860()).dimension(), 3);
    }

    #[test]
    fn refuses_what_is_no_set_of_colors() {
        for text in ["", "x", "3-1", "1,,2", "0-99999999", "-1"] {
            assert!(text.parse::<ColorSet>().is_err(), "{text}");
        }
        let set = "0-3,9".parse::<ColorSet>().unwrap();
        assert_eq!(set.within(9).unwrap_err().reason, "color 9 is outside the map");
        assert_eq!(set.within(10), Ok(()));
        let one = set.within(1).unwrap_err();
        assert_eq!(one.reason, "color 1 is outside the map: it allows one color only");
        assert!("0-65535".parse::<ColorSet>().is_ok() && "65536".parse::<ColorSet>().is_err());
    }

    #[test]
    fn sets_are_written_as_runs() {
        let set: ColorSet = [8, 0, 2, 1, 3, 5].into_iter().map(Color).collect();
        assert_eq!((set.to_string().as_str(), set.len()), ("0-3,5,8", 6));
        assert!(set.contains(Color(5)) && !set.contains(Color(4)) && !set.is_empty());
        assert_eq!(ColorSet::all(3).to_string(), "0-2");
        assert!(ColorSet::all(0).is_empty());
    }

    #[test]
    fn a_part_of_a_color_is_the_color_under_sums_of_its_functions() {
        // Bit 0 of a color is 13, bit 1 is 14, and so on to 22; the part is 14 and 13^15.
        let banks = Coloring::of_span(&i7_860(), 12, 0);
        let functions: Span = [1 << 14, 1 << 13 | 1 << 15].into_iter().map(XorFunction).collect();
        let part = Coloring::of_span(&functions, 12, 0);
        for page in 0..1 << 11 {
            let address = PhysAddr(page << 12);
            assert_eq!(banks.part(banks.color_of(address), &part), part.color_of(address));
        }
        assert_eq!((banks.page_bits(), banks.offset()), (12, 0));
    }

    proptest! {
        #[test]
        fn color_sets_read_what_they_write(colors in prop::collection::btree_set(0u32..64, 1..20)) {
            let set: ColorSet = colors.into_iter().map(Color).collect();
            prop_assert_eq!(set.to_string().parse::<ColorSet>().unwrap(), set);
        }
    }
}
