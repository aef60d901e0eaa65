//! Lays the counts of slices onto the program's native CPU time.

use memweir_core::profile::Profile;
use memweir_core::{Counts, Nanos};

/// A piece of the execution that was counted as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Slice {
    /// Counts in it.
    pub(super) counts: Counts,
    /// Its duration, in any unit: only the ratios between slices matter. Zero or more.
    pub(super) weight: f64,
    /// Instruction-pointer samples per code region; empty where none were taken.
    pub(super) instruction_pointers: Vec<u32>,
}

/// Time of the native run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NativeTime {
    /// CPU time of the program and its children.
    pub(super) cpu: Nanos,
    /// From exec to exit.
    pub(super) wall: Nanos,
}

/// Builds the profile of a program that did `slices` one after the other in `time`: each takes its
/// share of the CPU time by weight, and its counts are spread evenly over it. No count is lost or
/// added.
pub(super) fn lay_on_time(slices: &[Slice], time: NativeTime, interval: Nanos) -> Profile {
    let interval = Nanos(interval.0.max(1));
    let cpu = time.cpu.0.max(1);
    let count = cpu.div_ceil(interval.0);
    let mut intervals = Vec::with_capacity(count as usize);
    let mut rest = slices.iter().zip(bounds(slices, cpu)).peekable();
    let (mut whole, mut before) = (Counts::default(), Counts::default());
    for index in 1..=count {
        // All that was left over by rounding belongs to the last interval.
        let now = if index == count { f64::INFINITY } else { (index * interval.0) as f64 };
        while let Some((slice, _)) = rest.next_if(|(_, (_, end))| *end <= now) {
            whole += slice.counts;
        }
        let until = rest.peek().map_or(whole, |(slice, (start, end))| {
            let share = ((now - start) / (end - start)).clamp(0.0, 1.0);
            whole + slice.counts.scaled(share)
        });
        intervals.push(until.since(&before));
        before = until;
    }
    Profile { interval, intervals, cpu_time: Nanos(cpu), wall_time: time.wall }
}

/// Returns the begin and the end of each slice in CPU time, in nanoseconds from the start of the
/// program. Slices without weight take no time; if none has any, all take the same.
pub(super) fn bounds(slices: &[Slice], cpu: u64) -> impl Iterator<Item = (f64, f64)> {
    let total: f64 = slices.iter().map(|slice| slice.weight).sum();
    let even = 1.0 / slices.len().max(1) as f64;
    let share =
        move |slice: &Slice| if total > 0.0 { slice.weight / total } else { even } * cpu as f64;
    slices.iter().scan(0.0, move |end, slice| {
        let start = *end;
        *end += share(slice);
        Some((start, *end))
    })
}

#[cfg(test)]
mod tests {
    use memweir_core::Lines;
    use proptest::prelude::*;

    use super::*;

    fn counts(instructions: u64, reads: u64, writes: u64) -> Counts {
        Counts::new(instructions, Lines(reads), Lines(writes))
    }

    fn slice(counts: Counts, weight: f64) -> Slice {
        Slice { counts, weight, instruction_pointers: Vec::new() }
    }

    fn time(cpu: u64) -> NativeTime {
        NativeTime { cpu: Nanos(cpu), wall: Nanos(cpu + 1) }
    }

    #[test]
    fn slices_take_their_share_of_the_time() {
        // Weights 1 and 3 in 400 ns: 0 to 100 and 100 to 400. Halves of a line are rounded up.
        let slices = [slice(counts(10, 100, 0), 1.0), slice(counts(30, 60, 9), 3.0)];
        let profile = lay_on_time(&slices, time(400), Nanos(50));
        let expected = [
            counts(5, 50, 0),
            counts(5, 50, 0),
            counts(5, 10, 2),
            counts(5, 10, 1),
            counts(5, 10, 2),
            counts(5, 10, 1),
            counts(5, 10, 2),
            counts(5, 10, 1),
        ];
        assert_eq!(profile.intervals, expected);
        assert_eq!((profile.cpu_time, profile.wall_time), (Nanos(400), Nanos(401)));
    }

    #[test]
    fn an_interval_can_hold_many_slices_and_the_last_one_is_short() {
        let slices: Vec<_> = (1..=5).map(|n| slice(counts(n, n, 0), 1.0)).collect();
        // 50 ns each: 1 + 2 in the first 100 ns, 3 + 4 in the second, 5 in the last 50.
        let profile = lay_on_time(&slices, time(250), Nanos(100));
        assert_eq!(profile.intervals, [counts(3, 3, 0), counts(7, 7, 0), counts(5, 5, 0)]);
        assert_eq!(profile.span_of(2), Nanos(50));
    }

    #[test]
    fn nothing_counted_or_no_time_taken_is_a_profile_still() {
        let profile = lay_on_time(&[], time(250), Nanos(100));
        assert_eq!(profile.intervals, [Counts::default(); 3]);
        let profile = lay_on_time(&[slice(counts(7, 7, 7), 0.0)], time(0), Nanos(100));
        assert_eq!(profile.intervals, [counts(7, 7, 7)]);
    }

    #[test]
    fn slices_without_weight_share_the_time_if_none_has_any() {
        let slices = [slice(counts(2, 0, 0), 0.0), slice(counts(6, 0, 0), 0.0)];
        let profile = lay_on_time(&slices, time(100), Nanos(50));
        assert_eq!(profile.intervals, [counts(2, 0, 0), counts(6, 0, 0)]);
    }

    proptest! {
        #[test]
        fn no_count_is_lost_or_made(
            rows in prop::collection::vec((0..1_u64 << 30, 0..1_u64 << 20, 0.0..1e9), 0..60),
            cpu in 0..1_u64 << 34,
            parts in 1_u64..500,
        ) {
            let slices: Vec<_> =
                rows.iter().map(|(i, r, weight)| slice(counts(*i, *r, r / 3), *weight)).collect();
            let interval = Nanos((cpu / parts).max(1));
            let profile = lay_on_time(&slices, time(cpu), interval);
            let total = slices.iter().fold(Counts::default(), |sum, slice| sum + slice.counts);
            prop_assert_eq!(profile.total(), total);
            prop_assert_eq!(profile.intervals.len() as u64, cpu.max(1).div_ceil(interval.0));
        }
    }
}
