//! Updates by single quanta, computed by hand.

use memweir_core::Lines;

use super::*;

const SECOND: Nanos = Nanos::from_millis(1_000);

fn gb(value: f64) -> BytesPerSec {
    BytesPerSec::from_gb(value)
}

/// On a bus of 10 GB/s.
fn sample(overload: f64, bandwidth: f64, saturated: bool) -> SlowdownSample {
    SlowdownSample { overload, peak: gb(10.0), bandwidth: gb(bandwidth), saturated, alone: false }
}

/// Learns a second in which a job got `got` GB/s of `demand`.
fn learn(
    slowdown_model: &mut SlowdownModel,
    sample: SlowdownSample,
    demand: Option<f64>,
    got: f64,
    instructions: u64,
) -> BandwidthEvidence {
    let counts = Counts::new(instructions, Lines((got * 1e9 / 64.0) as u64), Lines::ZERO);
    slowdown_model.learn(&sample, demand.map(gb), &Measurement::new(&counts, SECOND, SECOND))
}

#[track_caller]
fn assert_sensitivity(slowdown_model: &SlowdownModel, expected: f64) {
    assert!((slowdown_model.sensitivity() - expected).abs() < 1e-6, "{slowdown_model:?}");
}

/// Demand is twice the peak, and the bus is full.
const FULL: (f64, f64, bool) = (2.0, 10.0, true);

fn full() -> SlowdownSample {
    sample(FULL.0, FULL.1, FULL.2)
}

#[test]
fn sensitivity_is_learned_from_what_a_job_got_of_what_it_required() {
    let mut slowdown_model = SlowdownModel::default();
    // Half: a slowdown of 2 at an overload of 2. A quarter of the way per quantum.
    learn(&mut slowdown_model, full(), Some(10.0), 5.0, 0);
    assert_sensitivity(&slowdown_model, 0.25);
    learn(&mut slowdown_model, full(), Some(10.0), 5.0, 0);
    assert_sensitivity(&slowdown_model, 0.4375);
    // Unknown demand teaches nothing; more than the predicted demand is no negative slowdown.
    learn(&mut slowdown_model, full(), None, 5.0, 0);
    assert_sensitivity(&slowdown_model, 0.4375);
    learn(&mut slowdown_model, full(), Some(10.0), 15.0, 0);
    assert_sensitivity(&slowdown_model, 0.328_125);
    // The same slowdown at an overload of 3 is half of the sensitivity.
    let mut overloaded = SlowdownModel::default();
    learn(&mut overloaded, sample(3.0, 10.0, true), Some(10.0), 5.0, 0);
    assert_sensitivity(&overloaded, 0.125);
    // No progress at all counts as the largest accepted sensitivity: 4.
    let mut stuck = SlowdownModel::default();
    learn(&mut stuck, full(), Some(10.0), 0.0, 0);
    assert_sensitivity(&stuck, 1.0);
}

#[test]
fn a_little_overload_and_an_idle_bus_teach_nothing() {
    let mut slowdown_model = SlowdownModel::default();
    learn(&mut slowdown_model, sample(1.05, 10.0, true), Some(10.0), 5.0, 0);
    learn(&mut slowdown_model, sample(0.9, 9.0, true), Some(10.0), 5.0, 0);
    // Without instruction counts or saturation there is no evidence: the job may have required
    // less.
    learn(&mut slowdown_model, sample(2.0, 8.0, false), Some(10.0), 5.0, 0);
    assert_sensitivity(&slowdown_model, 0.0);
}

/// Returns a job that was measured on a calm bus at 4 GB/s and a billion instructions per second.
fn known() -> SlowdownModel {
    let mut slowdown_model = SlowdownModel::default();
    learn(&mut slowdown_model, sample(0.4, 4.0, false), Some(4.0), 4.0, 1_000_000_000);
    slowdown_model
}

#[test]
fn the_same_traffic_per_instruction_is_the_same_phase() {
    let mut slowdown_model = known();
    // Half as fast in both figures: slowed down, though the bus carries less than it could.
    let broken_down = sample(2.0, 6.0, false);
    let evidence = learn(&mut slowdown_model, broken_down, Some(4.0), 2.0, 500_000_000);
    assert_eq!(evidence, BandwidthEvidence::Slowed);
    assert_sensitivity(&slowdown_model, 0.25);
    // Also without a predicted overload.
    let evidence = learn(&mut known(), sample(0.9, 6.0, false), Some(4.0), 2.0, 500_000_000);
    assert_eq!(evidence, BandwidthEvidence::Slowed);
    // Half the traffic, but as many instructions: another phase.
    let mut slowdown_model = known();
    let evidence = learn(&mut slowdown_model, broken_down, Some(4.0), 2.0, 1_000_000_000);
    assert_eq!(evidence, BandwidthEvidence::DemandUnlessSaturated);
    assert_sensitivity(&slowdown_model, 0.0);
}

