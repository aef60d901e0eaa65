//! Division of the points of a sweep among processes.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use memweir_core::input::Refusal;

/// One of several parts of a sweep: every `count`th point, so that points that differ little in
/// cost are spread evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of the shard, from zero.
    index: usize,
    count: NonZeroUsize,
}

impl Shard {
    /// All points.
    pub const WHOLE: Self = Self { index: 0, count: NonZeroUsize::MIN };

    /// Returns the points of the shard among `total` points.
    pub fn points(&self, total: usize) -> impl Iterator<Item = usize> {
        (self.index..total).step_by(self.count.get())
    }

    /// Returns the beginning of the names of its files.
    #[must_use]
    pub fn file_stem(&self) -> String {
        format!("shard-{:05}-of-{:05}", self.index + 1, self.count)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.count)
    }
}

impl FromStr for Shard {
    type Err = Refusal;

    /// Reads `I/N`, with I from 1 to N.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let numbers = text.split_once('/').and_then(|(index, count)| {
            Some((index.trim().parse::<usize>().ok()?, count.trim().parse::<NonZeroUsize>().ok()?))
        });
        match numbers {
            Some((index, count)) if (1..=count.get()).contains(&index) => {
                Ok(Self { index: index - 1, count })
            }
            Some((0, count)) => Err(Refusal::new(
                format!("there is no shard 0 of {count}"),
                format!("shards count from 1: `1/{count}` to `{count}/{count}`"),
            )),
            Some((index, count)) => Err(Refusal::new(
                format!("there is no shard {index} of {count}"),
                format!("`1/{count}` to `{count}/{count}`"),
            )),
            None => Err(Refusal::new(
                format!("`{text}` is no shard"),
                "write `I/N`, for example `3/8` for the third of eight",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shards_count_from_one() {
        let shard: Shard = "3/8".parse().expect("a shard");
        assert_eq!(shard.points(20).collect::<Vec<_>>(), [2, 10, 18]);
        assert_eq!(
            (shard.to_string(), shard.file_stem()),
            ("3/8".into(), "shard-00003-of-00008".into())
        );
        for (text, help) in [
            ("0/8", "shards count from 1: `1/8` to `8/8`"),
            ("9/8", "`1/8` to `8/8`"),
            ("1/0", "write `I/N`"),
            ("3", "write `I/N`"),
            ("-1/2", "write `I/N`"),
        ] {
            let refused = text.parse::<Shard>().expect_err(text);
            assert!(
                refused.help.as_deref().is_some_and(|h| h.contains(help)),
                "{text}: {refused:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn every_point_is_in_one_shard(total in 0usize..200, count in 1usize..40) {
            let mut all: Vec<usize> = (1..=count)
                .flat_map(|index| {
                    let shard: Shard = format!("{index}/{count}").parse().expect("a shard");
                    shard.points(total).collect::<Vec<_>>()
                })
                .collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..total).collect::<Vec<_>>());
        }
    }
}
