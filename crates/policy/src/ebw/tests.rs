//! Effective bandwidths computed by hand from hmmsched Table I and its two ratio sets.

use memweir_core::{Lines, Traffic};
use proptest::prelude::*;

use super::*;

fn medium(name: &str, kind: MediumKind, distance: Distance, read: u64, write: u64) -> Medium {
    Medium::new(name, kind, distance, [read, write].map(Picos))
}

/// DRAM and one NVM with these latencies in picoseconds.
fn hybrid(dram: u64, read: u64, write: u64) -> Media {
    Media::new(vec![
        medium("dram", MediumKind::Dram, Distance::Local, dram, dram),
        medium("nvm", MediumKind::Nvm, Distance::Local, read, write),
    ])
    .unwrap()
}

/// Two nodes with PRAM, 60 ns apart.
fn two_nodes() -> Media {
    Media::new(vec![
        medium("dram", MediumKind::Dram, Distance::Local, 25_000, 25_000),
        medium("pram", MediumKind::Nvm, Distance::Local, 67_500, 215_000),
        medium("dram-1", MediumKind::Dram, Distance::Remote, 85_000, 85_000),
        medium("pram-1", MediumKind::Nvm, Distance::Remote, 127_500, 275_000),
    ])
    .unwrap()
}

fn rate(reads: f64, writes: f64) -> TrafficRate {
    TrafficRate { reads: BytesPerSec(reads), writes: BytesPerSec(writes) }
}

fn rates(media: &[(f64, f64)]) -> TrafficRates {
    let mut rates = TrafficRates::default();
    for (slot, (reads, writes)) in rates.0.iter_mut().zip(media) {
        *slot = rate(*reads, *writes);
    }
    rates
}

#[track_caller]
fn assert_ebw(
    media: &Media,
    translation: Translation,
    traffic: TrafficRates,
    expected: (f64, f64),
) {
    let ebw = Weights::new(media, translation).effective_bandwidth(&traffic);
    let close = |left: f64, right: f64| (left - right).abs() <= 1e-12 * right.abs();
    assert!(close(ebw.dram.0, expected.0) && close(ebw.nvm.0, expected.1), "{ebw:?}");
}

#[test]
fn nvm_of_table_i() {
    // 100 DRAM transactions in both directions, 20 NVM reads, 10 NVM writes.
    let traffic = rates(&[(70.0, 30.0), (20.0, 10.0)]);
    // STT-RAM: gamma 29.5 / 25 = 1.18, delta 95 / 25 = 3.8; 23.6 + 38.
    assert_ebw(&hybrid(25_000, 29_500, 95_000), Translation::Latency, traffic, (100.0, 61.6));
    // PRAM: gamma 2.7, delta 8.6; 54 + 86.
    assert_ebw(&hybrid(25_000, 67_500, 215_000), Translation::Latency, traffic, (100.0, 140.0));
}

#[test]
fn nvm_of_both_ratio_sets() {
    let traffic = rates(&[(70.0, 30.0), (20.0, 10.0)]);
    // DRAM : read : write = 1 : 1 : 3, then 1 : 3 : 8.
    assert_ebw(&hybrid(25_000, 25_000, 75_000), Translation::Latency, traffic, (100.0, 50.0));
    assert_ebw(&hybrid(25_000, 75_000, 200_000), Translation::Latency, traffic, (100.0, 140.0));
}

#[test]
fn remote_memory_is_translated_to_the_same_unit() {
    let traffic = rates(&[(10.0, 0.0), (10.0, 10.0), (10.0, 10.0), (10.0, 10.0)]);
    // Remote DRAM 85 / 25 = 3.4 in both directions; remote PRAM 127.5 / 25 = 5.1 and 275 / 25 = 11.
    let dram = 10.0 + 3.4 * 20.0;
    let nvm = 10.0 * (2.7 + 8.6) + 10.0 * (5.1 + 11.0);
    assert_ebw(&two_nodes(), Translation::Latency, traffic, (dram, nvm));
    // Without the link latency, remote memories weigh like the local ones.
    let nvm = 2.0 * 10.0 * (2.7 + 8.6);
    assert_ebw(&two_nodes(), Translation::LatencyOfLocal, traffic, (30.0, nvm));
    assert_ebw(&two_nodes(), Translation::Counts, traffic, (30.0, 40.0));
}

