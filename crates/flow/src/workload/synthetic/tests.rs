use memweir_core::input::Document;
use proptest::prelude::*;

use super::*;
use crate::workload::requirement::{mean_bandwidth, rate};

fn bursty() -> Synthetic {
    Synthetic {
        length: Nanos::from_millis(20_000),
        phases: Phases { kinds: 3, length: Nanos::from_millis(400), spread: 0.3 },
        fluctuation: Fluctuation { degree: 0.5, period: Nanos::from_millis(4), regularity: 0.0 },
        write_share: 0.25,
        instructions: 2e9,
        seed: 7,
        ..Synthetic::steady("bursty", BytesPerSec(2e9), BytesPerSec(10e9))
    }
}

fn rates(program: &Program) -> Vec<f64> {
    program
        .spans
        .iter()
        .flat_map(|span| vec![rate(&span.demand).0; (span.length.0 / FINE.0) as usize])
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the standard deviation over the mean.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt() / mean
}

#[test]
fn a_steady_program_is_one_span_of_the_rate() {
    let steady = Synthetic::steady("hog", BytesPerSec(3e9), BytesPerSec(12e9)).program().unwrap();
    assert_eq!(steady.spans.len(), 1);
    let demand = steady.spans[0].demand;
    assert!((demand.flows[0].reads.0 - 3e9).abs() < 1.0);
    assert_eq!(demand.flows[0].writes, BytesPerSec::ZERO);
    // It draws a quarter of a core's peak, so it waits for a quarter of its time.
    assert!((demand.stall - 0.25).abs() < 1e-9);
}

#[test]
fn equal_seeds_give_equal_programs_and_others_do_not() {
    let program = bursty().program().unwrap();
    assert_eq!(program, bursty().program().unwrap());
    assert_ne!(program, Synthetic { seed: 8, ..bursty() }.program().unwrap());
    assert_eq!(program.length(), bursty().length);
}

#[test]
fn it_fluctuates_at_a_millisecond_and_differs_between_quanta() {
    let program = bursty().program().unwrap();
    let fine = rates(&program);
    let quanta: Vec<f64> = fine.chunks(100).map(mean).collect();
    // Both aspects of iabw Fig. 2: the coarse phases, and the fluctuation that 100 ms hide.
    assert!(deviation(&quanta) > 0.15, "{}", deviation(&quanta));
    assert!(deviation(&fine) > 2.0 * deviation(&quanta), "{}", deviation(&fine));
    let codes: Vec<u32> = program.spans.iter().map(|span| span.demand.code).collect();
    assert!((1..=3).all(|kind| codes.contains(&kind)));
}

#[test]
fn degree_and_period_are_those_asked_for() {
    let one_phase = Phases { kinds: 1, length: Nanos::from_millis(20_000), spread: 0.0 };
    for regularity in [0.0, 0.5, 1.0] {
        let fluctuation = Fluctuation { degree: 0.4, period: Nanos::from_millis(8), regularity };
        let program = Synthetic { phases: one_phase, fluctuation, ..bursty() }.program().unwrap();
        let fine = rates(&program);
        assert!((deviation(&fine) - 0.4).abs() < 0.04, "{regularity}: {}", deviation(&fine));
        let middle = mean(&fine);
        let crossings = fine.windows(2).filter(|w| (w[0] > middle) != (w[1] > middle)).count();
        let period = fine.len() as f64 / crossings as f64;
        assert!((period - 8.0).abs() < 1.0, "{regularity}: {period}");
    }
}

#[test]
fn a_regular_program_swings_between_two_rates() {
    let fluctuation = Fluctuation { degree: 0.5, period: Nanos::from_millis(6), regularity: 1.0 };
    let phases = Phases { kinds: 1, length: Nanos::from_millis(1200), spread: 0.0 };
    let length = Nanos::from_millis(120);
    let program = Synthetic { length, phases, fluctuation, ..bursty() }.program().unwrap();
    assert_eq!(program.spans.len(), 20);
    let high = program.spans.iter().map(|span| rate(&span.demand).0).fold(0.0, f64::max);
    let low = program.spans.iter().map(|span| rate(&span.demand).0).fold(f64::MAX, f64::min);
    assert!((high - 3e9).abs() < 1e3 && (low - 1e9).abs() < 1e3, "{low} to {high}");
}

