//! The cache model compared with a simple one: each set is a list in order of use.

use std::sync::atomic::AtomicU64;

use memweir_core::Bytes;
use memweir_core::cache::{CacheGeometry, CacheHierarchy};
use memweir_qemu_pmu::model::first::FirstLevel;
use memweir_qemu_pmu::model::private::{DIRTY, EMPTY, Lookup, PrivateCache, Word, short_tag};
use memweir_qemu_pmu::model::shared::SharedCache;
use memweir_qemu_pmu::model::vcpu::{Events, Room, VcpuCaches};
use proptest::prelude::*;

/// Words, the latest first.
struct Reference {
    sets: Vec<Vec<Word>>,
    ways: usize,
}

impl Reference {
    fn new(geometry: &CacheGeometry) -> Self {
        let sets = vec![Vec::new(); geometry.sets() as usize];
        Self { sets, ways: geometry.ways as usize }
    }

    /// Returns true if the line was present, and the evicted word.
    fn access(&mut self, line: u64, dirty: Word) -> (bool, Option<Word>) {
        let sets = self.sets.len();
        // As in `SetIndex`: for a number of sets that is no power of two, 32 bits of the line
        // count.
        let index = if sets.is_power_of_two() { line } else { u64::from(line as u32) };
        let number = (index % sets as u64) as usize;
        let set = &mut self.sets[number];
        let found = set.iter().position(|word| word >> 1 == line);
        let before = found.map_or(0, |at| set.remove(at) & DIRTY);
        set.insert(0, line << 1 | before | dirty);
        (found.is_some(), if set.len() > self.ways { set.pop() } else { None })
    }
}

/// The three levels of `model.rs`, from references.
struct ReferenceLevels {
    l1d: Reference,
    l2: Reference,
    llc: Reference,
    events: Events,
}

impl ReferenceLevels {
    fn new(caches: &CacheHierarchy) -> Self {
        let [l1d, l2, llc] = [&caches.l1d, &caches.l2, &caches.llc].map(Reference::new);
        Self { l1d, l2, llc, events: Events::default() }
    }

    fn access(&mut self, line: u64, dirty: Word) {
        let (hit, victim) = self.l1d.access(line, dirty);
        if hit {
            return;
        }
        self.events.l1_misses += 1;
        let (hit, l2_victim) = self.l2.access(line, 0);
        if !hit {
            self.events.l2_misses += 1;
            let (hit, victim) = self.llc.access(line, 0);
            self.events.reads += u64::from(!hit);
            self.count_write(victim);
            self.write_back(l2_victim);
        }
        if let Some(word) = victim.filter(|word| word & DIRTY != 0) {
            let (_, victim) = self.l2.access(word >> 1, DIRTY);
            self.write_back(victim);
        }
    }

    fn write_back(&mut self, victim: Option<Word>) {
        if let Some(word) = victim.filter(|word| word & DIRTY != 0) {
            let (_, victim) = self.llc.access(word >> 1, DIRTY);
            self.count_write(victim);
        }
    }

    fn count_write(&mut self, victim: Option<Word>) {
        self.events.writes += victim.map_or(0, |word| word & DIRTY);
    }
}

/// Few sets, so that they overflow; also numbers of sets that are no powers of two, and more ways
/// than a group of tags has.
fn geometry(sets: std::ops::Range<u64>) -> impl Strategy<Value = CacheGeometry> {
    (sets, 1_u32..40)
        .prop_map(|(sets, ways)| CacheGeometry::new(Bytes(64 * sets * u64::from(ways)), ways))
}

/// Lines near each other, lines that differ in high bits alone, and lines with equal short tags.
fn line() -> impl Strategy<Value = u64> {
    let equal: Vec<u64> = (0..1 << 20).filter(|line| short_tag(*line) == 7).collect();
    assert!(equal.len() > 8, "lines of equal tags: {}", equal.len());
    prop_oneof![
        0_u64..100,
        (0_u64..8, 0_u64..12).prop_map(|(low, high)| low | high << 12),
        (0_u64..3, 0_u64..4).prop_map(|(low, high)| low | high << 38),
        proptest::sample::select(equal),
    ]
}

fn accesses() -> impl Strategy<Value = Vec<(u64, Word)>> {
    proptest::collection::vec((line(), 0..=DIRTY), 1..800)
}

proptest! {
    #[test]
    fn one_level_hits_and_evicts_as_the_reference(
        geometry in geometry(1..6),
        accesses in accesses(),
    ) {
        let mut cache = PrivateCache::new(&geometry);
        let mut first = FirstLevel::new(&geometry);
        let mut reference = Reference::new(&geometry);
        for (line, dirty) in accesses {
            let (hit, victim) = reference.access(line, dirty);
            let expected = match hit {
                true => Lookup::Hit,
                false => Lookup::Miss { victim: victim.unwrap_or(EMPTY) },
            };
            prop_assert_eq!(cache.access(line, dirty), expected);
            if first.touch(line, dirty) {
                prop_assert!(hit);
            } else {
                prop_assert_eq!(first.access(line, dirty), expected);
            }
        }
    }

    #[test]
    fn three_levels_count_as_the_reference(
        l1d in geometry(1..4),
        l2 in geometry(1..6),
        ways in 1_u32..40,
        accesses in accesses(),
        patience in 1_usize..300,
    ) {
        // One set, because the last level scatters lines over its sets.
        let llc = CacheGeometry::new(Bytes(64 * u64::from(ways)), ways);
        let caches = CacheHierarchy { l1d, l2, llc };
        let words: Vec<AtomicU64> = (0..ways).map(|_| AtomicU64::new(0)).collect();
        let shared = SharedCache::new(Box::leak(words.into_boxed_slice()), ways as usize, 1);
        let mut vcpu = VcpuCaches::new(&caches, shared);
        let mut reference = ReferenceLevels::new(&caches);
        let mut events = Events::default();
        for (number, (line, dirty)) in accesses.into_iter().enumerate() {
            let found = vcpu.touch(line, dirty);
            let full = !found && vcpu.access(line, dirty) == Room::None;
            reference.access(line, dirty);
            if full || number % patience == 0 {
                events += vcpu.take_events();
                prop_assert_eq!(events, reference.events);
            }
        }
        events += vcpu.take_events();
        prop_assert_eq!(events, reference.events);
    }
}

/// So many accesses to one set that every clock of the first level ends several times.
#[test]
fn order_outlives_the_clocks() {
    let geometry = CacheGeometry::new(Bytes(3 * 64), 3);
    let (mut first, mut reference) = (FirstLevel::new(&geometry), Reference::new(&geometry));
    let mut state = 1_u64;
    for number in 0..400_000_u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Mostly hits, in changing order; the long way now and then.
        let (line, dirty) = (state >> 62, state >> 40 & DIRTY);
        let (hit, victim) = reference.access(line, dirty);
        if number % 3 > 0 && first.touch(line, dirty) {
            assert!(hit);
            continue;
        }
        let expected = match hit {
            true => Lookup::Hit,
            false => Lookup::Miss { victim: victim.unwrap_or(EMPTY) },
        };
        assert_eq!(first.access(line, dirty), expected, "access {number}");
    }
}
