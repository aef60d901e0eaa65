//! Programs drawn at random from the table of characteristics, each as long as it likes.

use std::ops::RangeInclusive;

use memweir_bank::characteristics;
use memweir_bank::synthetic::Structure;
use memweir_core::Nanos;
use memweir_core::input::{InputError, Section, Value};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Wanted;
use super::programs::{Reader, time};
use crate::text::whole;

const KEYS: [&str; 3] = ["draw", "time_us", "seed"];

/// Programs that may be drawn.
const MOST: RangeInclusive<i64> = 1..=1024;

impl Reader<'_> {
    /// Reads the number of programs, how long they take alone and the seed, and draws them. A
    /// program may come several times.
    pub(super) fn drawn(&self, mut section: Section<'_>) -> Result<Vec<Wanted>, InputError> {
        section.only(&KEYS)?;
        let count = range(&section.require("draw")?, |v| whole(v, MOST))?;
        let times = range(&section.require("time_us")?, time)?;
        let seed = section.map("seed", |v| whole(&v, 0..=i64::MAX))?.unwrap_or(1) as u64;
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

/// Reads a value, or an array of the lowest and the highest one.
fn range<T: Copy + PartialOrd>(
    value: &Value<'_>,
    read: impl Fn(&Value<'_>) -> Result<T, InputError>,
) -> Result<RangeInclusive<T>, InputError> {
    if !value.is_array() {
        return read(value).map(|one| one..=one);
    }
    match &value.array("the lowest and the highest")?[..] {
        [from, to] => {
            let (from, to) = (read(from)?, read(to)?);
            if from <= to {
                return Ok(from..=to);
            }
            Err(value.refuse("the range ends before it starts").help("the lowest comes first"))
        }
        _ => Err(value.refuse("is no range").help("[lowest, highest]")),
    }
}
