use memweir_core::medium::{Distance, Media, Medium, MediumKind};
use memweir_core::{JobId, Picos};
use proptest::prelude::*;

use super::*;
use crate::ebw::{TrafficRate, TrafficRates};
use crate::scheduler::Bus;

fn gb(value: f64) -> BytesPerSec {
    BytesPerSec::from_gb(value)
}

/// A machine of two cores with a bus of 10 GB/s: a job waits all of the time at 11 GB/s.
fn machine() -> SpeedModel {
    SpeedModel::new(&SchedulerConfig {
        cores: 2,
        bus: Bus { peak: Some(gb(10.0)), ..Bus::default() },
        ..SchedulerConfig::default()
    })
}

/// Four cores, and so many media with a peak of 1.
fn model_of(media: usize) -> SpeedModel {
    let (costs, latencies) = (Default::default(), [1.0; 4]);
    SpeedModel {
        peaks: [1.0; 4],
        costs,
        media,
        latencies,
        cores: 4.0,
        full_draw: FULL_DRAW,
        loss: LOSS,
        observed: false,
    }
}

fn job(demand: f64, cores: u32) -> Candidate {
    Candidate { cores, ..Candidate::new(JobId(0), gb(demand)) }
}

fn speeds(model: &SpeedModel, demands: &[f64]) -> Vec<f64> {
    let loads: Vec<Load> = demands.iter().map(|demand| model.load(&job(*demand, 1))).collect();
    let contention = model.contention(loads.iter());
    loads.iter().map(|load| load.speed(&contention)).collect()
}

fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found} against {expected}");
    }
}

/// A core draws as much as it can, however few of the machine's cores a batch may use.
#[test]
fn the_peak_belongs_to_all_cores_of_the_machine() {
    let of = |cores: u32, machine_cores: Option<u32>, peak: Option<BytesPerSec>| {
        let bus = Bus { peak, ..Bus::default() };
        let config = SchedulerConfig { cores, machine_cores, bus, ..SchedulerConfig::default() };
        SpeedModel::new(&config)
    };
    let peak = Some(gb(10.0));
    let share = |model: &SpeedModel| model.load(&job(1.1, 1)).share[0];
    // 1.1 of 10 / 8 GB/s for each core, of which 2.2 times as much is all that a core can draw.
    assert!((share(&of(2, Some(8), peak)) - 0.4).abs() < 1e-9);
    assert_eq!(of(2, Some(8), peak), of(8, None, peak));
    // The highest bandwidth seen is that of the batch's own cores.
    assert_eq!(of(2, Some(8), None), of(2, None, None));
}

#[test]
fn a_calibrated_bus_says_what_a_core_draws_and_what_bursts_cost() {
    let bus = |core: f64, loss| Bus {
        peak: Some(gb(10.0)),
        core: Some(gb(core)),
        loss: Some(loss),
        ..Bus::default()
    };
    let of =
        |bus| SpeedModel::new(&SchedulerConfig { cores: 2, bus, ..SchedulerConfig::default() });
    // Half full, 0.4 / 16 more latency for all of the time of a core that draws no more.
    let calibrated = of(bus(5.0, 0.4));
    close(&speeds(&calibrated, &[5.0]), &[1.0 / (1.0 + 0.4 / 16.0)]);
    let written = serde_json::to_string(&calibrated).unwrap();
    assert_eq!(serde_json::from_str::<SpeedModel>(&written).unwrap(), calibrated, "{written}");
    // Without any loss, two that draw the peak together hardly wait.
    let lossless = of(bus(5.0, 0.0));
    assert!(speeds(&lossless, &[5.0, 5.0]).iter().all(|speed| (0.99..1.0).contains(speed)));
    // A core that draws more than half of the peak waits all of the time at that.
    assert_eq!(of(bus(8.0, 0.4)).load(&job(4.0, 1)).share[0], 0.5);
}

#[test]
fn below_the_peak_only_bursts_cost() {
    // Half full: 0.25 / 16 more latency, for 5 / 11 of the time.
    let excess = 0.25 / 16.0;
    close(&speeds(&machine(), &[5.0]), &[1.0 / (1.0 + 5.0 / 11.0 * excess)]);
    close(&speeds(&machine(), &[0.0, 0.0]), &[1.0, 1.0]);
}

