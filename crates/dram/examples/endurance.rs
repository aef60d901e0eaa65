//! Runs random memory systems of all standards and policies under the rule checker until the given
//! number of commands was checked: `cargo run --release -p memweir-dram --example endurance --
//! 1000000000 [SEED]`. A violation ends the run and prints the seed that leads to it.

#[path = "../tests/common/trial.rs"]
mod trial;

use memweir_dram::spec::SHIPPED;
use trial::{Random, config, run};

/// Requests of a trial.
const REQUESTS: u64 = 20_000;

/// Trials between two lines of progress.
const REPORT_EVERY: u64 = 1000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| match arguments.next() {
        Some(text) => text.parse().expect("a whole number"),
        None => default,
    };
    let (goal, first) = (number(1_000_000_000), number(0));
    let names: Vec<&str> =
        SHIPPED.iter().map(|(name, _)| *name).chain(std::iter::once("hybrid")).collect();
    let (mut commands, mut requests, mut longest) = (0, 0, 0);
    let mut seed = first;
    while commands < goal {
        let name = names[(seed % names.len() as u64) as usize];
        let mut random = Random(seed << 16);
        let config = config(name, &mut random);
        let outcome = std::panic::catch_unwind(move || run(&config, REQUESTS, &mut random));
        let Ok(outcome) = outcome else {
            eprintln!("in seed {seed}, {name}");
            std::process::exit(1);
        };
        commands += outcome.commands;
        requests += outcome.requests;
        longest = longest.max(outcome.longest);
        seed += 1;
        if seed % REPORT_EVERY == 0 {
            println!("{commands} commands, {requests} requests, {} systems", seed - first);
        }
    }
    println!(
        "{commands} commands, {requests} requests, {} systems: no violation; the longest wait was \
         {longest} cycles",
        seed - first
    );
}
