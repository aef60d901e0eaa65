use std::collections::BTreeSet;

use memweir_core::Bytes;
use memweir_core::address_map::{Role, SetFunction, XorFunction};
use memweir_core::names::Named;
use proptest::prelude::*;

use super::*;

fn policy(name: &str) -> ColorAssignment {
    ColorAssignment::named(name).unwrap()
}

fn counts(name: &str, programs: &[ProgramTraits], supply: &Supply) -> Vec<usize> {
    let sets = policy(name).assign(programs, supply, CacheUse::Keep).unwrap();
    sets.iter().map(ColorSet::len).collect()
}

fn written(sets: &[ColorSet]) -> Vec<String> {
    sets.iter().map(ToString::to_string).collect()
}

/// The machine of the paper: 64 banks, two of each color, 8 MiB of 16 ways.
fn i7_860() -> Supply {
    let function = |bit: u8| SetFunction { role: Role::Set, function: XorFunction(1 << bit) };
    let map = AddressMap {
        name: "Core i7-860, 8 GB".to_owned(),
        source: None,
        offset: 0,
        interleave: None,
        bits: 33,
        functions: [6, 13, 14, 15, 21, 22].map(function).to_vec(),
        row: Vec::new(),
        column: Vec::new(),
    };
    Supply::of_map(&map, 12, Some(&CacheGeometry::new(Bytes(8 << 20), 16)))
}

fn programs(count: usize) -> Vec<ProgramTraits> {
    vec![ProgramTraits::default(); count]
}

#[test]
fn uniform_is_that_of_the_paper() {
    let supply = i7_860();
    assert_eq!((supply.colors(), supply.banks_per_color()), (32, 2));
    assert_eq!(counts("uniform", &programs(4), &supply), [8; 4]);
    assert_eq!(counts("uniform", &programs(8), &supply), [4; 8]);
    assert_eq!(counts("uniform", &programs(5), &supply), [7, 7, 6, 6, 6]);
}

#[test]
fn the_cache_is_kept_or_divided() {
    let supply = i7_860();
    let uniform = policy("uniform");
    let keep = uniform.assign(&programs(4), &supply, CacheUse::Keep).unwrap();
    // Bits 13 to 15 are the low ones: each program has all eight parts.
    assert_eq!(written(&keep), ["0-7", "8-15", "16-23", "24-31"]);
    let balance = uniform.assign(&programs(4), &supply, CacheUse::Balance).unwrap();
    // Two parts each, with all four combinations of bits 21 and 22.
    assert_eq!(written(&balance)[0], "0-1,8-9,16-17,24-25");
    let eight = uniform.assign(&programs(8), &supply, CacheUse::Balance).unwrap();
    assert_eq!(written(&eight)[7], "7,15,23,31");
}

#[test]
fn demand_is_met_and_the_rest_goes_to_those_who_gain() {
    let supply = i7_860();
    let light = ProgramTraits { mpki: Some(0.2), ..ProgramTraits::default() };
    let mcf = ProgramTraits {
        mpki: Some(97.4),
        row_buffer_locality: Some(0.42),
        bank_parallelism: Some(6.2),
        ..ProgramTraits::default()
    };
    // 8 banks for each light one, 16 for mcf: 4 + 4 + 4 + 8 colors; the other 12 are mcf's.
    assert_eq!(counts("demand", &[light, light, light, mcf], &supply), [4, 4, 4, 20]);
    // Nothing is known: 16 banks are demanded, and there are 8 for each of eight.
    assert_eq!(counts("demand", &programs(8), &supply), [4; 8]);
    let two_banks = ProgramTraits { demanded_banks: Some(2), ..mcf };
    let scarce = [two_banks, mcf, mcf, mcf, mcf, mcf, mcf, mcf];
    assert_eq!(counts("demand", &scarce, &supply), [1, 5, 5, 5, 4, 4, 4, 4]);
}

#[test]
fn intensity_leaves_half_of_an_even_share() {
    let supply = i7_860();
    let of = |mpki| ProgramTraits { mpki: Some(mpki), ..ProgramTraits::default() };
    assert_eq!(counts("intensity", &[of(50.0), of(0.4), of(0.5), of(0.3)], &supply), [20, 4, 4, 4]);
    assert_eq!(
        counts("intensity", &[of(30.0), of(30.0), of(0.0), of(0.0)], &supply),
        [12, 12, 4, 4]
    );
    let moves = |gb| ProgramTraits { bandwidth: Some(BytesPerSec::from_gb(gb)), ..of(1.0) };
    assert_eq!(counts("intensity", &[moves(3.0), moves(1.0)], &supply), [20, 12]);
}

