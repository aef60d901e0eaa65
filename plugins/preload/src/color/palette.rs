//! Colors of page frames.

use memweir_abi::preload::Order;
use memweir_core::address_map::Coloring;

use crate::color::choice::{Set, has, words_of};
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
    cache_set: Option<Set>,
}

fn value(masks: &[u64], address: u64) -> usize {
    let bit = |(i, mask): (usize, &u64)| (((mask & address).count_ones() & 1) as usize) << i;
    masks.iter().enumerate().map(bit).sum()
}

/// Writes the functions of the coloring to `masks`; returns their number, or `None` if there is no
/// room for them.
fn write_functions(coloring: &Coloring, masks: &mut [u64]) -> Option<usize> {
    let basis = coloring.span().basis();
    let masks = masks.get_mut(..basis.len())?;
    masks.iter_mut().zip(basis).for_each(|(mask, function)| *mask = function.0);
    Some(basis.len())
}

impl Palette {
    /// Returns the palette of `order`; `None` if there are too many colors.
    pub(crate) fn of(order: &Order) -> Option<Self> {
        let (mut bank, mut cache) = ([0; MASKS], [0; 32]);
        let banks = write_functions(&order.coloring, &mut bank)?;
        let (mut caches, mut cache_set) = (0, None);
        if let Some((coloring, colors)) = &order.cache {
            caches = write_functions(coloring, &mut cache)?;
            cache_set = Some(words_of(colors)?);
        }
        Some(Self { offset: order.coloring.offset(), bank, banks, cache, caches, cache_set })
    }

    /// Returns true if a frame has a color of the set.
    pub(crate) fn is_of(&self, frame: u64, set: &Set) -> bool {
        self.color_in(frame, set).is_some()
    }

    /// Returns the color of a frame if the set has it.
    pub(crate) fn color_in(&self, frame: u64, set: &Set) -> Option<usize> {
        self.color(frame).filter(|color| has(set, *color))
    }

    /// Returns the bank color of a frame; `None` if its cache color is not permitted, or if it lies
    /// below the offset, where the map says nothing.
    pub(crate) fn color(&self, frame: u64) -> Option<usize> {
        let address = frame * PAGE as u64;
        if address < self.offset {
            return None;
        }
        if let Some(set) = &self.cache_set
            && !has(set, value(&self.cache[..self.caches], address))
        {
            return None;
        }
        Some(self.bank_color(frame))
    }

    /// Returns the bank color of a frame, for any cache color.
    pub(crate) fn bank_color(&self, frame: u64) -> usize {
        let address = frame * PAGE as u64;
        value(&self.bank[..self.banks], address.wrapping_sub(self.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_below_the_offset_have_no_color() {
        let order = "offset=3000;bank=1000,2000;colors=0-3;shortage=spill;delivery=move;pool=0;\
                     limit=0;counters=";
        let palette = Palette::of(&order.parse().unwrap()).unwrap();
        let colors = [2, 3, 4, 5, 6, 7].map(|frame| palette.color(frame));
        assert_eq!(colors, [None, Some(0), Some(1), Some(2), Some(3), Some(0)]);
    }
}
