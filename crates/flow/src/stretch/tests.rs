use super::*;
use crate::machine::{Interconnect, Memory, Node};
use crate::program::Flow;
use crate::service::{Growth, GrowthLine, GrowthPoint, ServiceCurve};
use memweir_core::medium::MediumKind;
use memweir_core::{BytesPerSec, Picos};
use proptest::prelude::*;

fn gb(value: f64) -> BytesPerSec {
    BytesPerSec::from_gb(value)
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * right.abs().max(1.0)
}

/// Creates a task that reads from local DRAM, in GB/s.
fn reader(rate: f64, stall: f64) -> Contender {
    let mut demand = Demand { stall, ..Demand::default() };
    demand.flows[0] = Flow { reads: gb(rate), writes: gb(0.0) };
    Contender { demand, placement: Placement::default(), node: 0 }
}

fn nvm(node: usize, read: u64, write: u64, service: ServiceCurve) -> Memory {
    Memory {
        name: format!("nvm-{node}"),
        kind: MediumKind::Nvm,
        node,
        read_latency: Picos::from_nanos(read),
        write_latency: Picos::from_nanos(write),
        service,
    }
}

/// Creates DRAM of 10 GB/s and NVM of 4 GB/s that is three times as slow to read and eight times to
/// write.
fn hybrid() -> Machine {
    let mut machine = Machine::uniform("hybrid", 4, gb(10.0));
    let service = ServiceCurve { read_cost: 1.0, write_cost: 2.0, ..ServiceCurve::flat(gb(4.0)) };
    machine.memories.push(nvm(0, 75, 200, service));
    machine
}

#[test]
fn nothing_stretches_below_the_peak() {
    let machine = Machine::uniform("one", 4, gb(10.0));
    assert_eq!(speeds(&machine, &[reader(5.0, 0.7), reader(5.0, 0.2)]), [1.0, 1.0]);
    assert_eq!(speeds(&machine, &[]), [0.0; 0]);
    assert_eq!(speeds(&machine, &[reader(0.0, 0.3)]), [1.0], "no traffic, nothing to wait for");
}

/// Two tasks of 8 GB/s, one that always waits and one that waits half of its time, share 10 GB/s:
/// 8/x + 8/(0.5 + 0.5 x) = 10 gives 5x^2 - 7x - 4 = 0 and x = (7 + sqrt 129) / 10.
#[test]
fn unlike_tasks_share_the_capacity_by_hand() {
    let machine = Machine::uniform("one", 2, gb(10.0));
    let speeds = speeds(&machine, &[reader(8.0, 1.0), reader(8.0, 0.5)]);
    let x = (7.0 + 129.0f64.sqrt()) / 10.0;
    assert!(close(speeds[0], 1.0 / x) && close(speeds[1], 1.0 / (0.5 + 0.5 * x)), "{speeds:?}");
    assert!(close(8.0 * (speeds[0] + speeds[1]), 10.0));
}

#[test]
fn slow_memory_stretches_a_task_that_is_alone() {
    // Half of its lines are writes, all of them in NVM: (3 + 8) / 2 = 5.5 times the DRAM's latency.
    let mut task = reader(0.5, 0.4);
    task.demand.flows[0].writes = gb(0.5);
    task.placement = Placement::all_in(1);
    let speeds = speeds(&hybrid(), &[task]);
    assert!(close(speeds[0], 1.0 / (0.6 + 0.4 * 5.5)), "{speeds:?}");
}

#[test]
fn a_saturated_memory_leaves_the_users_of_another_alone() {
    // Four writers of 2 GB/s cost 16 GB/s of the NVM's time of 4, at 8 times the latency of DRAM.
    let mut writer = reader(0.0, 0.5);
    writer.demand.flows[0].writes = gb(2.0);
    writer.placement = Placement::all_in(1);
    let tasks = [writer, writer, writer, reader(9.0, 0.9)];
    let machine = hybrid();
    let speeds = speeds(&machine, &tasks);
    assert!(close(speeds[3], 1.0));
    // Unloaded, three of them would ask for 3 * 2 * 2 / 4.5 = 2.67 GB/s of the NVM's 4.
    assert!(close(speeds[0], 1.0 / 4.5));
    let nine = [writer; 9];
    let speeds = super::speeds(&machine, &nine);
    assert!(close(speeds[0] * 9.0 * 4.0, 4.0), "{speeds:?}");
}

