//! Programs drawn at random from the table of characteristics, each as long as it likes.

use std::ops::RangeInclusive;

use memweir_bank::characteristics;
use memweir_bank::synthetic::Structure;
use memweir_core::Nanos;
use memweir_core::input::{InputError, Section};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Wanted;
use super::programs::{Reader, time};
use crate::text::range;

const KEYS: [&str; 3] = ["draw", "time_us", "seed"];

/// Programs that may be drawn. The type has the width of the random number that chooses their
/// number: with another width, each seed has other programs.
const MOST: RangeInclusive<u64> = 1..=1024;

impl Reader<'_> {
    /// Reads the number of programs, how long they take alone and the seed, and draws them. A
    /// program may come several times.
    pub(super) fn drawn(&self, mut section: Section<'_>) -> Result<Vec<Wanted>, InputError> {
        section.only(&KEYS)?;
        let count = range(&section.require("draw")?, |v| v.whole_in(MOST))?;
        let times = range(&section.require("time_us")?, time)?;
        let seed = section.map("seed", |v| v.seed())?.unwrap_or(1);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (pool, count) = (characteristics::all(), random.random_range(count));
        let draw = |_| {
            let (name, behavior) = &pool[random.random_range(0..pool.len())];
            let length = random.random_range(times.start().0..=times.end().0);
            let wanted = self.behaving(name.clone(), *behavior, Structure::default());
            Wanted { time: Some(Nanos(length)), ..wanted }
        };
        Ok((0..count).map(draw).collect())
    }
}
