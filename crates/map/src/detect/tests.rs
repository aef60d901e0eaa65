use std::time::Duration;

use memweir_core::address_map::{AddressMap, Interleave, Span, XorFunction};
use memweir_core::{Bytes, PhysAddr};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::hash::scramble;
use crate::oracle::{Latency, OracleError, Region};
use crate::published;
use crate::synthetic::tests::map;
use crate::synthetic::{Machine, Noise, Synthetic};

fn options(seed: u64) -> Options {
    Options { seed, budget: Duration::from_secs(60) }
}

fn run(map: &AddressMap, noise: Noise, seed: u64) -> Detection {
    let mut oracle = Synthetic::new(map, noise, seed);
    detect(&mut oracle, "found", &options(seed), &mut |_| {})
}

/// Returns the span that distinguishes rows of banks: the sums of functions of banks and rows.
fn rows(banks: &Span, rows: &[XorFunction]) -> Span {
    banks.basis().iter().chain(rows).copied().collect()
}

fn check(truth: &AddressMap, detection: &Detection) -> Result<(), String> {
    let found = detection.verdict.as_ref().map_err(ToString::to_string)?;
    let map = &found.map;
    let spans = (map.span(), truth.span());
    if spans.0 != spans.1 {
        return Err(format!("WRONG banks {:?} for {:?}", spans.0, spans.1));
    }
    let expected = rows(&spans.1, Machine::of(truth).rows());
    let got = rows(&spans.0, &map.row);
    if got != expected {
        return Err(format!("WRONG rows {:?} for {:?}", map.row, Machine::of(truth).rows()));
    }
    if !map.row.is_sorted_by_key(|row| u64::BITS - row.0.leading_zeros()) {
        return Err(format!("UNSORTED rows {:?}", map.row));
    }
    if map.interleave != truth.interleave || map.offset != truth.offset {
        return Err(format!("WRONG shape {:?} {:#x}", map.interleave, map.offset));
    }
    Ok(())
}

