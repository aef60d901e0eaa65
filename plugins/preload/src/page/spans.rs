//! Sets of address ranges in memory of a fixed size. Pure: no mapping is read or changed here.

use crate::uffd::PAGE;

/// Addresses from `start` up to `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    pub(crate) const fn of(start: usize, length: usize) -> Self {
        Self { start, end: start.saturating_add(length) }
    }

    pub(crate) const fn length(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    pub(crate) fn contains(self, address: usize) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Iterates over the addresses of its pages.
    pub(crate) fn pages(self) -> impl Iterator<Item = usize> + use<> {
        (self.start..self.end).step_by(PAGE)
    }

    /// Returns the intersection; empty if there is none.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { start: self.start.max(other.start), end: self.end.min(other.end) }
    }
}

/// Ranges that neither overlap nor touch, in ascending order. All zero means empty.
#[repr(C)]
pub(crate) struct Spans<const N: usize> {
    used: usize,
    items: [Span; N],
}

impl<const N: usize> Spans<N> {
    fn items(&self) -> &[Span] {
        &self.items[..self.used]
    }

    /// Returns the first range that ends after `address`.
    pub(crate) fn next(&self, address: usize) -> Option<Span> {
        let at = self.items().partition_point(|span| span.end <= address);
        self.items().get(at).copied()
    }

    /// Returns the range that holds `address`.
    pub(crate) fn at(&self, address: usize) -> Option<Span> {
        self.next(address).filter(|span| span.contains(address))
    }

    /// Returns the first part of `range` that is in the set; empty if there is none.
    pub(crate) fn first_in(&self, range: Span) -> Span {
        self.next(range.start).map_or(Span::default(), |span| span.and(range))
    }

    /// Returns the parts of `range` that are in the set.
    pub(crate) fn parts_in(&self, range: Span) -> impl Iterator<Item = Span> {
        let mut rest = range;
        std::iter::from_fn(move || {
            let part = self.first_in(rest);
            rest.start = part.end;
            (!part.is_empty()).then_some(part)
        })
        .fuse()
    }

    /// Returns the first part of `range` that is not in the set; empty if there is none.
    pub(crate) fn first_out(&self, range: Span) -> Span {
        let start = self.at(range.start).map_or(range.start, |span| span.end);
        let end = self.next(start).map_or(range.end, |span| span.start.min(range.end));
        Span::new(start, end)
    }

    pub(crate) fn touches(&self, range: Span) -> bool {
        !self.first_in(range).is_empty()
    }

    /// Returns the last range that begins below `address`.
    pub(crate) fn before(&self, address: usize) -> Option<Span> {
        let at = self.items().partition_point(|span| span.start < address);
        self.items()[..at].last().copied()
    }

    /// Returns the part at or after `address` up to the next multiple of `step`; the first of all
    /// if there is none.
    pub(crate) fn part_behind(&self, address: usize, step: usize) -> Option<Span> {
        let span = self.next(address).or_else(|| self.next(0))?;
        let start = if span.contains(address) { address } else { span.start };
        Some(Span::new(start, span.end.min(start / step * step + step)))
    }

    /// Returns the total length of the ranges.
    pub(crate) fn length(&self) -> usize {
        self.items().iter().map(|span| span.length()).sum()
    }

    /// Returns the number of ranges.
    pub(crate) const fn count(&self) -> usize {
        self.used
    }

    pub(crate) const fn clear(&mut self) {
        self.used = 0;
    }

    /// Adds a range; returns false if there is no room for it.
    pub(crate) fn insert(&mut self, range: Span) -> bool {
        if range.is_empty() {
            return true;
        }
        // Ranges that overlap or touch are merged with it.
        let from = self.items().partition_point(|span| span.end < range.start);
        let to = self.items().partition_point(|span| span.start <= range.end);
        if from == to {
            if self.used == N {
                return false;
            }
            self.items.copy_within(from..self.used, from + 1);
            self.items[from] = range;
            self.used += 1;
            return true;
        }
        let merged = Span::new(
            range.start.min(self.items[from].start),
            range.end.max(self.items[to - 1].end),
        );
        self.items[from] = merged;
        self.items.copy_within(to..self.used, from + 1);
        self.used -= to - from - 1;
        true
    }

