//! Measures the time of a decision by a policy program: `decision_cost [NAME=]CMD|unix:PATH`.
//!
//! Asks for decisions on batches of several sizes, of which each quantum runs four jobs, and prints
//! the median and the 99th percentile of the time of a decision beside those of `round-robin`.

use std::error::Error;
use std::time::{Duration, Instant};

use memweir_core::{BytesPerSec, JobId};
use memweir_policy::{JobSpec, QuantumScheduler, SchedulerConfig};
use memweir_run::policy_program::{DECISION_TIMEOUT, PolicyFailure, PolicyProgram};

const DECISIONS: usize = 2000;

/// Returns the times of decisions on this number of jobs, in ascending order.
fn decide(mut scheduler: QuantumScheduler, jobs: u32) -> Vec<Duration> {
    for job in (0..jobs).map(JobId) {
        let expected_bandwidth = Some(BytesPerSec(1e9 / f64::from(job.0 + 1)));
        scheduler.admit(JobSpec { expected_bandwidth, ..JobSpec::new(job) });
    }
    let mut decision = || {
        let start = Instant::now();
        scheduler.select();
        start.elapsed()
    };
    // The first waits for the start of the program.
    decision();
    let mut times: Vec<Duration> = (0..DECISIONS).map(|_| decision()).collect();
    times.sort();
    times
}

fn main() -> Result<(), Box<dyn Error>> {
    let program: PolicyProgram = std::env::args().nth(1).ok_or("a policy program")?.parse()?;
    println!("jobs  policy       median     99 %");
    for jobs in [8, 64, 512] {
        let config = SchedulerConfig { cores: 4, ..SchedulerConfig::default() };
        let failure = PolicyFailure::default();
        let policy = program.start(&config, DECISION_TIMEOUT, failure.clone());
        let asked = decide(QuantumScheduler::with_policy(config.clone(), policy), jobs);
        if let Some(failed) = failure.get() {
            return Err(failed.into());
        }
        let own = decide(QuantumScheduler::new(config)?, jobs);
        for (name, times) in [("round-robin", own), (&program.name, asked)] {
            let at = |share: f64| times[(share * times.len() as f64) as usize].as_secs_f64() * 1e6;
            println!("{jobs:4}  {name:11}  {:6.1} us  {:6.1} us", at(0.5), at(0.99));
        }
    }
    Ok(())
}
