//! Ways to deliver pages of the requested colors to a program.

use memweir_core::names::Named;

/// Way in which a page of the pool reaches a page fault. All zeros are [`Move`](Self::Move).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Delivery {
    /// The kernel moves the page there (`UFFDIO_MOVE`).
    #[default]
    Move,
    /// The page's frame is freed, and the kernel reuses the most recently freed frame for a new
    /// page there (`UFFDIO_COPY`).
    Recycle,
}

/// The first kernel with `UFFDIO_MOVE`.
const MOVES: (u32, u32) = (6, 8);
/// The oldest kernel on which recycling was tested.
const RECYCLES: (u32, u32) = (6, 1);

memweir_core::named! { pub Delivery, "delivery": Move = "move", Recycle = "recycle" }

impl Delivery {
    /// Returns the first kernel, as major and minor number, on which it works.
    #[must_use]
    pub const fn since(self) -> (u32, u32) {
        match self {
            Self::Move => MOVES,
            Self::Recycle => RECYCLES,
        }
    }

    /// Returns true if it works on a kernel of this release, such as `6.1.0-56-amd64`.
    #[must_use]
    pub fn works_on(self, release: &str) -> bool {
        release_numbers(release).is_some_and(|numbers| numbers >= self.since())
    }

    /// Returns the preferred variant that works on a kernel of this release.
    #[must_use]
    pub fn best_on(release: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|way| way.works_on(release))
    }
}

/// Returns the major and minor number of a kernel's release.
#[must_use]
pub fn release_numbers(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_decides() {
        let best = [
            ("7.0.1", Some(Delivery::Move)),
            ("6.12.1-amd64", Some(Delivery::Move)),
            ("6.8", Some(Delivery::Move)),
            ("6.7.12", Some(Delivery::Recycle)),
            ("6.1.0-56-amd64", Some(Delivery::Recycle)),
            ("6.0.19", None),
            ("5.15.0-100-generic", None),
            ("unknown", None),
            ("", None),
        ];
        for (release, expected) in best {
            assert_eq!(Delivery::best_on(release), expected, "{release}");
        }
        assert!(Delivery::Recycle.works_on("6.18.4"), "newer kernels can do both");
    }

    #[test]
    fn names_are_those_of_the_table() {
        assert!(Delivery::ALL.iter().all(|way| way.name().parse() == Ok(*way)));
    }
}