#[test]
fn a_tenth_more_or_less_is_equal() {
    let evidence = |speed: f64, intensity: f64| {
        let instructions = (speed * 1e9) as u64;
        learn(&mut known(), sample(2.0, 6.0, false), None, 4.0 * speed * intensity, instructions)
    };
    // As much traffic per instruction, but for a tenth of the larger figure.
    assert_eq!(evidence(0.5, 1.105), BandwidthEvidence::Slowed);
    assert_eq!(evidence(0.5, 0.92), BandwidthEvidence::Slowed);
    assert_eq!(evidence(0.5, 1.15), BandwidthEvidence::DemandUnlessSaturated);
    assert_eq!(evidence(0.5, 0.88), BandwidthEvidence::DemandUnlessSaturated);
    // As fast as on a calm bus.
    assert_eq!(evidence(0.85, 1.0), BandwidthEvidence::Slowed);
    assert_eq!(evidence(0.95, 1.0), BandwidthEvidence::DemandUnlessSaturated);
}

#[test]
fn a_bus_in_demand_is_not_calm_however_little_it_carries() {
    let mut slowdown_model = SlowdownModel::default();
    let mut slow_after = |calm| {
        learn(&mut slowdown_model, calm, None, 4.0, 1_000_000_000);
        learn(&mut slowdown_model, sample(2.0, 6.0, false), None, 2.0, 500_000_000)
    };
    assert_eq!(slow_after(sample(1.2, 4.0, false)), BandwidthEvidence::DemandUnlessSaturated);
    assert_eq!(slow_after(sample(0.9, 5.5, false)), BandwidthEvidence::DemandUnlessSaturated);
    assert_eq!(slow_after(sample(0.9, 4.5, false)), BandwidthEvidence::Slowed);
}

#[test]
fn a_job_with_next_to_no_traffic_is_known_by_its_instructions() {
    let mut slowdown_model = SlowdownModel::default();
    learn(&mut slowdown_model, full(), Some(0.0), 0.0, 500);
    assert_sensitivity(&slowdown_model, 0.0);
    learn(&mut slowdown_model, sample(0.4, 4.0, false), Some(0.0), 0.0, 1_000);
    learn(&mut slowdown_model, full(), Some(0.0), 0.0, 500);
    assert_sensitivity(&slowdown_model, 0.25);
    // A hundredth of the peak is enough to tell another phase, and it takes a saturated bus.
    for (demand, sample, expected) in
        [(0.09, full(), 0.25), (0.11, full(), 0.0), (0.09, sample(2.0, 8.0, false), 0.0)]
    {
        let mut slowdown_model = SlowdownModel::default();
        learn(&mut slowdown_model, self::sample(0.4, 4.0, false), Some(demand), demand, 1_000);
        learn(&mut slowdown_model, sample, Some(demand), 0.1 * demand, 500);
        assert_sensitivity(&slowdown_model, expected);
    }
}

#[test]
fn a_job_that_waited_for_something_else_was_not_slowed_down() {
    let mut slowdown_model = known();
    // Half the traffic and half the instructions in half the CPU time.
    let counts = Counts::new(500_000_000, Lines(2_000_000_000 / 64), Lines::ZERO);
    let measured = Measurement::new(&counts, SECOND, Nanos::from_millis(500));
    assert_eq!(
        slowdown_model.learn(&full(), Some(gb(4.0)), &measured),
        BandwidthEvidence::DemandUnlessSaturated
    );
    assert_sensitivity(&slowdown_model, 0.0);
}

#[test]
fn a_job_that_is_faster_alone_in_the_same_phase_had_been_slowed() {
    let alone = SlowdownSample { alone: true, ..sample(0.4, 4.0, false) };
    let slowed_before = |beside_others: (f64, u64)| {
        let mut slowdown_model = SlowdownModel::default();
        learn(&mut slowdown_model, sample(0.8, 6.0, false), None, beside_others.0, beside_others.1);
        learn(&mut slowdown_model, alone, None, 4.0, 1_000);
        let slowed = slowdown_model.was_slowed();
        // Nothing is known of the time between two quanta alone.
        learn(&mut slowdown_model, alone, None, 4.0, 1_000);
        assert!(!slowdown_model.was_slowed());
        slowed
    };
    assert!(slowed_before((2.0, 500)));
    assert!(slowed_before((3.4, 850)));
    assert!(!slowed_before((3.9, 980)), "as fast as before");
    assert!(!slowed_before((2.0, 1_000)), "another phase");
    assert!(!slowed_before((2.0, 0)), "nothing to compare with");
}

#[test]
fn a_job_without_a_calm_quantum_needs_solo_quanta_at_doubling_intervals() {
    let mut slowdown_model = SlowdownModel::default();
    // A calm quantum beside others confirms nothing.
    let evidence = learn(&mut slowdown_model, sample(0.4, 4.0, false), Some(4.0), 4.0, 0);
    assert_eq!(evidence, BandwidthEvidence::DemandUnlessSaturated);
    let mut waits = |got_alone: f64| {
        let mut quanta = 0;
        while !slowdown_model.needs_solo_quantum() {
            learn(&mut slowdown_model, sample(0.9, 9.0, true), Some(4.0), 4.0, 0);
            quanta += 1;
        }
        let alone = SlowdownSample { alone: true, ..sample(0.4, got_alone, false) };
        let evidence = learn(&mut slowdown_model, alone, Some(4.0), got_alone, 0);
        assert_eq!(evidence, BandwidthEvidence::Demand);
        quanta
    };
    assert_eq!((waits(4.0), waits(4.1), waits(4.0)), (64, 128, 256));
    // It required more than predicted: it had been slowed down.
    assert_eq!((waits(9.0), waits(4.0), waits(4.0)), (512, 64, 128));
}
