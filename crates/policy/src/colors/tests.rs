use std::collections::BTreeSet;

use memweir_core::Bytes;
use memweir_core::address_map::{Role, SetFunction, XorFunction};
use memweir_core::names::Named;
use proptest::prelude::*;

use super::apportion::{by_weight, up_to};
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
fn the_parts_take_turns_where_high_bits_choose_them() {
    let parts = [0, 0, 0, 1, 1, 1].into_iter().zip(0..).map(|(part, color)| (Color(color), part));
    let supply = Supply { parts: parts.collect(), banks_per_color: 1 };
    let sets = |cache| written(&policy("uniform").assign(&programs(3), &supply, cache).unwrap());
    assert_eq!(sets(CacheUse::Keep), ["0,3", "1,4", "2,5"]);
    assert_eq!(sets(CacheUse::Balance), ["0-1", "2-3", "4-5"]);
    let without = supply.without(&[Color(1), Color(3)].into_iter().collect());
    assert_eq!(without.parts(), [(Color(0), 0), (Color(2), 0), (Color(4), 1), (Color(5), 1)]);
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
fn banks_that_are_enough() {
    let of = |mpki| ProgramTraits { mpki, ..ProgramTraits::default() };
    assert_eq!([None, Some(1.0), Some(1.1)].map(|mpki| of(mpki).banks()), [16, 8, 16]);
    assert_eq!(ProgramTraits { demanded_banks: Some(3), ..of(Some(1.0)) }.banks(), 3);
}

#[test]
fn a_demand_is_rounded_up_to_whole_colors() {
    let demands = |banks, mpki| ProgramTraits {
        demanded_banks: Some(banks),
        mpki: Some(mpki),
        ..ProgramTraits::default()
    };
    // The second gains nothing: what rounding down left over would go to the first.
    let programs = [demands(3, 1.0), demands(5, 0.0)];
    assert_eq!(counts("demand", &programs, &Supply::new(5, 2)), [2, 3]);
    // No program is left without a color.
    assert_eq!(counts("demand", &[demands(0, 0.0), demands(5, 1.0)], &Supply::new(2, 1)), [1, 1]);
}

#[test]
fn the_gain_is_the_time_spent_on_opening_rows() {
    let traits = |mpki, locality, parallelism| ProgramTraits {
        mpki,
        row_buffer_locality: locality,
        bank_parallelism: parallelism,
        demanded_banks: Some(1),
        ..ProgramTraits::default()
    };
    let programs = [
        // 1 x (1 - 0) x 1.
        traits(Some(1.0), Some(0.0), Some(1.0)),
        // 1 x (1 - 0.5) x 1.
        traits(None, None, None),
        // 3 x (1 - 0.5) x 4.
        traits(Some(3.0), None, Some(4.0)),
    ];
    // One color each, and 60 as 1 : 0.5 : 6.
    assert_eq!(counts("demand", &programs, &Supply::new(63, 1)), [9, 5, 49]);
}

#[test]
fn seats_follow_sound_weights() {
    assert_eq!(by_weight(3, &[0.5, 1.0]), [1, 2]);
    assert_eq!(by_weight(4, &[f64::INFINITY, -1.0, 0.5, f64::NAN]), [0, 0, 4, 0]);
    assert_eq!(by_weight(4, &[f64::NAN, -1.0]), [2, 2]);
    assert_eq!(up_to(4, &[1, 9, 9]), [1, 2, 1]);
    assert_eq!(up_to(9, &[1, 2]), [1, 2]);
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
    // A program of which nothing is known misses once per 1,000 instructions.
    assert_eq!(counts("intensity", &[of(3.0), ProgramTraits::default()], &supply), [20, 12]);
}

#[test]
fn misspelt_names_and_too_many_programs_are_refused() {
    let help = ColorAssignment::named("unifrom").unwrap_err().help.unwrap();
    assert!(help.contains("did you mean `uniform`?"), "{help}");
    assert!(CacheUse::named("ballance").unwrap_err().help.unwrap().contains("`balance`"));
    let supply = Supply::new(2, 8);
    let refusal = policy("uniform").assign(&programs(3), &supply, CacheUse::Keep).unwrap_err();
    assert!(refusal.reason.contains("3 programs"), "{refusal}");
    for name in names() {
        assert_eq!(policy(name).assign(&[], &supply, CacheUse::Keep), Ok(vec![]), "{name}");
    }
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
