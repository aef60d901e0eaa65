//! Free pages at the start of the programs, and the order in which they are handed out.
//!
//! A freshly booted machine hands out pages in the order of their addresses. After a while it does
//! not: page cache and other processes hold pages all over memory, and freed pages are in the lists
//! in no order. This matters for measurements of banks, because the order determines which rows and
//! banks neighboring pages share.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::buddy::{Buddy, Frame, MAX_ORDER};

/// State of a zone at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Start {
    /// All pages are free and are handed out by ascending address.
    #[default]
    Fresh,
    /// Other holders have a part of the pages.
    Aged(Aging),
}

/// Earlier use of a zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aging {
    /// Share of the pages held by others, 0 to 1.
    pub held: f64,
    /// Mean length of the runs of pages that were freed together, at least one page.
    pub run: f64,
    /// Seed of the random positions.
    pub seed: u64,
}

impl Default for Aging {
    /// Returns assumed values: a third of memory in use, in runs of four pages.
    fn default() -> Self {
        Self { held: 0.33, run: 4.0, seed: 1 }
    }
}

impl Start {
    /// Frees the pages of `buddy` that are free at the start. Returns the held pages by color, each
    /// list in reverse order of reclaim.
    pub(super) fn apply(&self, buddy: &mut Buddy) -> Vec<Vec<Frame>> {
        let mut held = vec![Vec::new(); buddy.colors() as usize];
        match self {
            Self::Fresh => fill(buddy),
            Self::Aged(aging) => {
                for frame in aging.apply(buddy) {
                    held[buddy.color_of(frame).0 as usize].push(frame);
                }
            }
        }
        held
    }
}

/// Frees all pages in the largest blocks that fit, the last block first, so that the first is taken
/// first.
fn fill(buddy: &mut Buddy) {
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < buddy.frames() {
        let fits = |order: &u32| {
            at.is_multiple_of(1 << order)
                && u64::from(at) + (1 << order) <= u64::from(buddy.frames())
        };
        let order = (0..=MAX_ORDER).rev().find(fits).unwrap_or(0);
        blocks.push((Frame(at), order));
        at += 1 << order;
    }
    for (block, order) in blocks.into_iter().rev() {
        buddy.free(block, order);
    }
}

impl Aging {
    /// Frees the pages that are not held, in random order of the runs, and returns the held pages,
    /// shuffled.
    fn apply(&self, buddy: &mut Buddy) -> Vec<Frame> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let mut runs = Vec::new();
        let mut held = Vec::new();
        let mut at = 0;
        while at < buddy.frames() {
            let length = self.draw_run(&mut random).min(buddy.frames() - at);
            if random.random_bool(self.held.clamp(0.0, 1.0)) {
                held.extend((at..at + length).map(Frame));
            } else {
                runs.push(at..at + length);
            }
            at += length;
        }
        runs.shuffle(&mut random);
        for frame in runs.into_iter().flatten() {
            buddy.free(Frame(frame), 0);
        }
        held.shuffle(&mut random);
        held
    }

    /// Draws the length of a run from a geometric distribution.
    fn draw_run(&self, random: &mut ChaCha8Rng) -> u32 {
        let stop = 1.0 / self.run.max(1.0);
        let mut length = 1;
        while length < 1 << MAX_ORDER && !random.random_bool(stop) {
            length += 1;
        }
        length
    }
}