#[test]
fn remote_accesses_wait_for_the_interconnect_too() {
    let mut machine = Machine::uniform("two", 2, gb(10.0));
    machine.nodes.push(Node { cores: 2 });
    let far = Memory { name: "dram-1".to_owned(), node: 1, ..machine.memories[0].clone() };
    machine.memories.push(far);
    machine.interconnect = Some(Interconnect { latency: Picos::from_nanos(25), capacity: gb(6.0) });
    let local = reader(5.0, 0.5);
    let remote = Contender { placement: Placement::all_in(1), ..local };
    let moved = Contender { node: 1, ..remote };
    // Twice the latency: 1 / (0.5 + 0.5 * 2).
    let alone = speeds(&machine, &[local, remote, moved]);
    assert!(close(alone[0], 1.0) && close(alone[1], 1.0 / 1.5) && close(alone[2], 1.0));
    // Two remote ones ask for 6.67 GB/s and get 6.
    let both = speeds(&machine, &[local, remote, remote]);
    assert!(close(both[0], 1.0) && close(both[1] * 10.0, 6.0), "{both:?}");
}

#[test]
fn latency_grows_below_saturation_as_the_curve_says() {
    let mut machine = Machine::uniform("grows", 4, gb(10.0));
    machine.memories[0].service.growth = vec![
        GrowthPoint { utilization: 0.5, stretch: 1.0 },
        GrowthPoint { utilization: 1.0, stretch: 2.0 },
    ]
    .into();
    assert_eq!(speeds(&machine, &[reader(4.0, 1.0)]), [1.0]);
    // One task that always waits: 0.8 / x busy, and x = 1 + 2 (0.8 / x - 0.5), so x^2 = 1.6.
    let alone = speeds(&machine, &[reader(8.0, 1.0)]);
    assert!(close(alone[0], 1.0 / 1.6f64.sqrt()), "{alone:?}");
    // Three of them ask for 2.4 and at twice the latency still for 1.2: saturated.
    let three = speeds(&machine, &[reader(8.0, 1.0); 3]);
    assert!(close(three[0] * 24.0, 10.0), "{three:?}");
}

#[test]
fn a_task_that_hides_all_its_latency_still_yields_at_the_peak() {
    let machine = Machine::uniform("one", 4, gb(10.0));
    let speeds = speeds(&machine, &[reader(15.0, 0.0)]);
    assert!(close(speeds[0] * 15.0, 10.0));
}

/// Creates DRAM of 10 GB/s on which latency grows with the share of writes: not at all if all lines
/// are read, to three times if half are.
fn minding() -> Machine {
    let mut machine = Machine::uniform("minding", 4, gb(10.0));
    let line = |read_share, stretch| GrowthLine {
        read_share,
        points: vec![GrowthPoint { utilization: 1.0, stretch }],
    };
    machine.memories[0].service.growth = Growth { lines: vec![line(0.5, 3.0), line(1.0, 1.0)] };
    machine
}

