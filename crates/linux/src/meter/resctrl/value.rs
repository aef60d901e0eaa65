//! The content of resctrl's monitoring files, and the sum that is built from it.

/// The content of a `mbm_*_bytes` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MbmValue {
    /// Bytes since the group was made, or since the counter was last reset.
    Bytes(u64),
    /// The hardware does not track this group now, or its configuration was just changed.
    Unavailable,
    /// No hardware counter is assigned to the group (AMD's assignable counters).
    Unassigned,
    /// The hardware reports an error.
    Error,
    /// Something that no kernel documents.
    Unknown,
}

impl MbmValue {
    /// Reads the text of the file.
    pub(super) fn parse(text: &str) -> Self {
        match text.trim() {
            "Unavailable" => Self::Unavailable,
            "Unassigned" => Self::Unassigned,
            "Error" => Self::Error,
            // The kernel writes no sign, which `parse` would let pass.
            other if other.starts_with('+') => Self::Unknown,
            other => other.parse().map_or(Self::Unknown, Self::Bytes),
        }
    }

    /// Returns the reason why there is no number, where there is none.
    pub(super) fn gap(self) -> Option<&'static str> {
        match self {
            Self::Bytes(_) => None,
            Self::Unavailable => Some(
                "is `Unavailable`: the hardware tracks fewer groups than there are (on AMD, \
                 assignable counters help), or its configuration was just changed",
            ),
            Self::Unassigned => {
                Some("is `Unassigned`: all hardware counters are given to other groups")
            }
            Self::Error => Some("is `Error`: the hardware refuses to read this counter"),
            Self::Unknown => Some("holds no number"),
        }
    }
}

/// Bytes of one job in one cache domain, however often the counter starts again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    last: u64,
    total: u64,
}

impl Tally {
    /// Starts at a counter that stands at `value`; a value that is no number counts from zero, as
    /// the kernel resets the counters of a new group.
    pub(super) fn starting_at(value: MbmValue) -> Self {
        match value {
            MbmValue::Bytes(last) => Self { last, total: 0 },
            _ => Self::default(),
        }
    }

    /// Takes a reading in. Returns [`Continuity::WasReset`] if the counter stands lower than
    /// before: its value was counted since the reset, and traffic between the last reading and the
    /// reset is lost.
    pub(super) fn update(&mut self, value: MbmValue) -> Continuity {
        let MbmValue::Bytes(now) = value else { return Continuity::Continues };
        let (more, continuity) = match now.checked_sub(self.last) {
            Some(more) => (more, Continuity::Continues),
            None => (now, Continuity::WasReset),
        };
        self.total = self.total.saturating_add(more);
        self.last = now;
        continuity
    }

    /// Returns the bytes since the start.
    pub(super) fn total(&self) -> u64 {
        self.total
    }
}

/// Continuity of a counter between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Continuity {
    /// The counter went on, or could not be read.
    Continues,
    /// The counter started again.
    WasReset,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_kernels_write() {
        assert_eq!(MbmValue::parse("16998400\n"), MbmValue::Bytes(16_998_400));
        assert_eq!(MbmValue::parse("Unavailable\n"), MbmValue::Unavailable);
        assert_eq!(MbmValue::parse("Unassigned\n"), MbmValue::Unassigned);
        assert_eq!(MbmValue::parse("Error\n"), MbmValue::Error);
        for odd in ["", "-1", "+1", "1.5", "0x10", "18446744073709551616", "unavailable"] {
            assert_eq!(MbmValue::parse(odd), MbmValue::Unknown, "{odd}");
            assert!(MbmValue::parse(odd).gap().is_some());
        }
    }

    #[test]
    fn sums_across_resets_and_gaps() {
        let mut tally = Tally::starting_at(MbmValue::Bytes(1000));
        assert_eq!(tally.update(MbmValue::Bytes(1600)), Continuity::Continues);
        assert_eq!(tally.update(MbmValue::Unavailable), Continuity::Continues);
        assert_eq!(tally.total(), 600);
        assert_eq!(tally.update(MbmValue::Bytes(50)), Continuity::WasReset);
        assert_eq!(tally.update(MbmValue::Bytes(80)), Continuity::Continues);
        assert_eq!(tally.total(), 680);
    }

    #[test]
    fn a_group_that_starts_unavailable_counts_from_zero() {
        let mut tally = Tally::starting_at(MbmValue::Unavailable);
        tally.update(MbmValue::Bytes(64));
        assert_eq!(tally.total(), 64);
    }

    proptest! {
        #[test]
        fn any_text_is_a_value(text in "\\PC{0,30}") {
            let _ = MbmValue::parse(&text);
        }

        #[test]
        fn every_number_reads_back(bytes in any::<u64>()) {
            prop_assert_eq!(MbmValue::parse(&format!("{bytes}\n")), MbmValue::Bytes(bytes));
        }

        #[test]
        fn totals_never_decrease_or_overflow(
            values in prop::collection::vec(prop_oneof![
                any::<u64>().prop_map(MbmValue::Bytes),
                Just(MbmValue::Unavailable),
                Just(MbmValue::Error),
            ], 0..20)
        ) {
            let (mut tally, mut previous) = (Tally::default(), 0);
            for value in values {
                tally.update(value);
                prop_assert!(tally.total() >= previous);
                previous = tally.total();
            }
        }
    }
}