#[test]
fn two_equal_jobs_above_the_peak_share_it() {
    // Each is to draw 5 of its 8 GB/s: 1 + 8/11 s = 8/5, s = 0.825. Of the cost of bursts, 0.25,
    // 0.25 / (1 + 0.825 / 0.5) = 5 / 53 are left.
    let excess = 0.825 + 5.0 / 53.0;
    close(&speeds(&machine(), &[8.0, 8.0]), &[1.0 / (1.0 + 8.0 / 11.0 * excess); 2]);
}

#[test]
fn the_same_latency_slows_the_heavier_job_down_more() {
    let found = speeds(&machine(), &[9.0, 3.0, 0.0]);
    assert!(found[0] < found[1] && found[1] < found[2] && found[2] == 1.0, "{found:?}");
}

#[test]
fn the_demand_of_a_wide_job_divides_over_its_cores() {
    let (narrow, wide) = (machine().load(&job(5.0, 1)), machine().load(&job(5.0, 2)));
    assert!((narrow.share[0] - 5.0 / 11.0).abs() < 1e-12);
    assert!((wide.share[0] - 2.5 / 11.0).abs() < 1e-12);
    assert_eq!(narrow.utilization, wide.utilization);
}

#[test]
fn without_a_calibrated_peak_the_highest_bandwidth_stands_for_it() {
    let mut model = SpeedModel::new(&SchedulerConfig { cores: 2, ..SchedulerConfig::default() });
    close(&speeds(&model, &[50.0, 50.0]), &[1.0, 1.0]);
    model.observe(gb(10.0));
    close(&speeds(&model, &[8.0, 8.0]), &speeds(&machine(), &[8.0, 8.0]));
    let mut calibrated = machine();
    calibrated.observe(gb(20.0));
    close(&speeds(&calibrated, &[8.0, 8.0]), &speeds(&machine(), &[8.0, 8.0]));
}

#[test]
fn jobs_that_hardly_move_memory_do_not_contend_though_nothing_moved_more() {
    let mut model = SpeedModel::new(&SchedulerConfig { cores: 2, ..SchedulerConfig::default() });
    model.observe(gb(0.2));
    // A peak of 0.5 GB/s: 0.4 of it are in use, for 0.1 / 0.55 of the time.
    let excess = 0.25 * 0.4f64.powi(4);
    close(&speeds(&model, &[0.1, 0.1]), &[1.0 / (1.0 + 0.1 / 0.55 * excess); 2]);
}

prop_compose! {
    fn loads()(
        jobs in prop::collection::vec(prop::array::uniform4(0.0f64..1.5), 1..12),
    ) -> Vec<Load> {
        jobs.into_iter().map(|utilization| {
            let total: f64 = utilization.iter().sum::<f64>().max(1.0);
            Load { utilization, share: utilization.map(|part| part / total) }
        }).collect()
    }
}

#[test]
fn dear_lines_occupy_a_medium_for_longer() {
    let rate = |reads, writes| TrafficRate { reads: gb(reads), writes: gb(writes) };
    let mut traffic = TrafficRates::default();
    (traffic.0[0], traffic.0[1]) = (rate(2.0, 1.0), rate(1.0, 0.5));
    let job = Candidate { traffic, ..job(4.5, 1) };
    let media = [MediumKind::Dram, MediumKind::Nvm]
        .map(|kind| Medium::new(kind.name(), kind, Distance::Local, [Picos::from_nanos(25); 2]));
    let mut config = SchedulerConfig {
        media: Media::new(media.to_vec()).expect("two media"),
        medium_peaks: [Some(gb(10.0)), Some(gb(10.0)), None, None],
        ..SchedulerConfig::default()
    };
    let utilization = |config: &SchedulerConfig| SpeedModel::new(config).load(&job).utilization;
    let close = |[dram, nvm, ..]: [f64; 4], expected: [f64; 2]| {
        (dram - expected[0]).abs() < 1e-12 && (nvm - expected[1]).abs() < 1e-12
    };
    assert!(close(utilization(&config), [0.3, 0.15]));
    config.line_costs[1] = LineCosts { read: 2.7, write: 8.6 };
    assert!(close(utilization(&config), [0.3, 0.7]), "1 of 2.7 and 0.5 of 8.6 in 10");
    let model = SpeedModel::new(&config);
    let text = serde_json::to_string(&model).expect("numbers");
    assert_eq!(serde_json::from_str::<SpeedModel>(&text).expect("as it was written"), model);
    let wrong = r#"{"peaks":[1,1],"costs":[{"read":1,"write":1}],"cores":1,"observed":false}"#;
    let error = serde_json::from_str::<SpeedModel>(wrong).expect_err("one of two").to_string();
    assert!(error.contains("costs of 1 media, and peaks of 2"), "{error}");
}

