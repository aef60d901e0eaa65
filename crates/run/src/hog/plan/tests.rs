use memweir_core::Nanos;
use memweir_core::names::Named;
use proptest::prelude::*;

use super::*;

/// A step of 64 bytes takes 4 ns at once, 14 ns with 10 nops, 104 ns with 100.
fn table() -> IdleTable {
    let point = |idle, ns: f64| IdlePoint { idle, bandwidth: BytesPerSec(64.0 / ns * 1e9) };
    IdleTable::new(Kernel::Read, &[point(100, 104.0), point(0, 4.0), point(10, 14.0)]).unwrap()
}

fn segment(rates: &[f64]) -> Segment {
    Segment::new(Nanos::MILLI, rates.iter().copied().map(BytesPerSec).collect()).unwrap()
}

#[test]
fn nops_are_interpolated_and_go_on_past_the_table() {
    let idle = |ns| table().idle_for(ns);
    assert_eq!(idle(1.0), 0);
    assert_eq!(idle(4.0), 0);
    assert_eq!(idle(9.0), 5);
    assert_eq!(idle(14.0), 10);
    assert_eq!(idle(59.0), 55);
    assert_eq!(idle(1004.0), 1000);
    assert_eq!(idle(1e19), u32::MAX);
    assert!((table().fastest().0 - 16e9).abs() < 1.0);
}

#[test]
fn a_segment_becomes_steps_and_nops() {
    // 1 ms at 16 GB/s: 250,000 lines of 4 ns; at 1 GB/s: 15,625 lines of 64 ns (60 nops);
    // a pause: one line and nops for the rest of the millisecond.
    let plan = HogPlan::of_segment(&segment(&[16e9, 1e9, 0.0]), &table());
    let groups: Vec<_> = plan.groups().iter().map(|group| (group.steps, group.idle)).collect();
    assert_eq!(groups, [(250_000, 0), (15_625, 60), (1, 999_996)]);
    assert_eq!(plan.demand(), Some(segment(&[16e9, 1e9, 0.0]).mean()));
}

#[test]
fn the_copy_kernel_moves_three_lines_per_step() {
    let point = |idle, ns: f64| IdlePoint { idle, bandwidth: BytesPerSec(192.0 / ns * 1e9) };
    let table = IdleTable::new(Kernel::Copy, &[point(0, 10.0), point(10, 20.0)]).unwrap();
    // 9.6 GB/s of 192-byte steps: 50,000 steps of 20 ns.
    let plan = HogPlan::of_segment(&segment(&[9.6e9]), &table);
    assert_eq!(plan.groups(), [Group { steps: 50_000, idle: 10 }]);
}

#[test]
fn a_table_of_noise_is_leveled_or_refused() {
    let point = |idle, gb| IdlePoint { idle, bandwidth: BytesPerSec(gb) };
    let noisy =
        IdleTable::new(Kernel::Read, &[point(0, 64.0), point(1, 66.0), point(2, 32.0)]).unwrap();
    // Entries: 1 s, 1 s (leveled), 2 s per step.
    assert_eq!(noisy.idle_for(1.5e9), 2);
    let repeated = [point(0, 64.0), point(0, 1.0), point(0, 99.0), point(8, 6.4)];
    // The median of the repeats is 1 s per step; 10 s with 8 nops.
    let repeated = IdleTable::new(Kernel::Read, &repeated).unwrap();
    assert_eq!(repeated.idle_for(5.5e9), 4);
    assert!(IdleTable::new(Kernel::Read, &[point(0, 64.0)]).is_err());
    assert!(IdleTable::new(Kernel::Read, &[point(0, 64.0), point(9, 65.0)]).is_err());
    assert!(IdleTable::new(Kernel::Read, &[point(0, 0.0), point(9, 1.0)]).is_err());
}

#[test]
fn wrong_files_are_refused_with_their_line() {
    for (text, line, reason) in [
        ("", 1, "no HogSim file"),
        ("memweir-hogsim 1\n3 4\n", 2, "kernel"),
        ("\nmemweir-hogsim 1\n", 3, "`kernel` and its name must follow"),
        ("memweir-hogsim 1\nkernel cpy\n3 4\n", 2, "unknown kernel `cpy`"),
        ("memweir-hogsim 1\nkernel copy\n\n3 4\n3\n", 5, "`3` is not"),
        ("memweir-hogsim 1\nkernel copy\n-3 4\n", 3, "`-3 4` is not"),
        ("memweir-hogsim 1\nkernel copy\n3 4294967296\n", 3, "is not"),
    ] {
        let error = HogPlan::parse(text, "p.txt").unwrap_err();
        assert_eq!(error.line, Some(line), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    let error = HogPlan::parse("memweir-hogsim 1\nkernel cpy\n", "p.txt").unwrap_err();
    assert!(error.to_string().contains("did you mean `copy`"), "{error}");
    for groups in ["", "0 5\n", "1099511627777 0\n"] {
        assert!(
            HogPlan::parse(&format!("memweir-hogsim 1\nkernel copy\n{groups}"), "p.txt").is_err()
        );
    }
}

proptest! {
    #[test]
    fn files_come_back(
        groups in prop::collection::vec((1_u64..MAX_STEPS, any::<u32>()), 1..150),
        kernel in prop::sample::select(Kernel::ALL.to_vec()),
    ) {
        let groups = groups.into_iter().map(|(steps, idle)| Group { steps, idle }).collect();
        let plan = HogPlan::new(kernel, groups).unwrap();
        prop_assert_eq!(HogPlan::parse(&plan.to_text(), "x").unwrap(), plan);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(memweir-hogsim 1\n)?(kernel read\n)?\\PC{0,80}") {
        if let Ok(plan) = HogPlan::parse(&text, "x") {
            prop_assert!(plan.steps() > 0);
        }
    }

    #[test]
    fn a_plan_takes_the_time_and_moves_the_bytes_of_its_segment(
        rates in prop::collection::vec(1e8..16e9, 1..120),
    ) {
        let segment = segment(&rates);
        let plan = HogPlan::of_segment(&segment, &table());
        let bytes = plan.steps() as f64 * 64.0;
        let wanted = segment.mean().0 * segment.duration().as_secs_f64();
        prop_assert!((bytes / wanted - 1.0).abs() < 0.001);
        // The table is 4 ns + 1 ns per nop.
        let ns: f64 =
            plan.groups().iter().map(|g| g.steps as f64 * (4.0 + f64::from(g.idle))).sum();
        prop_assert!((ns / segment.duration().as_f64() - 1.0).abs() < 0.13, "{ns}");
    }
}