/// One task reads 4 GB/s and another writes 2, both always waiting: a third of the load is written,
/// two thirds of the way to half. So x = 1 + 2/3 * 2 u with u = 0.6 / x, and x^2 - x - 0.8 = 0.
#[test]
fn growth_follows_what_is_read_and_written() {
    let mut writer = reader(0.0, 1.0);
    writer.demand.flows[0].writes = gb(2.0);
    let machine = minding();
    let mixed = speeds(&machine, &[reader(4.0, 1.0), writer]);
    let x = (1.0 + 4.2f64.sqrt()) / 2.0;
    assert!(close(mixed[0], 1.0 / x) && close(mixed[1], 1.0 / x), "{mixed:?} {x}");
    // Readers alone do not slow down up to the peak, and share it beyond.
    assert_eq!(speeds(&machine, &[reader(4.0, 1.0), reader(5.0, 0.5)]), [1.0, 1.0]);
    let saturated = speeds(&machine, &[reader(8.0, 0.5), reader(8.0, 0.5), writer]);
    let served = 8.0 * (saturated[0] + saturated[1]) + 2.0 * saturated[2];
    assert!(close(served, 10.0), "{saturated:?}");
    assert_eq!(speeds(&machine, &[reader(0.0, 0.3)]), [1.0], "no traffic, nothing to wait for");
}

/// Creates two nodes with DRAM and NVM each; every memory and the interconnect have their own
/// costs.
fn full() -> Machine {
    let mut machine = hybrid();
    machine.nodes.push(Node { cores: 4 });
    let dram = Memory { name: "dram-1".to_owned(), node: 1, ..machine.memories[0].clone() };
    machine.memories.push(dram);
    let mut slow = ServiceCurve { read_cost: 1.5, write_cost: 4.0, ..ServiceCurve::flat(gb(3.0)) };
    slow.growth = vec![
        GrowthPoint { utilization: 0.3, stretch: 1.1 },
        GrowthPoint { utilization: 0.9, stretch: 3.0 },
    ]
    .into();
    machine.memories.push(nvm(1, 120, 60, slow));
    machine.interconnect = Some(Interconnect { latency: Picos::from_nanos(10), capacity: gb(5.0) });
    machine
}

fn contenders(memories: usize, most: usize) -> impl Strategy<Value = Vec<Contender>> {
    let share = || prop::collection::vec(0.0..0.33f64, MAX_MEDIA);
    let task = (0.0..8.0f64, 0.0..4.0f64, 0.0..=1.0f64, share(), share(), 0usize..2);
    let build = move |(reads, writes, stall, read_shares, write_shares, node)| {
        let limit = |shares: Vec<f64>| {
            std::array::from_fn(|m| if m > 0 && m < memories { shares[m] } else { 0.0 })
        };
        let mut demand = Demand { stall, ..Demand::default() };
        demand.flows[0] = Flow { reads: gb(reads), writes: gb(writes) };
        let placement = Placement { reads: limit(read_shares), writes: limit(write_shares) };
        Contender { demand, placement, node: if memories > 2 { node } else { 0 } }
    };
    prop::collection::vec(task.prop_map(build), 1..most)
}

/// Returns the largest difference between a resource's busy share and its curve.
fn residual(machine: &Machine, tasks: &[Contender]) -> f64 {
    let solver = Solver::new(machine);
    let responses: Vec<Response> =
        tasks.iter().map(|t| solver.response(&t.demand, &t.placement, t.node)).collect();
    let stretch = solver.solve(&responses);
    let mut worst = 0.0f64;
    for place in 0..RESOURCES {
        let busy: f64 =
            responses.iter().map(|r| r.rate[place] * r.slowness * r.speed(&stretch)).sum();
        let (curve, x) = (&solver.curves[place], stretch.0[place]);
        let wrong = if x > curve.saturated() || curve.minds_writes() && busy > 1.0 - 1e-9 {
            (busy - 1.0).abs()
        } else if curve.minds_writes() {
            let writes: f64 =
                responses.iter().map(|r| r.writes[place] * r.slowness * r.speed(&stretch)).sum();
            let part = if busy > 0.0 { writes / busy } else { 0.0 };
            (x - curve.stretch(busy, part)).abs()
        } else {
            // On the curve, or on a vertical piece of its inverse.
            let fits = |(from, to): (GrowthPoint, GrowthPoint)| {
                let part = (x - from.stretch) / (to.stretch - from.stretch);
                let at = from.utilization + part * (to.utilization - from.utilization);
                if from.stretch == to.stretch {
                    let outside = (from.utilization - busy).max(busy - to.utilization).max(0.0);
                    outside + (x - from.stretch).abs()
                } else if (-1e-9..=1.0 + 1e-9).contains(&part) {
                    (busy - at).abs()
                } else {
                    f64::INFINITY
                }
            };
            curve.pieces().map(fits).fold(f64::INFINITY, f64::min)
        };
        worst = worst.max(wrong);
    }
    worst
}

