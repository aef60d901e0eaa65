//! Growth of latency by the mix of reads and writes, in the engine: on few cores and on many, with
//! one memory and with several.

use std::sync::Arc;

use memweir_core::Picos;
use memweir_core::medium::MediumKind;
use memweir_flow::service::{Growth, GrowthLine, GrowthPoint};
use memweir_flow::{Machine, Memory, Program, ServiceCurve, Task, simulate};

use crate::common::{experiment, gb, machine, ms, span};

/// DRAM of 10 GB/s that is as fast as unloaded if all lines are read, and three times as slow when
/// it saturates with half of its lines written.
fn minding(cores: u32, memories: usize) -> Machine {
    let mut machine = machine(cores, 10.0);
    let line = |read_share, stretch| GrowthLine {
        read_share,
        points: vec![GrowthPoint { utilization: 1.0, stretch }],
    };
    machine.memories[0].service.growth = Growth { lines: vec![line(0.5, 3.0), line(1.0, 1.0)] };
    for number in 1..memories {
        machine.memories.push(Memory {
            name: format!("slow-{number}"),
            kind: MediumKind::Nvm,
            node: 0,
            read_latency: Picos::from_nanos(100),
            write_latency: Picos::from_nanos(200),
            service: ServiceCurve::flat(gb(2.0)),
        });
    }
    machine
}

/// Creates a task of half a second of progress that only accesses memory, at these rates in GB/s.
fn waiting(reads: f64, writes: f64) -> Task {
    let mut span = span(ms(1), reads);
    (span.demand.stall, span.demand.flows[0].writes) = (1.0, gb(writes));
    let program = Program { name: "waiting".to_owned(), spans: vec![span] };
    Task { work: ms(500), ..Task::once("waiting", Arc::new(program)) }
}

/// One task reads 4 GB/s and another writes 2: a third of the load is written, two thirds of the
/// way to half. So x = 1 + 2/3 * 2 u with u = 0.6 / x, and x^2 - x - 0.8 = 0.
#[test]
fn tasks_wait_by_what_is_read_and_written() {
    let x = (1.0 + 4.2f64.sqrt()) / 2.0;
    for cores in [2, 6, 12, 32] {
        for memories in [1, 2] {
            let tasks = vec![waiting(4.0, 0.0), waiting(0.0, 2.0)];
            let experiment = experiment(minding(cores, memories), tasks, "os");
            let outcome = simulate(&experiment).expect("a possible experiment");
            for task in &outcome.tasks {
                let took = task.finish.as_f64() / ms(500).as_f64();
                assert!(
                    (took / x - 1.0).abs() < 1e-6,
                    "{cores} cores, {memories}: {took}, not {x}"
                );
            }
        }
    }
}

/// Readers together are as fast as alone; if they also write, they wait, and get no more than the
/// memory carries.
#[test]
fn writes_of_their_own_are_waited_for() {
    let took = |reads: f64, writes: f64| {
        let tasks = vec![waiting(reads, writes), waiting(reads, writes)];
        let outcome = simulate(&experiment(minding(2, 1), tasks, "os")).expect("possible");
        outcome.turnaround.as_f64() / ms(500).as_f64()
    };
    assert!((took(4.0, 0.0) - 1.0).abs() < 1e-6);
    // The same load, half of it written: x = 1 + 2 u with u = 0.8 / x, so x^2 - x - 1.6 = 0.
    let x = (1.0 + 7.4f64.sqrt()) / 2.0;
    assert!((took(2.0, 2.0) / x - 1.0).abs() < 1e-6);
    // 40 of 10 GB/s: saturated, where growth alone would say 3.
    assert!((took(10.0, 10.0) - 4.0).abs() < 1e-6);
}
