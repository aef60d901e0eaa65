//! Which pages are free when the programs start, and in which order they are handed out.
//!
//! A machine that has just booted hands out its pages in the order of their addresses. One that has
//! run for a while does not: page cache and other processes hold pages all over memory, and what was
//! given back lies in the lists in no order. For measurements of banks that matters, since the order
//! decides which rows and banks neighboring pages share.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::buddy::{Buddy, Frame, MAX_ORDER};

/// The state of a zone at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Start {
    /// All pages are free, and handed out by ascending address.
    #[default]
    Fresh,
    /// Others hold a part of them.
    Aged(Aging),
}

/// How a zone was used before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aging {
    /// Share of the pages that others hold, 0 to 1.
    pub held: f64,
    /// Mean length of the runs of pages that were given back together, at least one page.
    pub run: f64,
    /// Where they lie.
    pub seed: u64,
}

impl Default for Aging {
    /// Assumptions: a third of memory in use, in runs of four pages.
    fn default() -> Self {
        Self { held: 0.33, run: 4.0, seed: 1 }
    }
}

impl Start {
    /// Frees the pages of `buddy` that are free at the start; the others, by color, the next to be
    /// taken back last.
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

/// Frees everything in the largest blocks that fit, the last first, so that the first is taken first.
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
    /// Frees what nobody holds, in no order; what is held.
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

    /// The length of a run: geometric.
    fn draw_run(&self, random: &mut ChaCha8Rng) -> u32 {
        let stop = 1.0 / self.run.max(1.0);
        let mut length = 1;
        while length < 1 << MAX_ORDER && !random.random_bool(stop) {
            length += 1;
        }
        length
    }
}
