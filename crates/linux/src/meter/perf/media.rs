//! Sorting events by quantity and medium.
//!
//! Reads are counted by medium where the processor has events for that; writes are counted so
//! nowhere. Where reads are told apart, each reading's new writes are divided like its new reads,
//! which is an estimate and reported as one.

use memweir_core::{Counts, Lines, MAX_MEDIA, Media, MediumId, Traffic};

use super::events::{EventSpec, Quantity, Source};

/// The quantity and the medium that an event adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sorted {
    quantity: Quantity,
    /// Absent where the event names none.
    medium: Option<MediumId>,
}

impl Sorted {
    /// Returns the quantity and the medium of `event`, an event of a source that counts `quantity`,
    /// on a machine with `media`.
    pub(super) fn of(quantity: Quantity, event: &EventSpec, media: &Media) -> Self {
        Self { quantity, medium: event.medium.and_then(|medium| medium.find(media)) }
    }
}

/// Sums of the events of one job since exec.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    instructions: f64,
    reads: ByPlace,
    writes: ByPlace,
}

/// Lines by medium, and those whose medium is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ByPlace {
    known: [f64; MAX_MEDIA],
    unknown: f64,
}

impl ByPlace {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            known: std::array::from_fn(|m| (self.known[m] - earlier.known[m]).max(0.0)),
            unknown: (self.unknown - earlier.unknown).max(0.0),
        }
    }

    fn known_total(&self) -> f64 {
        self.known.iter().sum()
    }

    /// Returns all lines by medium; those of unknown medium are divided by `shares`.
    fn divided(&self, shares: &[f64; MAX_MEDIA]) -> [f64; MAX_MEDIA] {
        std::array::from_fn(|m| self.known[m] + self.unknown * shares[m])
    }

    /// Returns the shares of the lines of known medium; all in local DRAM where there are none.
    fn shares(&self) -> [f64; MAX_MEDIA] {
        let total = self.known_total();
        if total > 0.0 {
            return self.known.map(|lines| lines / total);
        }
        let mut shares = [0.0; MAX_MEDIA];
        shares[MediumId::LOCAL_DRAM.index()] = 1.0;
        shares
    }
}

impl Sums {
    /// Adds the count of one event.
    pub(super) fn add(&mut self, sorted: Sorted, count: f64) {
        let place = match sorted.quantity {
            Quantity::Instructions => return self.instructions += count,
            Quantity::Reads => &mut self.reads,
            Quantity::Writes => &mut self.writes,
        };
        match sorted.medium {
            Some(medium) => place.known[medium.index()] += count,
            None => place.unknown += count,
        }
    }
}

/// The counts of one job by medium, reading by reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ByMedium {
    last: Sums,
    reads: [f64; MAX_MEDIA],
    writes: [f64; MAX_MEDIA],
}

impl ByMedium {
    /// Takes a reading in and returns the counts since exec. No medium's count ever falls.
    pub(super) fn update(&mut self, now: &Sums) -> Counts {
        let (reads, writes) =
            (now.reads.since(&self.last.reads), now.writes.since(&self.last.writes));
        let shares = reads.shares();
        let new = (reads.divided(&shares), writes.divided(&shares));
        for medium in 0..MAX_MEDIA {
            self.reads[medium] += new.0[medium];
            self.writes[medium] += new.1[medium];
        }
        self.last = *now;
        let lines = |sum: f64| Lines(sum.round() as u64);
        let traffic = std::array::from_fn(|medium| Traffic {
            reads: lines(self.reads[medium]),
            writes: lines(self.writes[medium]),
        });
        Counts::by_medium(now.instructions.round() as u64, traffic)
    }
}

/// Returns the caveat for sources that tell reads apart by medium but not writes.
pub(super) fn caveat(sources: &[Source]) -> Option<String> {
    let of = |quantity| sources.iter().find(move |source| source.counts == quantity);
    let (reads, writes) = (of(Quantity::Reads)?, of(Quantity::Writes));
    if !reads.separates() {
        return None;
    }
    match writes {
        Some(writes) if writes.separates() => None,
        Some(_) => Some(
            "Writes are divided among the media as the reads of the same quantum are: no event \
             tells their medium."
                .to_owned(),
        ),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sums(dram: f64, nvm: f64, writes: f64) -> Sums {
        let sorted = |quantity, medium| Sorted { quantity, medium };
        let mut sums = Sums::default();
        sums.add(sorted(Quantity::Instructions, None), 7.0);
        sums.add(sorted(Quantity::Reads, Some(MediumId::ALL[0])), dram);
        sums.add(sorted(Quantity::Reads, Some(MediumId::ALL[1])), nvm);
        sums.add(sorted(Quantity::Writes, None), writes);
        sums
    }

    fn of(counts: &Counts, medium: usize) -> (u64, u64) {
        let traffic = counts.traffic(MediumId::ALL[medium]);
        (traffic.reads.0, traffic.writes.0)
    }

    #[test]
    fn writes_are_divided_like_the_reads_of_the_same_span() {
        let mut job = ByMedium::default();
        let counts = job.update(&sums(30.0, 10.0, 8.0));
        assert_eq!((of(&counts, 0), of(&counts, 1)), ((30, 6), (10, 2)));
        // Then all reads come from NVM: so do the new writes, and the old ones stay.
        let counts = job.update(&sums(30.0, 50.0, 18.0));
        assert_eq!((of(&counts, 0), of(&counts, 1)), ((30, 6), (50, 12)));
        assert_eq!(counts.instructions, 7);
    }

    #[test]
    fn what_no_event_tells_is_the_local_drams() {
        let sorted = Sorted { quantity: Quantity::Reads, medium: None };
        let mut sums = Sums::default();
        sums.add(sorted, 5.0);
        let counts = ByMedium::default().update(&sums);
        assert_eq!(counts, Counts::new(0, Lines(5), Lines(0)));
    }

    proptest! {
        #[test]
        fn no_count_falls_and_none_is_lost(
            steps in prop::collection::vec((0_u32..1000, 0_u32..1000, 0_u32..1000), 1..20)
        ) {
            let mut job = ByMedium::default();
            let (mut total, mut last) = ((0, 0, 0), Counts::default());
            for (dram, nvm, writes) in steps {
                total = (total.0 + dram, total.1 + nvm, total.2 + writes);
                let now = sums(f64::from(total.0), f64::from(total.1), f64::from(total.2));
                let counts = job.update(&now);
                prop_assert_eq!(counts.reads.0, u64::from(total.0 + total.1));
                // Each medium's part is rounded.
                prop_assert!(counts.writes.0.abs_diff(u64::from(total.2)) <= 1);
                for medium in 0..MAX_MEDIA {
                    let (now, before) = (of(&counts, medium), of(&last, medium));
                    prop_assert!(now.0 >= before.0 && now.1 >= before.1);
                }
                last = counts;
            }
        }
    }
}