#[test]
fn remote_nvm_without_a_local_counterpart_cannot_be_stripped_of_its_way() {
    let media = Media::new(vec![
        medium("dram", MediumKind::Dram, Distance::Local, 100_000, 100_000),
        medium("cxl", MediumKind::Nvm, Distance::Remote, 250_000, 250_000),
    ])
    .unwrap();
    let traffic = rates(&[(1.0, 1.0), (4.0, 4.0)]);
    assert_ebw(&media, Translation::Latency, traffic, (2.0, 20.0));
    assert_ebw(&media, Translation::LatencyOfLocal, traffic, (2.0, 8.0));
}

#[test]
fn requests_to_dram_count_alike_whatever_their_direction() {
    let slow_writes =
        Media::new(vec![medium("dram", MediumKind::Dram, Distance::Local, 25_000, 50_000)]);
    assert_ebw(&slow_writes.unwrap(), Translation::Latency, rates(&[(3.0, 4.0)]), (7.0, 0.0));
}

#[test]
fn both_readings_of_eq_7() {
    // A million PRAM reads in a second, each as long as 2.7 DRAM accesses of 25 ns.
    let counts = Counts::by_medium(
        0,
        [
            Traffic::default(),
            Traffic { reads: Lines(1_000_000), writes: Lines::ZERO },
            Traffic::default(),
            Traffic::default(),
        ],
    );
    let traffic = TrafficRates::of(&counts, Nanos::from_millis(1_000));
    assert_eq!(traffic.total(), BytesPerSec(64e6));
    let weights = Weights::new(&hybrid(25_000, 67_500, 215_000), Translation::Latency);
    let ebw = weights.effective_bandwidth(&traffic);
    assert!((ebw.total().0 - 2.7 * 64e6).abs() < 1.0, "{ebw:?}");
    // 10^6 x 67.5 ns = 0.0675 s.
    assert!((ebw.access_time(Picos(25_000)) - 0.0675).abs() < 1e-12);
}

#[test]
fn a_division_over_media_is_kept_when_the_rate_changes() {
    let traffic = rates(&[(6.0, 2.0), (1.0, 1.0)]);
    assert_eq!(traffic.scaled_to(BytesPerSec(20.0)), rates(&[(12.0, 4.0), (2.0, 2.0)]));
    let nothing = TrafficRates::default();
    assert_eq!(nothing.scaled_to(BytesPerSec(5.0)), rates(&[(5.0, 0.0)]));
}

fn any_rates() -> impl Strategy<Value = TrafficRates> {
    prop::array::uniform4((0.0..1e11f64, 0.0..1e11f64))
        .prop_map(|media| TrafficRates(media.map(|(reads, writes)| rate(reads, writes))))
}

fn any_translation() -> impl Strategy<Value = Translation> {
    prop::sample::select(vec![
        Translation::Latency,
        Translation::LatencyOfLocal,
        Translation::Counts,
    ])
}

fn sum(left: &TrafficRates, right: &TrafficRates) -> TrafficRates {
    let mut sum = *left;
    for (to, from) in sum.0.iter_mut().zip(&right.0) {
        to.reads += from.reads;
        to.writes += from.writes;
    }
    sum
}

proptest! {
    #[test]
    fn effective_bandwidth_is_additive_and_monotone(
        left in any_rates(), right in any_rates(), translation in any_translation(),
    ) {
        let weights = Weights::new(&two_nodes(), translation);
        let apart = weights.effective_bandwidth(&left) + weights.effective_bandwidth(&right);
        let together = weights.effective_bandwidth(&sum(&left, &right));
        for (apart, together) in [(apart.dram, together.dram), (apart.nvm, together.nvm)] {
            prop_assert!((apart.0 - together.0).abs() <= 1e-12 * together.0);
        }
        let alone = weights.effective_bandwidth(&left);
        prop_assert!(together.dram >= alone.dram && together.nvm >= alone.nvm);
    }

    /// No medium is faster than local DRAM here, so no translation makes traffic smaller.
    #[test]
    fn translation_only_adds(traffic in any_rates()) {
        let total = |translation| {
            Weights::new(&two_nodes(), translation).effective_bandwidth(&traffic).total().0
        };
        let counts = total(Translation::Counts);
        prop_assert!((counts - traffic.total().0).abs() <= 1e-12 * counts);
        prop_assert!(total(Translation::LatencyOfLocal) >= counts * (1.0 - 1e-12));
        prop_assert!(total(Translation::Latency) >= total(Translation::LatencyOfLocal));
    }
}