#[test]
fn a_stall_share_is_the_mean_of_the_stalls() {
    let program = Synthetic { stall: Stall::Share(0.3), ..bursty() }.program().unwrap();
    let mean = |of: fn(&Demand) -> f64| {
        let weighted = |span: &Span| span.length.as_f64() * of(&span.demand);
        program.spans.iter().map(weighted).sum::<f64>() / program.length().as_f64()
    };
    assert!((mean(|demand| demand.stall) - 0.3).abs() < 1e-6);
    // Instructions execute only while the program does not wait.
    assert!((mean(|demand| demand.instructions) - 0.7 * 2e9).abs() < 1e4);
}

#[test]
fn impossible_programs_are_refused() {
    let wrong = [
        Synthetic { length: Nanos::ZERO, ..bursty() },
        Synthetic { write_share: 1.5, ..bursty() },
        Synthetic { bandwidth: BytesPerSec(f64::NAN), ..bursty() },
        Synthetic { bandwidth: BytesPerSec(11e9), ..bursty() },
        Synthetic { stall: Stall::Share(0.0), ..bursty() },
        Synthetic { phases: Phases { kinds: 0, ..bursty().phases }, ..bursty() },
        Synthetic { memories: [0.5, 0.0, 0.0, 0.0], ..bursty() },
        Synthetic {
            fluctuation: Fluctuation { period: Nanos(1), ..bursty().fluctuation },
            ..bursty()
        },
    ];
    for program in wrong {
        assert!(program.program().is_err(), "{program:?}");
    }
}

#[test]
fn a_table_says_what_differs_from_a_steady_program() {
    let text =
        "name = \"x\"\nbandwidth = 1e9\ndegree = 0.4\nperiod_ms = 6\nmemories = [0.75, 0.25]\n";
    let read = |text: &str| {
        let mut root = Document { name: "s.toml", text }.parse()?;
        Synthetic::take_from(&mut root, BytesPerSec(4e9))
    };
    let program = read(text).unwrap();
    assert_eq!(program.fluctuation.period, Nanos::from_millis(6));
    let demand = program.program().unwrap().spans[0].demand;
    assert!((demand.flows[1].reads.0 * 3.0 - demand.flows[0].reads.0).abs() < 1.0);
    let refusal = |from: &str, to: &str| read(&text.replace(from, to)).unwrap_err().to_string();
    assert!(refusal("period_ms = 6", "period_ms = 0.1").contains("s.toml:4: period_ms: 0.1 is no"));
    assert!(refusal("1e9", "5e9").contains("above what a core draws"));
    assert!(refusal("0.25]", "0.5]").contains("do not add up to 1"));
    let half = refusal("degree = 0.4", "phases = 2.5");
    assert!(half.starts_with("s.toml:3: phases: "), "{half}");
}

proptest! {
    #[test]
    fn whatever_is_drawn_has_its_mean_and_stays_below_the_ceiling(
        load in 0.0..1.0_f64, degree in 0.0..3.0_f64, spread in 0.0..1.5_f64,
        regularity in 0.0..=1.0_f64, kinds in 1u32..5, seed: u64, length in 1u64..3000,
    ) {
        let program = Synthetic {
            length: Nanos::from_millis(length),
            bandwidth: BytesPerSec(load * 10e9),
            fluctuation: Fluctuation { degree, regularity, period: Nanos::from_millis(3) },
            phases: Phases { kinds, spread, length: Nanos::from_millis(200) },
            seed,
            ..bursty()
        };
        let drawn = program.program().unwrap();
        prop_assert_eq!(drawn.length(), program.length);
        let mean = mean_bandwidth(&drawn).0;
        prop_assert!((mean - program.bandwidth.0).abs() <= 1e-6 * 10e9, "{}", mean);
        for span in &drawn.spans {
            prop_assert!(rate(&span.demand).0 <= 10e9 * (1.0 + 1e-9));
            prop_assert!((0.0..=1.0).contains(&span.demand.stall));
        }
    }
}