#[test]
fn dear_lines_occupy_the_only_memory_for_longer_too() {
    let mut traffic = TrafficRates::default();
    traffic.0[0] = TrafficRate { reads: gb(2.0), writes: gb(1.0) };
    let job = Candidate { traffic, ..job(3.0, 1) };
    let mut model = machine();
    assert!((model.load(&job).utilization[0] - 0.3).abs() < 1e-12);
    model.costs[0] = LineCosts { read: 1.0, write: 1.5 };
    assert!((model.load(&job).utilization[0] - 0.35).abs() < 1e-12, "2 and 1.5 of 10");
}

#[test]
fn slow_memory_stretches_the_waits_of_a_job() {
    let mut model = model_of(2);
    model.latencies[1] = 2.5;
    let stretch = |dram: f64, nvm: f64| {
        let mut traffic = TrafficRates::default();
        (traffic.0[0].reads.0, traffic.0[1].reads.0) = (dram, nvm);
        model.stretch(&Candidate { traffic, ..job(0.0, 1) })
    };
    // A core draws 0.55 of the peak of the DRAM when it waits all of the time.
    assert_eq!([stretch(0.0, 0.0), stretch(0.55, 0.0)], [1.0, 1.0]);
    assert!((stretch(0.0, 0.55 / 2.5) - 2.5).abs() < 1e-12, "it waits all of the time");
    // It waits for 0.5 of its time, and would for 0.2.
    assert!((stretch(0.0, 0.55 / 5.0) - 1.0 / 0.7).abs() < 1e-12);
    assert!(stretch(1.0, 1.0) < 2.5, "waits take no more than the time");
    let text = serde_json::to_string(&model).expect("numbers");
    assert!(text.contains(r#""latencies":[1.0,2.5]"#), "{text}");
    let copy = serde_json::from_str::<SpeedModel>(&text).expect("as it was written");
    assert_eq!(copy.latencies, model.latencies);
}

proptest! {
    #[test]
    fn no_medium_carries_more_than_its_peak(loads in loads(), media in 1usize..=4) {
        let model = model_of(media);
        let contention = model.contention(loads.iter());
        for medium in 0..media {
            let drawn: f64 =
                loads.iter().map(|load| load.utilization[medium] * load.speed(&contention)).sum();
            prop_assert!(drawn <= 1.0 + 0.01, "{drawn} on {medium}");
        }
    }

    #[test]
    fn one_more_job_speeds_no_other_up(loads in loads()) {
        let model = model_of(1);
        let (all, fewer) = (model.contention(loads.iter()), model.contention(loads[1..].iter()));
        for load in &loads {
            prop_assert!(load.speed(&all) <= load.speed(&fewer) + 1e-9);
        }
    }
}

proptest! {
    #[test]
    fn damage_is_the_derivative_of_the_weighted_speed(
        loads in loads(), weights in prop::collection::vec(0.1f64..1.0, 12),
    ) {
        let model = model_of(1);
        let jobs = || loads.iter().zip(weights.iter().copied());
        // A stranger whose own speed does not suffer.
        let value = |stranger: f64| {
            let mut load = Load::default();
            load.utilization[0] = stranger;
            let all: Vec<Load> = loads.iter().copied().chain([load]).collect();
            let contention = model.contention(all.iter());
            jobs().map(|(load, weight)| weight * load.speed(&contention)).sum::<f64>()
        };
        let contention = model.contention(loads.iter());
        // The derivative jumps where the medium becomes full.
        prop_assume!((contention.utilization[0] - 1.0).abs() > 0.1);
        let step = 0.02;
        let numeric = (value(0.0) - value(step)) / step;
        let damage = model.damage(jobs(), &contention)[0];
        prop_assert!((numeric - damage).abs() < 0.02 + 0.1 * damage, "{numeric} for {damage}");
    }
}
