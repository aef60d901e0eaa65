//! Random memory systems of all standards and policies under random load: no command breaks a rule,
//! every request is answered once and with the right data, and the sums agree.

mod common {
    pub(crate) mod trial;
}

use common::trial::{Random, config, run};
use memweir_dram::spec::SHIPPED;

/// Requests of a trial, and below it trials of each memory: above a million commands in all.
const REQUESTS: u64 = 4_000;
const TRIALS: u64 = 16;

fn try_memory(name: &str) -> u64 {
    let mut commands = 0;
    for seed in 0..TRIALS {
        let mut random = Random(seed << 8 ^ name.len() as u64);
        let config = config(name, &mut random);
        let described = format!(
            "{name}, seed {seed}: {} ranks, {} channels, {:?}, {:?}, {:?}, {:?}, age {:?}, queues {} {}, {:?}",
            config.ranks.len(),
            config.channels,
            config.scheduler,
            config.page,
            config.refresh,
            config.power,
            config.age_limit,
            config.read_queue,
            config.write_queue,
            config.map.functions,
        );
        let result = std::panic::catch_unwind(move || run(&config, REQUESTS, &mut random));
        match result {
            Ok(outcome) => commands += outcome.commands,
            Err(panic) => {
                eprintln!("in {described}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    commands
}

#[test]
fn no_memory_breaks_a_rule() {
    let mut all = 0;
    for (name, _) in SHIPPED.iter().chain(&[("hybrid", "")]) {
        all += try_memory(name);
    }
    assert!(all > 1_000_000, "only {all} commands");
}