fn serves_its_capacity(groups: Vec<(f64, f64)>) -> Result<(), TestCaseError> {
    let (rates, shares): (Vec<f64>, Vec<f64>) = groups.into_iter().unzip();
    prop_assume!(asked(&rates) > 1.0);
    let mut speeds = vec![1.0; rates.len()];
    let delay = saturate(&rates, &shares, &mut speeds);
    let busy: f64 = rates.iter().zip(&speeds).map(|(rate, speed)| rate * speed).sum();
    prop_assert!((busy - 1.0).abs() < 1e-8, "{busy}");
    for (share, speed) in shares.iter().zip(&speeds) {
        prop_assert!((speed * (1.0 + share * delay) - 1.0).abs() < 1e-12);
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_resource_is_as_busy_as_its_curve_says(
        one in contenders(1, 40), two in contenders(2, 20), four in contenders(4, 20),
    ) {
        let dram = Machine::uniform("one", 4, gb(10.0));
        let mut both = full();
        both.memories[0].service.growth = minding().memories[0].service.growth.clone();
        let cases = [
            (dram, one.clone()),
            (minding(), one),
            (hybrid(), two),
            (full(), four.clone()),
            (both, four),
        ];
        for (machine, tasks) in cases {
            let residual = residual(&machine, &tasks);
            prop_assert!(residual < 1e-8, "{} off by {residual}", machine.name);
        }
    }

    #[test]
    fn what_saturates_one_memory_is_served_to_its_capacity(
        groups in prop::collection::vec((0.0..3.0f64, LEAST_STALL..1.0), 1..12),
    ) {
        serves_its_capacity(groups)?;
    }

    /// Four groups have a solver of their own.
    #[test]
    fn four_that_saturate_a_memory_are_served_to_its_capacity(
        mut groups in prop::collection::vec(
            (prop_oneof![Just(0.0), 0.0..1.0f64, 0.0..50.0f64], LEAST_STALL..1.0), 4,
        ),
    ) {
        groups[0].0 += 1.0;
        serves_its_capacity(groups)?;
    }

    #[test]
    fn nothing_runs_faster_than_alone_on_one_memory(tasks in contenders(1, 20)) {
        let machine = Machine::uniform("one", 4, gb(10.0));
        let together = speeds(&machine, &tasks);
        for (task, speed) in tasks.iter().zip(&together) {
            let alone = speeds(&machine, &[*task])[0];
            prop_assert!(*speed <= alone * (1.0 + 1e-9));
        }
    }

    #[test]
    fn another_task_on_one_memory_helps_nobody(tasks in contenders(1, 20)) {
        let mut machine = Machine::uniform("one", 4, gb(10.0));
        machine.memories[0].service.growth = vec![
            GrowthPoint { utilization: 0.2, stretch: 1.0 },
            GrowthPoint { utilization: 0.7, stretch: 1.3 },
            GrowthPoint { utilization: 0.95, stretch: 4.0 },
        ]
        .into();
        let (all, fewer) = (speeds(&machine, &tasks), speeds(&machine, &tasks[1..]));
        for (with, without) in all[1..].iter().zip(&fewer) {
            prop_assert!(*with <= without * (1.0 + 1e-9));
        }
    }

    #[test]
    fn the_order_of_tasks_does_not_matter(tasks in contenders(4, 12)) {
        let machine = full();
        let mut turned = tasks.clone();
        turned.reverse();
        let forward = speeds(&machine, &tasks);
        let mut backward = speeds(&machine, &turned);
        backward.reverse();
        for (left, right) in forward.iter().zip(&backward) {
            prop_assert!((left - right).abs() <= 1e-8 * right, "{left} {right}");
        }
    }
}
