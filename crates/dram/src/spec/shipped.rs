//! Every shipped device parses, and its figures agree with one another.

use memweir_core::medium::MediumKind;

use super::*;

/// Gigabits of a device, for names that contain its density.
const DENSITIES: &[(&str, u64)] = &[
    ("ddr3-800", 1),
    ("ddr3-1066", 1),
    ("ddr3-1333", 1),
    ("ddr3-1600", 1),
    ("ddr4-1866", 4),
    ("ddr4-2400", 8),
    ("ddr4-3200", 8),
    ("ddr5-4800", 16),
    ("lpddr2-1066", 2),
    ("lpddr4-3200", 8),
    ("pcm-lpddr2", 8),
    ("stt-ram", 2),
    ("cxl-ddr4", 8),
    ("cxl-ddr5", 16),
];

fn all() -> impl Iterator<Item = (&'static str, MemorySpec)> {
    SHIPPED.iter().map(|(name, _)| (*name, MemorySpec::shipped(name).unwrap()))
}

/// Returns the first of these parameters that the device has.
fn first(spec: &MemorySpec, names: &[&str]) -> u64 {
    let found = names.iter().find_map(|name| spec.timing.get(name));
    found.unwrap_or_else(|| panic!("{} has none of {names:?}", spec.name)).0
}

#[test]
fn a_device_holds_what_its_name_says() {
    for (name, gigabits) in DENSITIES {
        let spec = MemorySpec::shipped(name).unwrap();
        let device = spec.organization.rank_bytes().0 * 8 / u64::from(spec.organization.devices());
        assert_eq!(device, gigabits << 30, "{name}");
    }
    let unnamed = all().filter(|(name, _)| DENSITIES.iter().all(|(known, _)| known != name));
    assert_eq!(unnamed.map(|(name, _)| name).collect::<Vec<_>>(), ["nvm-2400"]);
}

#[test]
fn rows_are_opened_and_closed_within_a_row_cycle() {
    for (name, spec) in all() {
        let (ras, rp, rc) =
            (first(&spec, &["tRAS"]), first(&spec, &["tRP"]), first(&spec, &["tRC"]));
        // Each is rounded to cycles separately.
        assert!((ras + rp).abs_diff(rc) <= 1, "{name}: {ras} + {rp} against {rc}");
        assert!(first(&spec, &["tRCD"]) <= ras, "{name}");
    }
}

#[test]
fn windows_and_groups_are_no_shorter_than_what_they_contain() {
    for (name, spec) in all() {
        let rrd = first(&spec, &["tRRD_S", "tRRD"]);
        assert!(first(&spec, &["tFAW"]) >= 4 * rrd, "{name}: tFAW");
        for parameter in ["tRRD", "tCCD", "tWTR"] {
            let (short, long) = (format!("{parameter}_S"), format!("{parameter}_L"));
            let (short, long) =
                (first(&spec, &[&short, parameter]), first(&spec, &[&long, parameter]));
            assert!(short <= long, "{name}: {parameter}");
        }
        assert!(first(&spec, &["tCCD_S", "tCCD"]) >= u64::from(spec.organization.burst_length) / 2);
        assert!(spec.read_latency >= spec.write_latency, "{name}");
    }
}

/// 8192 refreshes in 64 ms, for devices of small rows in 32 ms; an interval is never rounded up.
#[test]
fn dram_is_refreshed_as_often_as_its_standard_asks() {
    for (name, spec) in all() {
        let Some(interval) = spec.refresh_interval() else {
            assert_eq!(spec.kind, MediumKind::Nvm, "{name}");
            continue;
        };
        assert_eq!(spec.kind, MediumKind::Dram, "{name}");
        let nanos = spec.span(interval).as_f64() / 1e3;
        let asked = match spec.family.as_str() {
            "ddr3" | "ddr4" => 7800.0,
            _ => 3905.0,
        };
        assert!((asked * 0.998..=asked).contains(&nanos), "{name}: {nanos} ns");
        assert!(first(&spec, &["tRFC"]) * 10 < interval.0, "{name}");
        if let Some(bank) = spec.bank_refresh_interval() {
            let busy = first(&spec, &["tRFCpb", "tRFCsb"]);
            assert!(busy < first(&spec, &["tRFC"]) && busy < bank.0, "{name}");
        }
    }
}

#[test]
fn currents_are_in_the_order_of_what_they_feed() {
    for (name, spec) in all() {
        assert!(spec.currents.is_some() || spec.array.is_some(), "{name} has no energy");
        for (currents, rail) in
            spec.currents.iter().flat_map(|c| c.rails.iter().map(move |r| (c, r)))
        {
            let name = format!("{name} {}", rail.name);
            // A minor rail may draw less with open banks (LPDDR2's VDD1).
            if rail.name != "VDD1" {
                assert!(rail.idd2p <= rail.idd2n && rail.idd2n <= rail.idd3n, "{name}");
                // One open bank, not all of them: those of DDR5 draw more than IDD0.
                let banks = f64::from(spec.organization.banks_of_rank());
                let share = currents.bank_share + (1.0 - currents.bank_share) / banks;
                let one_open = rail.idd2n + share * (rail.idd3n - rail.idd2n);
                assert!(rail.idd3p <= rail.idd3n && one_open < rail.idd0, "{name}");
            }
            assert!(rail.idd3n <= rail.idd4r.min(rail.idd4w), "{name}");
            let refreshed = spec.refresh_interval().is_some();
            assert_eq!(refreshed, rail.idd5b > rail.idd3n && rail.idd6 > 0.0, "{name}");
        }
        assert_eq!(spec.array.is_some(), spec.kind == MediumKind::Nvm, "{name}");
    }
}

#[test]
fn the_machine_of_bpm_has_64_banks_and_8_gib() {
    let spec = MemorySpec::shipped("ddr3-1333").unwrap();
    let organization = &spec.organization;
    let banks = 2 * organization.ranks * organization.banks_of_rank();
    let bytes = 2 * u64::from(organization.ranks) * organization.rank_bytes().0;
    assert_eq!((banks, bytes), (64, 8 << 30));
}

/// The parts that form a channel of DDR5 and of memories behind CXL.
#[test]
fn halves_and_links_are_read() {
    let ddr5 = MemorySpec::shipped("ddr5-4800").unwrap();
    assert_eq!((ddr5.organization.sub_channels, ddr5.organization.bus_bits), (2, 32));
    assert_eq!(ddr5.organization.banks_of_rank(), 32);
    assert_eq!(ddr5.bank_refresh, BankRefresh::SameNumber);
    for (name, spec) in all() {
        assert_eq!(name.starts_with("cxl-"), spec.link.is_some(), "{name}");
    }
    let link = MemorySpec::shipped("cxl-ddr4").unwrap().link.unwrap();
    assert_eq!(link.latency, Picos(43_500));
}
