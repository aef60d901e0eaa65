//! A map as the kernel takes it: one line for each function of bank and cache colors, as a mask.

use std::fmt;
use std::str::FromStr;

use memweir_core::address_map::{AddressMap, BASE_PAGE_BITS, Coloring};
use memweir_core::cache::CacheGeometry;
use memweir_core::input::Refusal;

use crate::plan::strict;

/// Most functions of both kinds together that a kernel takes.
const MOST: usize = 12;
/// The largest block of its page allocator, which an offset must keep whole: 4 MiB.
const BLOCK: u64 = 4 << 20;

/// The kernel's form of a map. Bit `i` of a bank color is the value of the `i`th function, as in a
/// [`Coloring`]; written and read as the kernel does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelForm {
    offset: u64,
    banks: Vec<u64>,
    caches: Vec<u64>,
}

impl KernelForm {
    /// Returns the kernel's form of `map`, and of the cache if its colors are to be chosen, too.
    ///
    /// # Errors
    /// Refuses maps of which no functions of bits color pages of 4 KiB, and those that have more
    /// functions or another offset than kernels can take.
    pub fn of(map: &AddressMap, cache: Option<&CacheGeometry>) -> Result<Self, Refusal> {
        let caches = cache.map(|cache| Coloring::of_cache(cache, BASE_PAGE_BITS));
        Self::of_colorings(&strict(map)?, caches.as_ref())
    }

    /// The same for known colorings.
    ///
    /// # Errors
    /// Refuses more functions and another offset than kernels can take.
    pub(super) fn of_colorings(
        banks: &Coloring,
        caches: Option<&Coloring>,
    ) -> Result<Self, Refusal> {
        let masks = |coloring: &Coloring| -> Vec<u64> {
            coloring.span().basis().iter().map(|function| function.0).collect()
        };
        let form = Self {
            offset: banks.offset(),
            banks: masks(banks),
            caches: caches.map(masks).unwrap_or_default(),
        };
        let functions = form.banks.len() + form.caches.len();
        if functions > MOST {
            return Err(Refusal::new(
                format!("{functions} functions are more than the {MOST} that kernels take"),
                "leave the cache out, or functions of the map",
            ));
        }
        if !form.offset.is_multiple_of(BLOCK) {
            return Err(Refusal::new(
                format!("kernels take no offset of {:#x}", form.offset),
                "it must be a multiple of 4 MiB; `memweir color run` without --kernel takes any",
            ));
        }
        Ok(form)
    }

    /// Returns true if a kernel with this form can be used as if it had `wanted`.
    #[must_use]
    pub fn serves(&self, wanted: &Self) -> bool {
        let caches = wanted.caches.is_empty() || self.caches == wanted.caches;
        self.offset == wanted.offset && self.banks == wanted.banks && caches
    }
}

impl fmt::Display for KernelForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "offset {:#x}", self.offset)?;
        self.banks.iter().try_for_each(|mask| writeln!(f, "bank {mask:#x}"))?;
        self.caches.iter().try_for_each(|mask| writeln!(f, "cache {mask:#x}"))
    }
}

impl FromStr for KernelForm {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let mut form = Self::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let wrong = || {
                Refusal::new(
                    format!("`{line}` is no line of a kernel's map"),
                    "lines are `offset`, `bank` or `cache` and a number like 0x2000",
                )
            };
            let (kind, number) = line.trim().split_once(' ').ok_or_else(wrong)?;
            let digits = number.strip_prefix("0x").unwrap_or(number);
            let value = u64::from_str_radix(digits, 16).map_err(|_| wrong())?;
            match kind {
                "offset" => form.offset = value,
                "bank" => form.banks.push(value),
                "cache" => form.caches.push(value),
                _ => return Err(wrong()),
            }
        }
        Ok(form)
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::{Bytes, PhysAddr};
    use proptest::prelude::*;

    use super::*;

    const I7: &str = include_str!("../../../core/data/maps/i7-860.toml");

    fn i7() -> AddressMap {
        AddressMap::parse("i7-860.toml", I7).unwrap()
    }

    #[test]
    fn the_map_of_the_paper_is_five_bits() {
        let form = KernelForm::of(&i7(), None).unwrap();
        assert_eq!(
            form.to_string(),
            "offset 0x0\nbank 0x2000\nbank 0x4000\nbank 0x8000\nbank 0x200000\nbank 0x400000\n"
        );
        // 8 MiB in 16 ways of 64 bytes: bits 6 to 18 are the set, and seven of them lie above a
        // page.
        let cache = CacheGeometry::new(Bytes(8 << 20), 16);
        let both = KernelForm::of(&i7(), Some(&cache)).unwrap();
        assert_eq!(both.caches, (12..19).map(|bit| 1 << bit).collect::<Vec<u64>>());
        assert!(both.serves(&form) && !form.serves(&both));
    }

    #[test]
    fn what_kernels_cannot_take_is_refused() {
        let shifted = AddressMap { offset: 1 << 20, ..i7() };
        assert!(KernelForm::of(&shifted, None).unwrap_err().reason.contains("0x100000"));
        let large = CacheGeometry::new(Bytes(64 << 20), 1);
        assert!(
            KernelForm::of(&i7(), Some(&large)).unwrap_err().reason.contains("more than the 12")
        );
        let plain = AddressMap { functions: Vec::new(), row: Vec::new(), ..i7() };
        assert!(KernelForm::of(&plain, None).is_err());
        for wrong in ["bank", "bank x", "bank 0xg", "row 0x2000", "bank0x2000"] {
            assert!(wrong.parse::<KernelForm>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn colors_are_numbered_as_in_a_coloring() {
        let (form, coloring) =
            (KernelForm::of(&i7(), None).unwrap(), i7().coloring(BASE_PAGE_BITS));
        for page in 0..4096u64 {
            let address = page << BASE_PAGE_BITS;
            let bit = |mask: &u64| (address & mask).count_ones() & 1;
            let bits = form.banks.iter().enumerate().map(|(place, mask)| bit(mask) << place);
            assert_eq!(bits.sum::<u32>(), coloring.color_of(PhysAddr(address)).0);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(offset: u64, banks: Vec<u64>, caches: Vec<u64>) {
            let form = KernelForm { offset, banks, caches };
            prop_assert_eq!(form.to_string().parse::<KernelForm>().unwrap(), form);
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = text.parse::<KernelForm>();
        }
    }
}