#[test]
fn misspelt_names_and_too_many_programs_are_refused() {
    let help = ColorAssignment::named("unifrom").unwrap_err().help.unwrap();
    assert!(help.contains("did you mean `uniform`?"), "{help}");
    assert!(CacheUse::named("ballance").unwrap_err().help.unwrap().contains("`balance`"));
    let supply = Supply::new(2, 8);
    let refusal = policy("uniform").assign(&programs(3), &supply, CacheUse::Keep).unwrap_err();
    assert!(refusal.reason.contains("3 programs"), "{refusal}");
    assert_eq!(policy("uniform").assign(&[], &supply, CacheUse::Keep), Ok(vec![]));
}

fn any_program() -> impl Strategy<Value = ProgramTraits> {
    let option = |range: std::ops::Range<f64>| prop::option::of(range);
    (
        option(0.0..100.0),
        option(0.0..1.0),
        option(1.0..8.0),
        option(0.0..10.0),
        prop::option::of(0u32..80),
    )
        .prop_map(|(mpki, row_buffer_locality, bank_parallelism, gb, demanded_banks)| {
            ProgramTraits {
                mpki,
                row_buffer_locality,
                bank_parallelism,
                bandwidth: gb.map(BytesPerSec::from_gb),
                demanded_banks,
            }
        })
}

proptest! {
    #[test]
    fn sets_are_disjoint_complete_and_nobody_is_left_out(
        programs in prop::collection::vec(any_program(), 1..16),
        more in 0u32..50,
        banks_per_color in 1u32..9,
        parts in 1u32..9,
        place in 0..ASSIGNMENTS.len(),
        cache in prop::sample::select(vec![CacheUse::Keep, CacheUse::Balance]),
    ) {
        let colors = programs.len() as u32 + more;
        let mut supply = Supply::new(colors, banks_per_color);
        supply.parts = (0..colors).map(|color| (Color(color), color % parts)).collect();
        let sets = ColorAssignment(&ASSIGNMENTS[place]).assign(&programs, &supply, cache).unwrap();
        prop_assert_eq!(sets.len(), programs.len());
        prop_assert!(sets.iter().all(|set| !set.is_empty()));
        let all: BTreeSet<Color> = sets.iter().flat_map(ColorSet::iter).collect();
        prop_assert_eq!(all.len(), sets.iter().map(ColorSet::len).sum::<usize>(), "a color was shared");
        prop_assert_eq!(all.len(), colors as usize, "colors were left over");
        if cache == CacheUse::Balance {
            // A program reaches into no more parts than its colors fill, and a bit on each side.
            for set in &sets {
                let reached: BTreeSet<u32> = set.iter().map(|color| color.0 % parts).collect();
                let filled = set.len().div_ceil((colors / parts).max(1) as usize);
                prop_assert!(reached.len() <= filled + 1, "{} in {} parts", set, reached.len());
            }
        }
    }

    #[test]
    fn whoever_demands_more_is_not_given_less(
        programs in prop::collection::vec(any_program(), 1..10),
        more in 0u32..40,
        who: prop::sample::Index,
        demands in (1u32..80, 0u32..40),
    ) {
        let supply = Supply::new(programs.len() as u32 + more, 2);
        let who = who.index(programs.len());
        let given = |banks| {
            let mut programs = programs.clone();
            programs[who].demanded_banks = Some(banks);
            counts("demand", &programs, &supply)[who]
        };
        prop_assert!(given(demands.0) <= given(demands.0 + demands.1));
    }

    #[test]
    fn whoever_is_more_intensive_is_not_given_less(
        programs in prop::collection::vec(any_program(), 1..10),
        more in 0u32..40,
        who: prop::sample::Index,
        factor in 1.0..10.0f64,
    ) {
        let supply = Supply::new(programs.len() as u32 + more, 2);
        let who = who.index(programs.len());
        let given = |factor: f64| {
            let mut programs = programs.clone();
            let program = &mut programs[who];
            program.mpki = Some(program.mpki.unwrap_or(1.0) * factor);
            program.bandwidth = program.bandwidth.map(|rate| BytesPerSec(rate.0 * factor));
            counts("intensity", &programs, &supply)[who]
        };
        prop_assert!(given(1.0) <= given(factor));
    }
}