    /// Removes a range. If this splits a range and there is no room, the upper part is lost, too,
    /// and false is returned.
    pub(crate) fn remove(&mut self, range: Span) -> bool {
        if range.is_empty() {
            return true;
        }
        let from = self.items().partition_point(|span| span.end <= range.start);
        let to = self.items().partition_point(|span| span.start < range.end);
        if from >= to {
            return true;
        }
        let below = Span::new(self.items[from].start, range.start);
        let above = Span::new(range.end, self.items[to - 1].end);
        let mut kept = [Span::default(); 2];
        let mut count = 0;
        for part in [below, above].into_iter().filter(|part| !part.is_empty()) {
            kept[count] = part;
            count += 1;
        }
        let fits = self.used - (to - from) + count <= N;
        count = if fits { count } else { 1 };
        self.items.copy_within(to..self.used, from + count);
        self.items[from..from + count].copy_from_slice(&kept[..count]);
        self.used = self.used - (to - from) + count;
        fits
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn empty<const N: usize>() -> Spans<N> {
        Spans { used: 0, items: [Span::default(); N] }
    }

    fn content<const N: usize>(spans: &Spans<N>) -> BTreeSet<usize> {
        spans.items().iter().flat_map(|span| span.start..span.end).collect()
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_addresses(
            steps in prop::collection::vec((any::<bool>(), 0usize..60, 0usize..20), 1..60),
        ) {
            let mut spans = empty::<64>();
            let mut set = BTreeSet::new();
            for (adds, start, length) in steps {
                let range = Span::of(start, length);
                if adds {
                    prop_assert!(spans.insert(range));
                    set.extend(range.start..range.end);
                } else {
                    prop_assert!(spans.remove(range));
                    set.retain(|address| !range.contains(*address));
                }
                prop_assert_eq!(&content(&spans), &set);
                prop_assert_eq!(spans.length(), set.len());
                prop_assert!(spans.items().windows(2).all(|pair| pair[0].end < pair[1].start));
                for address in 0..80 {
                    prop_assert_eq!(spans.at(address).is_some(), set.contains(&address));
                    let out = spans.first_out(Span::new(address, 80));
                    let first = (address..80).find(|other| !set.contains(other));
                    prop_assert_eq!((!out.is_empty()).then_some(out.start), first);
                    prop_assert!((out.start..out.end).all(|other| !set.contains(&other)));
                    let within = spans.first_in(Span::new(address, 80));
                    let first = (address..80).find(|other| set.contains(other));
                    prop_assert_eq!((!within.is_empty()).then_some(within.start), first);
                }
            }
        }
    }

    #[test]
    fn parts_follow_each_other_in_a_circle() {
        let mut spans = empty::<2>();
        assert_eq!(spans.part_behind(0, 4), None);
        assert!(spans.insert(Span::new(3, 9)) && spans.insert(Span::new(20, 22)));
        let (mut at, mut parts) = (0, Vec::new());
        for _ in 0..5 {
            let part = spans.part_behind(at, 4).expect("there are some");
            parts.push((part.start, part.end));
            at = part.end;
        }
        assert_eq!(parts, [(3, 4), (4, 8), (8, 9), (20, 22), (3, 4)]);
        assert_eq!(spans.part_behind(6, 4), Some(Span::new(6, 8)));
        assert_eq!(spans.part_behind(100, 4), Some(Span::new(3, 4)), "nothing lies behind");
    }

    #[test]
    fn what_has_no_room_is_told() {
        let mut spans = empty::<2>();
        assert!(spans.insert(Span::new(0, 1)) && spans.insert(Span::new(2, 9)));
        assert!(!spans.insert(Span::new(20, 21)));
        assert!(!spans.remove(Span::new(4, 5)), "two of one");
        assert_eq!(content(&spans), BTreeSet::from([0, 2, 3]));
    }
}
