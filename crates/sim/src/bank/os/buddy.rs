//! A buddy allocator whose free lists are split by color (bpm section 3.4).
//!
//! A block of order `k` is `2^k` pages, naturally aligned. The paper keeps, for each order, one free
//! list per color. Pages of a large block have many colors; here a block is filed under what its
//! colors have in common, so that each order has one list for every set of colors that a block of this
//! order can have: as many as there are colors for pages alone, one for blocks that hold them all.
//! Whoever wants a color looks at one list per order and splits what it finds, keeping the halves that
//! have the color and filing the others.

use memweir_core::PhysAddr;
use memweir_core::address_map::{Color, Coloring};

/// The largest order, as in the paper: orders 0 to 11.
pub const MAX_ORDER: u32 = 11;

/// The number of a page in its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame(pub u32);

/// No frame: the end of a list.
const NONE: u32 = u32::MAX;

/// Not the first page of a free block.
const USED: u8 = u8::MAX;

/// The free pages of a zone.
#[derive(Clone, Debug)]
pub struct Buddy {
    base: u64,
    coloring: Coloring,
    /// For each order, how many of a color's low bits a block of the order does not have for itself:
    /// those of functions that change within it.
    varying: [u32; MAX_ORDER as usize + 1],
    /// For each order, the first block of each list.
    lists: Vec<Vec<u32>>,
    /// Neighbors in the list, of the first page of each free block.
    links: Vec<Links>,
    /// The order of the free block that begins with this page, or [`USED`].
    state: Vec<u8>,
    free: u64,
    splits: u64,
    merges: u64,
}

#[derive(Clone, Copy, Debug)]
struct Links {
    before: u32,
    after: u32,
}

impl Buddy {
    /// An allocator of `frames` pages, the first at `base`, none of which is free. `base` and the
    /// offset of the coloring's addresses are aligned to the largest block.
    #[must_use]
    pub fn new(base: PhysAddr, frames: u32, coloring: &Coloring) -> Self {
        let page_bits = coloring.page_bits();
        let basis = coloring.span().basis();
        let varying = std::array::from_fn(|order| {
            // Ascending by lowest bit: those that change within a block come first.
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
            free: 0,
            splits: 0,
            merges: 0,
        }
    }

    /// Pages of the zone.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.state.len() as u32
    }

    /// Colors of its pages.
    #[must_use]
    pub fn colors(&self) -> u32 {
        self.coloring.colors()
    }

    /// Free pages.
    #[must_use]
    pub fn free_pages(&self) -> u64 {
        self.free
    }

    /// Blocks that were split, and blocks that were merged with their buddies.
    #[must_use]
    pub fn splits_and_merges(&self) -> (u64, u64) {
        (self.splits, self.merges)
    }

    /// The color of a page.
    #[must_use]
    pub fn color_of(&self, frame: Frame) -> Color {
        let page_bits = self.coloring.page_bits();
        self.coloring.color_of(PhysAddr(self.base + (u64::from(frame.0) << page_bits)))
    }

    /// The lists of an order: how many sets of colors its blocks can have.
    #[must_use]
    pub fn lists_of(&self, order: u32) -> usize {
        self.lists[order as usize].len()
    }

    /// The first pages of the free blocks of an order that have `color`, the next to be taken first.
    pub fn free_blocks(&self, order: u32, color: Color) -> impl Iterator<Item = Frame> + '_ {
        let first = self.lists[order as usize][self.list(order, color)];
        let some = |frame: u32| (frame != NONE).then_some(frame);
        let next = move |frame: &u32| some(self.links[*frame as usize].after);
        std::iter::successors(some(first), next).map(Frame)
    }

    /// Free blocks of an order.
    #[must_use]
    pub fn count(&self, order: u32) -> u64 {
        self.state.iter().filter(|state| u32::from(**state) == order).count() as u64
    }

    /// Takes a block of an order in which there are pages of `color`; for single pages, one of that
    /// color. `searched` grows by the lists that were looked at.
    pub fn take(&mut self, order: u32, color: Color, searched: &mut u32) -> Option<Frame> {
        for found in order..=MAX_ORDER {
            *searched += 1;
            let block = self.lists[found as usize][self.list(found, color)];
            if block == NONE {
                continue;
            }
            self.unlink(block);
            let block = self.split(block, found, order, color);
            self.free -= 1 << order;
            return Some(Frame(block));
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
            self.splits += 1;
            block = kept;
        }
        block
    }

    /// Gives a block back; with its buddy, if that is free too, it makes a larger one, and so on.
    ///
    /// # Panics
    /// If one of its pages is free already, or the block does not lie in the zone.
    pub fn free(&mut self, frame: Frame, order: u32) {
        let (mut block, mut order) = (frame.0, order);
        assert!(block.is_multiple_of(1 << order), "block {block} is not of order {order}");
        assert_eq!(self.state[block as usize], USED, "block {block} is free already");
        self.free += 1 << order;
        while order < MAX_ORDER {
            let buddy = block ^ 1 << order;
            let whole = u64::from(block.max(buddy)) + (1 << order) <= u64::from(self.frames());
            if !whole || u32::from(self.state[buddy as usize]) != order {
                break;
            }
            self.unlink(buddy);
            self.merges += 1;
            block = block.min(buddy);
            order += 1;
        }
        self.link(block, order);
    }

    /// The list of an order in which blocks with `color` are.
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
