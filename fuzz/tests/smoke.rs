//! Every target on its seeds and on mutations of them: 500 for each, or `FUZZ_MUTATIONS`. Where no
//! libFuzzer can be built, more of these are a substitute that knows nothing of coverage.

use memweir_fuzz::TARGETS;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Mutations of a target's seeds together, unless the environment says how many.
const MUTATIONS: usize = 500;

/// Tokens on which parsers fail: ends of number ranges, separators, characters of several bytes.
const TOKENS: [&str; 16] = [
    "0",
    "-1",
    "1e308",
    "nan",
    "inf",
    "18446744073709551615",
    "9223372036854775808",
    "0x",
    "\n",
    "=",
    ",",
    "..",
    "[",
    "}",
    "\u{2126}",
    "\0",
];

#[test]
fn no_target_fails_on_its_seeds_or_near_them() {
    let mutations = std::env::var("FUZZ_MUTATIONS")
        .map_or(MUTATIONS, |number| number.parse().expect("FUZZ_MUTATIONS is a number"));
    for target in TARGETS {
        println!("{}", target.name);
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let seeds = target.seeds();
        assert!(!seeds.is_empty(), "{} has no seed", target.name);
        for seed in &seeds {
            (target.run)(seed);
        }
        for _ in 0..mutations {
            let seed = seeds.choose(&mut random).expect("a seed");
            (target.run)(&mutated(seed, &mut random));
        }
    }
}

fn mutated(seed: &[u8], random: &mut impl Rng) -> Vec<u8> {
    let mut data = seed.to_vec();
    for _ in 0..random.random_range(1..=4) {
        let at = random.random_range(0..=data.len());
        let end = random.random_range(at..=data.len().min(at + 8));
        match random.random_range(0..4) {
            0 => data.truncate(at),
            1 => drop(data.splice(at..end, [random.random()])),
            2 => drop(data.splice(at..end, TOKENS.choose(random).expect("a token").bytes())),
            _ => drop(data.splice(at..at, seed[seed.len() - seed.len().min(40)..].iter().copied())),
        }
    }
    data
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
}