/// Searches for every published map, where `is_searched` of its number and that of the noise.
fn find_published(is_searched: impl Fn(usize, usize) -> bool) {
    let mut failures = Vec::new();
    let maps = published::parse("published_maps.json", published::SHIPPED).unwrap();
    for (map, entry) in maps.iter().enumerate() {
        for (kind, (name, noise)) in Noise::ALL.into_iter().enumerate() {
            if is_searched(map, kind)
                && let Err(reason) = check(&entry.map, &run(&entry.map, noise, 1))
            {
                failures.push(format!("{} {name}: {reason}", entry.id));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn published_maps_are_found() {
    find_published(|map, noise| map % Noise::ALL.len() == noise);
}

#[test]
#[ignore = "nightly: takes minutes"]
fn published_maps_are_found_in_any_noise() {
    find_published(|_, _| true);
}

/// Maps unlike any published one.
fn random_map(random: &mut ChaCha8Rng) -> AddressMap {
    loop {
        let bits = random.random_range(27..=36u8);
        let count = random.random_range(2..=10);
        let row_bits = random.random_range(10..=14u8);
        let row: Vec<u8> = (bits - row_bits..bits).collect();
        let functions: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let mut list = vec![random.random_range(6..bits - row_bits)];
                let more = random.random_range(0..8);
                list.extend((0..more).map(|_| random.random_range(6..bits)));
                list.sort_unstable();
                list.dedup();
                list
            })
            .collect();
        let lists: Vec<&[u8]> = functions.iter().map(Vec::as_slice).collect();
        let interleave = random.random_bool(0.3).then(|| Interleave {
            channels: [3, 3, 5, 6, 12][random.random_range(0..5)],
            granule: Bytes(1 << random.random_range(8..13)),
        });
        let offset =
            [0, 0, 512 << 20, 768 << 20, 1 << 30, 2 << 30, 0x3700_0000][random.random_range(0..7)];
        let map = AddressMap { offset, interleave, ..map(&lists, &row, u32::from(bits)) };
        if map.validate().is_ok() {
            return map;
        }
    }
}

/// Returns true if both maps agree on pairs, which is the only possible check where one machine has
/// several descriptions.
fn equivalent(truth: &AddressMap, found: &AddressMap, seed: u64) -> bool {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let machines = [truth, found].map(Machine::of);
    let memory = machines[0].memory().0;
    let mut conflicts = 0;
    for i in 0..20_000u32 {
        let a = PhysAddr(truth.offset + (random.random_range(0..memory) & !63));
        // Half of the pairs conflict: a row function is flipped, and the bank functions are
        // restored.
        let b = if i.is_multiple_of(2) {
            let (way, inner) = truth.enter(a);
            let mut other = random.random_range(0..1u64 << truth.bits) & !63;
            for function in truth.span().basis() {
                if function.value(other ^ inner) == 1 {
                    other ^= 1 << function.lowest();
                }
            }
            let shape = Shape { offset: truth.offset, interleave: truth.interleave };
            shape.leave(u64::from(way), other)
        } else {
            PhysAddr(truth.offset + (random.random_range(0..memory) & !63))
        };
        let verdicts = machines.each_ref().map(|machine| machine.conflict(a, b));
        if verdicts[0] != verdicts[1] {
            return false;
        }
        conflicts += u32::from(verdicts[0]);
    }
    conflicts > 5000
}

#[test]
fn maps_unlike_the_published_ones_are_found() {
    find_random(20);
}

#[test]
#[ignore = "nightly: takes minutes"]
fn many_maps_unlike_the_published_ones_are_found() {
    find_random(60);
}

fn find_random(maps: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let (mut refused, mut wrong) = (Vec::new(), Vec::new());
    for number in 0..maps {
        let map = random_map(&mut random);
        let (name, noise) = Noise::ALL[number as usize % Noise::ALL.len()];
        match run(&map, noise, number).verdict {
            Ok(found) if equivalent(&map, &found.map, number) => {}
            Ok(found) => wrong.push(format!("{number} {name} {map:?}: {:?}", found.map)),
            Err(refusal) => refused.push(format!("{number} {name} {map:?}: {refusal}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(refused.len() as u64 <= maps / 15, "{}", refused.join("\n"));
}

#[test]
fn memory_without_a_map_is_refused() {
    let map = map(&[&[7, 8], &[13], &[14], &[15]], &[24, 25, 26, 27, 28, 29], 30);
    let mut oracle = Scattered(Synthetic::new(&map, Noise::SERVER, 3));
    let detection = detect(&mut oracle, "guest", &options(3), &mut |_| {});
    let refusal = detection.verdict.unwrap_err().to_string();
    assert!(refusal.contains("no physical contiguity"), "{refusal}");
    assert!(refusal.contains("they agree in 1 functions of bits below 12"), "{refusal}");
}

#[test]
fn a_budget_that_is_too_short_is_told() {
    let mut oracle = Synthetic::new(&published("bpm-i7-860"), Noise::QUIET, 3);
    let options = Options { seed: 3, budget: Duration::from_millis(500) };
    let refusal = detect(&mut oracle, "short", &options, &mut |_| {}).verdict.unwrap_err();
    assert!(refusal.reason.contains("budget") || refusal.reason.contains("too few"), "{refusal}");
}

#[test]
fn equal_seeds_find_alike() {
    let map = published("dramapp-orin-nano");
    assert_eq!(run(&map, Noise::VM, 11), run(&map, Noise::VM, 11));
}

pub(super) fn published(id: &str) -> AddressMap {
    let entries = published::parse("published_maps.json", published::SHIPPED).unwrap();
    published::choose(entries, Some(id)).unwrap().map
}

#[test]
fn a_model_that_measurements_contradict_is_no_map() {
    let truth = map(&[&[13, 17], &[14, 18]], &[17, 18, 19, 20, 21, 22, 23, 24], 25);
    let mut oracle = Synthetic::new(&truth, Noise::QUIET, 1);
    let mut silent = |_| {};
    let mut probe = Probe::new(&mut oracle, Duration::from_secs(60), 1, &mut silent);
    let conflicts = conflicts::find(&mut probe).unwrap();
    let known = Shape::PLAIN.known(probe.reach());
    // Columns are the bits below 13, and one more of the row where it is named.
    let mut accepts = |functions: &[&[u8]], more: &[u8]| {
        let banks = functions.iter().map(|bits| XorFunction::of_bits(bits)).collect();
        let columns = (6..13).chain(more.iter().copied()).map(|bit| XorFunction(1 << bit));
        let rows = Some(model::Rows::new(columns.collect(), &banks, known.bits));
        let model = Model { shape: Shape::PLAIN, known, banks, rows };
        verified(&mut probe, &model, &conflicts, "found").unwrap().is_ok()
    };
    assert!(accepts(&[&[13, 17], &[14, 18]], &[]));
    assert!(!accepts(&[&[13, 17]], &[]), "a function is missing");
    assert!(!accepts(&[&[13, 17], &[14, 18], &[20]], &[]), "a function too many");
    assert!(!accepts(&[&[13, 17], &[14, 18]], &[19]), "a bit of the row is none of the column");
}

/// A guest whose 4 KiB pages lie anywhere in the host's memory.
struct Scattered(Synthetic);

impl LatencyOracle for Scattered {
    fn reach(&self) -> &Reach {
        self.0.reach()
    }

    fn measure(&mut self, a: PhysAddr, b: PhysAddr, rounds: u32) -> Result<Latency, OracleError> {
        let memory = self.0.reach().end().0;
        let host = |address: PhysAddr| {
            PhysAddr(((scramble(address.0 >> 12) % memory) & !0xfff) | (address.0 & 0xfff))
        };
        self.0.measure(host(a), host(b), rounds)
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A machine of whose memory only a part can be measured.
struct Partial(Synthetic, Reach);

impl LatencyOracle for Partial {
    fn reach(&self) -> &Reach {
        &self.1
    }

    fn measure(&mut self, a: PhysAddr, b: PhysAddr, rounds: u32) -> Result<Latency, OracleError> {
        self.0.measure(a, b, rounds)
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Detects `map` where only these MiB of memory, from start to end, can be measured.
fn run_within(map: &AddressMap, noise: Noise, parts: &[(u64, u64)]) -> Detection {
    let region = |(start, end): &(u64, u64)| Region {
        start: PhysAddr(start << 20),
        length: Bytes((end - start) << 20),
    };
    let reach = Reach::new(parts.iter().map(region).collect());
    let mut oracle = Partial(Synthetic::new(map, noise, 1), reach);
    detect(&mut oracle, "found", &options(1), &mut |_| {})
}

#[test]
fn memory_with_a_hole_has_the_map_of_its_parts() {
    let cases = [
        ("dramapp-xps13-6200u", &[(0, 256), (1024, 1280)][..], 28),
        // The few addresses beyond 1 GiB, three of 200, do not count.
        ("dramapp-xps13-6200u", &[(0, 1024), (1024, 1040)][..], 30),
        ("dramapp-xps13-6200u", &[(0, 16), (1024, 2048)][..], 30),
        // Six of 100 pairs of a bank lie in one row.
        ("dramapp-9900x", &[(0, 32)][..], 25),
        ("dramapp-9900x", &[(0, 16), (1024, 1040)][..], 24),
    ];
    for (id, parts, bits) in cases {
        let truth = published(id);
        let found = run_within(&truth, Noise::QUIET, parts).verdict;
        let found = found.unwrap_or_else(|refusal| panic!("{id} {parts:?}: {refusal}"));
        assert_eq!((found.map.span(), found.map.bits), (low(&truth, bits), bits), "{id} {parts:?}");
    }
}

/// Returns the banks that the low bits choose among addresses that agree in the others.
fn low(map: &AddressMap, bits: u32) -> Span {
    let low = |function: &XorFunction| XorFunction(function.0 & ((1 << bits) - 1));
    map.span().basis().iter().map(low).collect()
}

#[test]
fn maps_of_many_banks_are_found_in_sixteen_huge_pages() {
    find_in_huge_pages(6..9);
}

#[test]
#[ignore = "nightly: takes minutes"]
fn all_maps_are_found_in_sixteen_huge_pages() {
    find_in_huge_pages(0..9);
}

/// Searches in 16 huge pages that lie anywhere in memory for the published maps with so many
/// functions.
fn find_in_huge_pages(functions: std::ops::Range<usize>) {
    let (mut refused, mut wrong, mut runs) = (Vec::new(), Vec::new(), 0);
    let mut maps = published::parse("published_maps.json", published::SHIPPED).unwrap();
    maps.retain(|entry| functions.contains(&entry.map.functions.len()));
    for entry in maps {
        let (truth, mut pages) = (entry.map, std::collections::BTreeSet::new());
        let (start, all) = (truth.offset >> 20, Machine::of(&truth).memory().0 >> 21);
        let mut numbers = (0..).map(|number| scramble(number) % all);
        while pages.len() < 16 {
            pages.extend(numbers.next());
        }
        let parts = pages.iter().map(|page| (start + 2 * page, start + 2 * page + 2));
        let parts: Vec<(u64, u64)> = parts.collect();
        for (name, noise) in Noise::ALL.into_iter().take(2) {
            runs += 1;
            match run_within(&truth, noise, &parts).verdict {
                // Hardly any page is a bit of the row away from another.
                Ok(Found { map, .. })
                    if map.span() == low(&truth, map.bits) && map.row.is_empty() => {}
                Ok(found) => wrong.push(format!("{} {name}: {:?}", entry.id, found.map)),
                Err(refusal) => refused.push(format!("{} {name}: {refusal}", entry.id)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // So few conflicts may lie in one of the pages that they obey a function by chance.
    assert!(refused.len() <= runs / 6, "{}", refused.join("\n"));
}

#[test]
fn too_little_memory_is_told() {
    let truth = published("bpm-i7-860");
    let refusal = |lines: u64| {
        let region = Region { start: PhysAddr(0), length: Bytes(lines * LINE_BYTES) };
        let reach = Reach::new(vec![region]);
        let mut oracle = Partial(Synthetic::new(&truth, Noise::QUIET, 1), reach);
        let detection = detect(&mut oracle, "found", &options(1), &mut |_| {});
        (detection.verdict.unwrap_err().reason, detection.measurements)
    };
    let too_little = "only 262080 bytes of contiguous memory can be measured".to_owned();
    assert_eq!(refusal(4095), (too_little, 0));
    assert!(refusal(4096).1 > 0);
}

#[test]
fn of_offsets_that_explain_the_same_pairs_the_right_one_is_found() {
    let rows: Vec<u8> = (20..35).collect();
    let cases: [(u64, &[&[u8]]); 3] = [
        // No offset is off by 16 MiB, which shows near edges alone.
        (0x0100_0000, &[&[7, 8], &[13, 34], &[14, 33]]),
        // So are others that come later, as odd multiples of 16 MiB.
        (0x3400_0000, &[&[7, 8], &[13, 31], &[14, 30]]),
        // More than a hundred others come first, but explain less.
        (0xc100_0000, &[&[7, 8], &[13, 24], &[14, 28], &[15, 33]]),
    ];
    for (seed, (offset, functions)) in cases.into_iter().enumerate() {
        let truth = AddressMap { offset, ..map(functions, &rows, 35) };
        let found = check(&truth, &run(&truth, Noise::QUIET, seed as u64));
        found.unwrap_or_else(|why| panic!("{functions:?}: {why}"));
    }
}

#[test]
fn the_noise_of_a_machine_is_told() {
    let of = |noise| {
        // The steps of the clock are no noise.
        let noise = Noise { quantum: 1.0, ..noise };
        run(&published("bpm-i7-860"), noise, 1).verdict.unwrap().conflict
    };
    let (quiet, noisy) = (of(Noise::QUIET), of(Noise::VM));
    assert!((quiet.0 - 91.0).abs() < 5.0 && (noisy.0 - 91.0).abs() < 12.0, "{quiet:?} {noisy:?}");
    assert!(noisy.1 > 2.0 * quiet.1, "{quiet:?} {noisy:?}");
}

#[test]
fn conflicts_of_which_many_do_not_show_make_no_cliques() {
    let noise = Noise { missed: 0.42, ..Noise::QUIET };
    let refusal = run(&published("bpm-i7-860"), noise, 1).verdict.unwrap_err();
    assert_eq!(refusal.step, Step::Sets, "{refusal}");
    assert!(refusal.reason.contains("the sets are no cliques"), "{refusal}");
}
