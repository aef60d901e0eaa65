use memweir_core::Bytes;
use memweir_core::address_map::{Interleave, Role, SetFunction, XorFunction};

use super::*;

/// Returns a map with these functions of bits, and these bits of the row.
pub(crate) fn map(functions: &[&[u8]], row: &[u8], bits: u32) -> AddressMap {
    let set = |list: &&[u8]| SetFunction { role: Role::Set, function: XorFunction::of_bits(list) };
    AddressMap {
        name: "test".to_owned(),
        source: None,
        offset: 0,
        interleave: None,
        bits,
        functions: functions.iter().map(set).collect(),
        row: row.iter().map(|bit| XorFunction(1 << bit)).collect(),
        column: Vec::new(),
    }
}

#[test]
fn only_other_rows_of_the_same_bank_conflict() {
    let machine = Machine::of(&map(&[&[6, 13], &[14, 17]], &[17, 18, 19], 20));
    let conflict =
        |difference: u64| machine.conflict(PhysAddr(0x1000), PhysAddr(0x1000 ^ difference));
    assert!(conflict(1 << 18) && conflict(1 << 14 | 1 << 17));
    assert!(!conflict(1 << 17), "another bank");
    assert!(!conflict(1 << 8) && !conflict(1 << 6 | 1 << 13), "the same row");
}

#[test]
fn rows_that_are_not_known_are_the_highest_bits_that_banks_leave() {
    let machine = Machine::of(&map(&[&[14, 18], &[15, 19]], &[], 21));
    // 19 bits beside the banks': nine for columns, ten for rows; 14 and 15 follow from banks.
    let rows: Vec<u32> = machine.rows().iter().map(|row| row.lowest()).collect();
    assert_eq!(rows, [9, 10, 11, 12, 13, 16, 17, 18, 19, 20]);
    // Known columns are no rows, however high.
    let column = [0, 1, 2, 9].map(|bit| XorFunction(1 << bit)).to_vec();
    let machine = Machine::of(&AddressMap { column, ..map(&[&[6]], &[], 10) });
    let rows: Vec<u32> = machine.rows().iter().map(|row| row.lowest()).collect();
    assert_eq!(rows, [3, 4, 5, 7, 8]);
}

#[test]
fn channels_of_an_interleaving_are_banks_apart() {
    let mut map = map(&[&[13]], &[18, 19], 20);
    map.interleave = Some(Interleave { channels: 3, granule: Bytes(256) });
    let machine = Machine::of(&map);
    assert_eq!(machine.memory(), Bytes(3 << 20));
    assert!(machine.conflict(PhysAddr(0), PhysAddr(3 << 18)));
    assert!(!machine.conflict(PhysAddr(0), PhysAddr((3 << 18) + 256)));
}

#[test]
fn equal_seeds_measure_alike_and_conflicts_cost_what_they_should() {
    let map = map(&[&[6, 13]], &[18, 19], 20);
    let measure = |seed| {
        let mut oracle = Synthetic::new(&map, Noise::VM, seed);
        let mut one = |b| oracle.measure(PhysAddr(0), PhysAddr(b), 96).unwrap().0;
        (0..400).map(|i| one((1 << 18) | (i * 128))).collect::<Vec<f64>>()
    };
    assert_eq!(measure(1), measure(1));
    assert_ne!(measure(1), measure(2));
    assert!(measure(3).iter().all(|latency| latency % Noise::VM.quantum == 0.0));
    let mut oracle = Synthetic::new(&map, Noise::QUIET, 1);
    let mut long = |b| oracle.measure(PhysAddr(0), PhysAddr(b), 1_000_000).unwrap().0;
    let difference = long(1 << 18) - long(1 << 6);
    assert!((difference - 91.0).abs() < 20.0, "{difference}");
}
