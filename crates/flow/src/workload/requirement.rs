//! A task's requirement as in iabw eq. (8) to (10): its time and its mean bandwidth when it runs
//! alone.
//!
//! Times are those on a machine whose memories are all as fast as the local DRAM. With slower ones
//! a task takes longer even alone; the engine measures that.

use memweir_core::{BytesPerSec, Nanos};
use memweir_policy::iabw::{Requirement, ideal_average_bandwidth};

use crate::program::{Demand, Program};
use crate::task::Task;

/// Returns the traffic of a demand with all memories, both directions.
#[must_use]
pub fn rate(demand: &Demand) -> BytesPerSec {
    demand.flows.iter().map(|flow| flow.reads + flow.writes).sum()
}

/// Returns the mean bandwidth of one round of a program.
#[must_use]
pub fn mean_bandwidth(program: &Program) -> BytesPerSec {
    BytesPerSec(bytes_per_round(program) / program.length().as_secs_f64().max(f64::MIN_POSITIVE))
}

fn bytes_per_round(program: &Program) -> f64 {
    bytes_up_to(program, program.length())
}

/// Returns the bytes that a program moves from its start up to `end`, at most its length.
fn bytes_up_to(program: &Program, end: Nanos) -> f64 {
    let mut left = end;
    let mut bytes = 0.0;
    for span in &program.spans {
        let length = span.length.min(left);
        bytes += length.as_secs_f64() * rate(&span.demand).0;
        left = left - length;
        if left == Nanos::ZERO {
            break;
        }
    }
    bytes
}

/// Returns the requirement of a task: its work, and the mean bandwidth over it, from the task's
/// offset on and with as many rounds of the program as the work takes.
#[must_use]
pub fn of(task: &Task) -> Requirement {
    let round = task.program.length().0.max(1);
    let offset = task.offset.0 % round;
    let end = offset + task.work.0;
    let rounds = (end / round) as f64;
    let mut bytes = bytes_up_to(&task.program, Nanos(end % round));
    if rounds > 0.0 {
        bytes += rounds * bytes_per_round(&task.program);
    }
    bytes -= bytes_up_to(&task.program, Nanos(offset));
    let seconds = task.work.as_secs_f64().max(f64::MIN_POSITIVE);
    Requirement { time: task.work, bandwidth: BytesPerSec(bytes.max(0.0) / seconds), cores: 1 }
}

/// Returns the ideal average bandwidth of a batch on `cores` cores, iabw eq. (10), from the
/// requirements of its tasks.
#[must_use]
pub fn ideal_average(tasks: &[Task], cores: u32) -> BytesPerSec {
    let requirements: Vec<Requirement> = tasks.iter().map(of).collect();
    ideal_average_bandwidth(&requirements, cores)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::program::{Flow, Span};
    use proptest::prelude::*;

    fn program(rates: &[f64]) -> Arc<Program> {
        let span = |rate: &f64| {
            let mut demand = Demand::default();
            demand.flows[0] = Flow { reads: BytesPerSec(*rate), writes: BytesPerSec(*rate / 2.0) };
            Span { length: Nanos(100), demand }
        };
        Arc::new(Program { name: "p".to_owned(), spans: rates.iter().map(span).collect() })
    }

    fn task(program: &Arc<Program>, offset: u64, work: u64) -> Task {
        Task { offset: Nanos(offset), work: Nanos(work), ..Task::once("t", Arc::clone(program)) }
    }

    #[test]
    fn work_counts_from_the_offset_round_the_program() {
        let program = program(&[2.0, 4.0, 0.0]);
        // Rates with writes: 3, 6, 0. From 50: 50 x 3 + 100 x 6 + 100 x 0 + 50 x 3, over 300.
        let requirement = of(&task(&program, 50, 300));
        assert!((requirement.bandwidth.0 - 3.0).abs() < 1e-9, "{requirement:?}");
        // Two rounds and a half: 2 x 900 + 300 + 50 x 6 over 750.
        let requirement = of(&task(&program, 0, 750));
        assert!((requirement.bandwidth.0 - 2400.0 / 750.0).abs() < 1e-9, "{requirement:?}");
        assert_eq!(requirement.time, Nanos(750));
    }

    #[test]
    fn equal_tasks_require_four_means_on_four_cores() {
        // Eight tasks of mean 3 on four cores: 8 x 3 x T over T + T.
        let program = program(&[2.0, 4.0, 0.0]);
        let tasks: Vec<_> = (0..8).map(|_| task(&program, 0, 600)).collect();
        let iabw = ideal_average(&tasks, 4);
        assert!((iabw.0 - 12.0).abs() < 1e-9, "{iabw}");
    }

    proptest! {
        #[test]
        fn whole_rounds_have_the_mean_wherever_they_start(
            rates in prop::collection::vec(0.0..10.0_f64, 1..8),
            offset in 0u64..5000,
            rounds in 1u64..5,
        ) {
            let program = program(&rates);
            let work = program.length().0 * rounds;
            let mean = mean_bandwidth(&program);
            let found = of(&task(&program, offset, work)).bandwidth;
            prop_assert!(mean.distance(found).0 < 1e-6, "{mean} {found}");
        }
    }
}
