//! Colors of page frames.

use memweir_abi::preload::Order;

use crate::color::choice::{Set, has};
use crate::uffd::PAGE;

/// Bank functions that can be distinguished: those of 4096 colors.
const MASKS: usize = 12;
/// Largest number of bank colors.
pub(crate) const COLORS: usize = 1 << MASKS;

/// Computes colors without touching memory outside itself.
#[derive(Clone, Copy)]
pub(crate) struct Palette {
    offset: u64,
    bank: [u64; MASKS],
    banks: usize,
    cache: [u64; 32],
    caches: usize,
    /// Permitted cache colors, if they matter.
    cache_set: Option<[u64; 64]>,
}

fn value(masks: &[u64], address: u64) -> usize {
    let bit = |(i, mask): (usize, &u64)| (((mask & address).count_ones() & 1) as usize) << i;
    masks.iter().enumerate().map(bit).sum()
}

impl Palette {
    /// Returns the palette of `order`; `None` if there are too many colors.
    pub(crate) fn of(order: &Order) -> Option<Self> {
        let mut palette = Self {
            offset: order.coloring.offset(),
            bank: [0; MASKS],
            banks: order.coloring.span().dimension(),
            cache: [0; 32],
            caches: order.cache.as_ref().map_or(0, |(coloring, _)| coloring.span().dimension()),
            cache_set: None,
        };
        let basis = order.coloring.span().basis();
        let masks = palette.bank.get_mut(..basis.len())?;
        masks.iter_mut().zip(basis).for_each(|(mask, function)| *mask = function.0);
        if let Some((coloring, colors)) = &order.cache {
            let basis = coloring.span().basis();
            let masks = palette.cache.get_mut(..basis.len())?;
            masks.iter_mut().zip(basis).for_each(|(mask, function)| *mask = function.0);
            let mut set = [0; 64];
            for color in colors.iter() {
                *set.get_mut(color.0 as usize / 64)? |= 1 << (color.0 % 64);
            }
            palette.cache_set = Some(set);
        }
        Some(palette)
    }

    /// Returns true if a frame has a color of the set.
    pub(crate) fn is_of(&self, frame: u64, set: &Set) -> bool {
        self.color(frame).is_some_and(|color| has(set, color))
    }

    /// Returns the bank color of a frame; `None` if its cache color is not permitted.
    pub(crate) fn color(&self, frame: u64) -> Option<usize> {
        let address = frame * PAGE as u64;
        if let Some(set) = &self.cache_set {
            let color = value(&self.cache[..self.caches], address);
            if set.get(color / 64).is_none_or(|word| word >> (color % 64) & 1 == 0) {
                return None;
            }
        }
        Some(self.bank_color(frame))
    }

    /// Returns the bank color of a frame, for any cache color.
    pub(crate) fn bank_color(&self, frame: u64) -> usize {
        let address = frame * PAGE as u64;
        value(&self.bank[..self.banks], address.wrapping_sub(self.offset))
    }
}
