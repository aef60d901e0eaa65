//! The common experiment on DDR4-2400, compared with Ramulator 2.1 and DRAMsim3 on the same traces
//! with the same driver loop: cycles agree within 2 % for reads (a saturated stream lies between
//! the two simulators) and within 6 % with writes, row hits within 0.1 % of the requests.

mod common;

use common::{Kind, Seen, machine_h, run, trace};
use memweir_dram::drive::Mode::{self, Pace, Parallel, Saturate};
use sha2::{Digest, Sha256};

const REQUESTS: usize = 2_000_000;

#[test]
fn the_traces_are_those_of_the_experiment() {
    let expected = [
        "b99d54211e41bb4d4d82b3f4f5c6189a953aeecfb88150f5c64deb89c001e014",
        "cfc63dc923028094cbd6f3d075d2bf6ba8d52deaaaab4c0df7ac0826e24ce66f",
        "be192700df8303aa3d6284e2645ce85144344bcda132bd1ca50e55748401e521",
        "a8672407b85e8405151b0bebfc96802b4a0b604e02b663b8d33c9097616cbba4",
        "863688b33f8e5a751747b0085d04c590e83bcee0f76179891e5bdc7ed71f1d51",
    ];
    for (kind, expected) in Kind::ALL.into_iter().zip(expected) {
        let mut digest = Sha256::new();
        trace(kind).take(REQUESTS).for_each(|word| digest.update(word.to_le_bytes()));
        let found: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, expected, "{kind:?}");
    }
}

/// A trace and its mode; cycles, row hits and mean read latency of Ramulator; cycles and row hits
/// of DRAMsim3. Latencies are compared with Ramulator alone, whose queues are the same.
type Row = (Kind, Mode, [f64; 3], [f64; 2]);

const FULL: [Row; 8] = [
    (Kind::StreamR, Saturate, [10_712_499.0, 1_982_783.0, 191.5], [10_228_593.0, 1_982_771.0]),
    (Kind::StreamW, Saturate, [10_853_594.0, 1_982_475.0, 280.8], [10_340_662.0, 1_982_947.0]),
    (Kind::BgR, Saturate, [8_412_301.0, 1_980_637.0, 154.8], [8_421_405.0, 1_979_379.0]),
    (Kind::RandR, Saturate, [13_852_287.0, 83.0, 258.6], [13_756_860.0, 158.0]),
    (Kind::StreamR, Parallel(16), [11_990_758.0, 1_983_016.0, 94.93], [12_000_050.0, 1_982_933.0]),
    (Kind::StreamW, Parallel(16), [11_987_292.0, 1_982_324.0, 142.85], [11_799_073.0, 1_982_212.0]),
    (Kind::BgR, Parallel(16), [8_412_283.0, 1_980_780.0, 66.30], [8_422_878.0, 1_980_175.0]),
    (Kind::RandR, Parallel(16), [14_157_561.0, 44.0, 112.26], [14_295_933.0, 44.0]),
];

fn differ(found: f64, expected: f64) -> f64 {
    (found - expected).abs() / expected
}

#[test]
fn full_traces_take_as_long_as_elsewhere() {
    for (kind, mode, ramulator, dramsim) in FULL {
        let run = run(&machine_h(), trace(kind).take(REQUESTS), mode, &mut ());
        let cycles = run.cycles();
        let hits = run.stats.row_hits as f64;
        let context = format!("{kind:?} {mode:?}: {cycles} cycles, {hits} hits");
        let tolerance = if kind == Kind::StreamW { 0.06 } else { 0.02 };
        if !(kind == Kind::StreamR && mode == Saturate) {
            assert!(differ(cycles, dramsim[0]) < tolerance, "{context}");
        }
        // It is far nearer to the simulator whose controller ours follows.
        assert!(differ(cycles, ramulator[0]) < 0.001, "{context}");
        for other in [ramulator[1], dramsim[1]] {
            assert!((hits - other).abs() <= 0.001 * REQUESTS as f64, "{context}");
        }
        let mean = run.mean_latency();
        assert!(differ(mean, ramulator[2]) < 0.005, "{context}, mean {mean}");
        assert_eq!(run.stats.requests(), REQUESTS as u64);
    }
}

#[test]
fn latencies_at_lower_loads_are_those_of_ramulator() {
    let modes = [Parallel(1), Parallel(2), Parallel(32), Pace(8), Pace(50), Pace(200)];
    let expected = [
        (Kind::StreamR, [22.23, 22.38, 174.0, 53.98, 33.67, 33.30]),
        (Kind::BgR, [22.36, 22.29, 133.5, 43.33, 33.20, 33.80]),
        (Kind::RandR, [56.07, 59.12, 220.2, 143.9, 67.21, 60.93]),
    ];
    for (kind, means) in expected {
        for (mode, expected) in modes.into_iter().zip(means) {
            let run = run(&machine_h(), trace(kind).take(200_000), mode, &mut ());
            assert!(
                differ(run.mean_latency(), expected) < 0.005,
                "{kind:?} {mode:?}: {:.2}, not {expected}",
                run.mean_latency()
            );
        }
    }
}

#[test]
fn unloaded_reads_take_what_their_commands_take() {
    // Closed bank: tRCD + CL + BL / 2; open row: CL + BL / 2; another row: tRP before. The last
    // waits for nothing else: 76 cycles after the row was opened, tRAS is over.
    let mut seen = Seen::default();
    run(&machine_h(), [0, 64, 128, 1 << 17], Parallel(1), &mut seen);
    assert_eq!(seen.latencies(), [38, 21, 21, 55]);
}

#[test]
fn bounds_that_follow_from_the_timing_are_met() {
    let refresh = 1.0 - 420.0 / 9360.0;
    let per_request = |kind, mode| {
        run(&machine_h(), trace(kind).take(500_000), mode, &mut ()).cycles() / 500_000.0
    };
    // Four activates per tFAW; nothing is faster, and random reads come near.
    let random = per_request(Kind::RandR, Saturate);
    assert!((26.0 / 4.0 / refresh..7.0).contains(&random), "{random}");
    // The data bus.
    let spread = per_request(Kind::BgR, Saturate);
    assert!((4.0 / refresh..4.23).contains(&spread), "{spread}");
    // One bank group after another: tCCD_L.
    let stream = per_request(Kind::StreamR, Parallel(16));
    assert!((5.95..6.05).contains(&stream), "{stream}");
}

#[test]
fn mixed_random_traffic_drains_and_stays_near_the_activation_bound() {
    let run = run(&machine_h(), trace(Kind::RandW).take(500_000), Saturate, &mut ());
    let per_request = run.cycles() / 500_000.0;
    assert!((6.8..7.3).contains(&per_request), "{per_request}");
}
