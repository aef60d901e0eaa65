//! A buddy allocator whose free lists are split by color (bpm section 3.4).
//!
//! A block of order `k` is `2^k` pages, naturally aligned. The paper keeps one free list per order
//! and color. The pages of a large block have many colors, so this allocator files a block under
//! the part of the color that its pages share. An order thus has one list for each set of colors
//! that its blocks can have: one list per color for single pages, one list for blocks that hold all
//! colors. A request for a color looks at one list per order and splits the block that it finds,
//! keeping the halves that have the color and filing the others.

use memweir_core::PhysAddr;
use memweir_core::address_map::{Color, Coloring};

/// The largest order, as in the paper: orders 0 to 11.
pub const MAX_ORDER: u32 = 11;

/// Number of a page in its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame(pub u32);

/// No frame: marks the end of a list.
const NONE: u32 = u32::MAX;

/// State of a page that is not the first of a free block.
const USED: u8 = u8::MAX;

/// The free pages of a zone.
#[derive(Clone, Debug)]
pub struct Buddy {
    base: u64,
    coloring: Coloring,
    /// For each order, the number of low color bits that vary within a block: the bits of functions
    /// that change within it.
    varying: [u32; MAX_ORDER as usize + 1],
    /// For each order, the first block of each list.
    lists: Vec<Vec<u32>>,
    /// For the first page of each free block, its neighbors in the list.
    links: Vec<Links>,
    /// Order of the free block that begins with this page, or [`USED`].
    state: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Links {
    before: u32,
    after: u32,
}

impl Buddy {
    /// Creates an allocator of `frames` pages, the first at `base`, none of which is free. `base`
    /// and the offset of the coloring's addresses are aligned to the largest block.
    #[must_use]
    pub fn new(base: PhysAddr, frames: u32, coloring: &Coloring) -> Self {
        let page_bits = coloring.page_bits();
        let basis = coloring.span().basis();
        let varying = std::array::from_fn(|order| {
            // The basis is in ascending order of the lowest bit: functions that change within a
            // block come first.
            basis.iter().take_while(|f| f.lowest() < page_bits + order as u32).count() as u32
        });
        let lists = varying.map(|low| vec![NONE; (coloring.colors() >> low) as usize]).to_vec();
        Self {
            base: base.0,
            coloring: coloring.clone(),
            varying,
            lists,
            links: vec![Links { before: NONE, after: NONE }; frames as usize],
            state: vec![USED; frames as usize],
        }
    }

    /// Returns the number of pages in the zone.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.state.len() as u32
    }

    /// Returns the number of colors of its pages.
    #[must_use]
    pub fn colors(&self) -> u32 {
        self.coloring.colors()
    }

    /// Returns the color of a page.
    #[must_use]
    pub fn color_of(&self, frame: Frame) -> Color {
        let page_bits = self.coloring.page_bits();
        self.coloring.color_of(PhysAddr(self.base + (u64::from(frame.0) << page_bits)))
    }

    /// Takes a block of an order that contains pages of `color`; a single page has that color. Adds
    /// the number of lists searched to `searched`.
    pub fn take(&mut self, order: u32, color: Color, searched: &mut u32) -> Option<Frame> {
        for found in order..=MAX_ORDER {
            *searched += 1;
            let block = self.lists[found as usize][self.list(found, color)];
            if block == NONE {
                continue;
            }
            self.unlink(block);
            return Some(Frame(self.split(block, found, order, color)));
        }
        None
    }

    /// Splits a block down to an order, keeping halves that have `color`.
    fn split(&mut self, block: u32, from: u32, to: u32, color: Color) -> u32 {
        let mut block = block;
        for order in (to..from).rev() {
            let (low, high) = (block, block + (1 << order));
            let (kept, filed) = match self.list_of_block(low, order) == self.list(order, color) {
                true => (low, high),
                false => (high, low),
            };
            self.link(filed, order);
            block = kept;
        }
        block
    }

    /// Frees a block. If its buddy is free too, merges the two, and so on upwards.
    ///
    /// # Panics
    /// If one of its pages is already free, or the block does not lie in the zone.
    pub fn free(&mut self, frame: Frame, order: u32) {
        let (mut block, mut order) = (frame.0, order);
        assert!(block.is_multiple_of(1 << order), "block {block} is not of order {order}");
        assert_eq!(self.state[block as usize], USED, "block {block} is free already");
        while order < MAX_ORDER {
            let buddy = block ^ 1 << order;
            let whole = u64::from(block.max(buddy)) + (1 << order) <= u64::from(self.frames());
            if !whole || u32::from(self.state[buddy as usize]) != order {
                break;
            }
            self.unlink(buddy);
            block = block.min(buddy);
            order += 1;
        }
        self.link(block, order);
    }

    /// Returns the index of an order's list for blocks with `color`.
    fn list(&self, order: u32, color: Color) -> usize {
        (color.0 >> self.varying[order as usize]) as usize
    }

    fn list_of_block(&self, block: u32, order: u32) -> usize {
        self.list(order, self.color_of(Frame(block)))
    }

    fn link(&mut self, block: u32, order: u32) {
        let list = self.list_of_block(block, order);
        let first = std::mem::replace(&mut self.lists[order as usize][list], block);
        self.links[block as usize] = Links { before: NONE, after: first };
        if first != NONE {
            self.links[first as usize].before = block;
        }
        self.state[block as usize] = order as u8;
    }

    fn unlink(&mut self, block: u32) {
        let order = u32::from(self.state[block as usize]);
        let Links { before, after } = self.links[block as usize];
        if before == NONE {
            let list = self.list_of_block(block, order);
            self.lists[order as usize][list] = after;
        } else {
            self.links[before as usize].after = after;
        }
        if after != NONE {
            self.links[after as usize].before = before;
        }
        self.state[block as usize] = USED;
    }
}

#[cfg(test)]
impl Buddy {
    /// Returns the number of pages in free blocks.
    pub(super) fn free_pages(&self) -> u64 {
        self.state.iter().filter(|order| **order != USED).map(|order| 1u64 << order).sum()
    }

    /// Returns the number of lists of an order: the number of color sets that its blocks can have.
    pub(super) fn lists_of(&self, order: u32) -> usize {
        self.lists[order as usize].len()
    }

    /// Returns the first pages of an order's free blocks that have `color`, in the order in which
    /// they will be taken.
    pub(super) fn free_blocks(&self, order: u32, color: Color) -> impl Iterator<Item = Frame> + '_ {
        let first = self.lists[order as usize][self.list(order, color)];
        let some = |frame: u32| (frame != NONE).then_some(frame);
        let next = move |frame: &u32| some(self.links[*frame as usize].after);
        std::iter::successors(some(first), next).map(Frame)
    }
}
