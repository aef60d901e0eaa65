use memweir_core::TransPerMicro;
use proptest::prelude::*;

use super::*;
use crate::workload::requirement::mean_bandwidth;

const SMALL: &str = r#"
[sources]
book = "A Book, page 7"
estimated = "by eye"

[defaults]
write_share = [0.2, "estimated"]
overlap = [0.5, "estimated"]
speed = [1.0, "estimated"]
degree = [0.5, "estimated"]
period_ms = [3, "estimated"]
regularity = [0.0, "estimated"]
phases = [2, "estimated"]
phase_ms = [500, "estimated"]
phase_spread = [0.2, "estimated"]
footprint_mib = [100, "estimated"]
hotness = [0.8, "estimated"]

[[programs]]
name = "mine"
suite = "other"
mpki = [10, "book"]
run_time_s = [3, "book"]
"#;

#[test]
fn the_shipped_catalog_has_every_program_of_the_suites_and_names_every_source() {
    let catalog = Catalog::shipped();
    assert_eq!(catalog.suite(Suite::Cint2006).count(), 12);
    assert_eq!(catalog.suite(Suite::Cfp2006).count(), 17);
    assert_eq!(catalog.suite(Suite::Npb).count(), 9);
    for entry in catalog.iter() {
        for figure in [&entry.mpki, &entry.run_time_s, &entry.degree, &entry.footprint_mib] {
            assert!(figure.reference.len() > 20, "{}: {}", entry.name, figure.reference);
        }
    }
    let milc = catalog.find("milc").unwrap();
    assert_eq!(milc.name, "433.milc");
    assert!(milc.mpki.is_estimated() && !catalog.find("429.mcf").unwrap().mpki.is_estimated());
    let message = catalog.find("433.mlic").unwrap_err();
    assert!(message.help.unwrap().contains("`433.milc`"));
}

#[test]
fn run_times_span_what_iabw_says() {
    let catalog = Catalog::shipped();
    let times: Vec<f64> =
        catalog.suite(Suite::Cfp2006).map(|entry| entry.run_time_s.value).collect();
    assert_eq!(times.iter().copied().fold(f64::MAX, f64::min), 13.6);
    assert_eq!(times.iter().copied().fold(0.0, f64::max), 116.0);
    // Two of the three longest programs of NPB are the two of the highest bandwidth (section 5.5).
    let hardware = Hardware::shipped("iabw").unwrap();
    let top = |key: &dyn Fn(&Entry) -> f64, count: usize| {
        let mut entries: Vec<&Entry> = catalog.suite(Suite::Npb).collect();
        entries.sort_by(|a, b| key(b).total_cmp(&key(a)));
        entries.into_iter().take(count).map(|entry| entry.name.as_str()).collect::<Vec<_>>()
    };
    let heavy = top(&|entry| entry.bandwidth(&hardware).0, 2);
    assert!(heavy.contains(&"mg.C") && heavy.contains(&"cg.B"), "{heavy:?}");
    let long = top(&|entry| entry.run_time_s.value, 3);
    assert!(heavy.iter().all(|name| long.contains(name)), "{long:?}");
}

#[test]
fn bandwidth_and_stall_by_hand() {
    let entry = Catalog::parse("c", SMALL).unwrap().find("mine").unwrap().clone();
    let mut hardware = Hardware::shipped("iabw").unwrap();
    hardware.machine.core_peak = BytesPerSec(4e9);
    hardware.core_instructions = 2e9;
    // 10 lines read and 2.5 written in 1,000 instructions: 0.8 bytes each. 0.5 ns to execute, and
    // 0.8 / (0.5 x 4e9) = 0.4 ns to wait.
    let bandwidth = entry.bandwidth(&hardware).0;
    assert!((bandwidth - 0.8 / 0.9e-9).abs() < 1.0, "{bandwidth}");
    assert!((entry.stall(&hardware) - 0.4 / 0.9).abs() < 1e-12);
    assert_eq!(entry.run_time(), Nanos::from_millis(3000));
}

#[test]
fn programs_demand_what_their_figures_say() {
    let catalog = Catalog::shipped();
    for machine in ["iabw", "hmmsched", "cxl-server"] {
        let hardware = Hardware::shipped(machine).unwrap();
        for entry in catalog.iter() {
            let bandwidth = entry.bandwidth(&hardware);
            assert!(bandwidth <= hardware.machine.core_peak, "{machine} {}", entry.name);
            let program = entry.program(&hardware, 1);
            let mean = mean_bandwidth(&program);
            assert!(mean.distance(bandwidth).0 < 1e-6 * bandwidth.0 + 1.0, "{}", entry.name);
        }
    }
}

#[test]
fn the_mean_demand_of_the_spec_programs_is_of_the_order_that_table_1_implies() {
    // With equal times the IABW of any number of jobs is four times their mean demand; the 25 SPEC
    // workloads of iabw Table 1 have a mean of 39.1 trans./us, so their programs have a mean of
    // 9.8.
    let hardware = Hardware::shipped("iabw").unwrap();
    let catalog = Catalog::shipped();
    let rates: Vec<f64> = catalog
        .suite(Suite::Cfp2006)
        .map(|entry| TransPerMicro::from(entry.bandwidth(&hardware)).0 / 2.0)
        .collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    assert!((7.0..13.0).contains(&mean), "{mean}");
    // No program saturates the bus alone: the peak of a segment is 34.4 (section 2.3).
    assert!(rates.iter().all(|rate| *rate < 34.4), "{rates:?}");
}

#[test]
fn wrong_catalogs_are_refused_with_line_and_reason() {
    let cases = [
        (
            "mpki = [10, \"book\"]",
            "mpki = [10, \"bok\"]",
            "c:22: programs[0].mpki[1]: there is no source",
        ),
        ("mpki = [10, \"book\"]", "mpki = 10", "c:22: programs[0].mpki: must be a pair"),
        ("mpki = [10, \"book\"]", "mpki = [-1, \"book\"]", "programs[0].mpki[0]: -1 is no value"),
        ("mpki = [10, \"book\"]", "mkpi = [10, \"book\"]", "did you mean `mpki`"),
        ("mpki = [10, \"book\"]", "", "`mpki` of `mine` is missing"),
        ("phases = [2,", "phases = [2.5,", "defaults.phases: 2.5 is no number of phases"),
        ("\"other\"", "\"spec\"", "programs[0].suite: unknown suite"),
        ("\"by eye\"", "\"\"", "c:4: sources.estimated: is empty"),
    ];
    for (from, to, expected) in cases {
        assert!(SMALL.contains(from));
        let message = Catalog::parse("c", &SMALL.replace(from, to)).unwrap_err().to_string();
        assert!(message.contains(expected), "{from} -> {to}: {message}");
    }
    let twice = format!("{SMALL}{}", &SMALL[SMALL.find("[[programs]]").unwrap()..]);
    assert!(Catalog::parse("c", &twice).unwrap_err().to_string().contains("twice"));
}

#[test]
fn a_catalog_of_ones_own_goes_over_the_shipped_one() {
    let mut catalog = Catalog::shipped();
    let before = catalog.iter().count();
    let own = SMALL.replace("\"mine\"", "\"433.milc\"");
    catalog.extend(Catalog::parse("own", &own).unwrap());
    assert_eq!(catalog.iter().count(), before);
    assert_eq!(catalog.find("milc").unwrap().mpki.value, 10.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn figures_in_range_make_a_program(
        mpki in prop::sample::select(vec![0.0, 1e-9, 0.5, 1000.0]), share in 0.0..=0.9_f64,
        overlap in 0.01..=1.0_f64, degree in 0.0..10.0_f64, spread in 0.0..10.0_f64,
        speed in prop::sample::select(vec![0.01, 1.0, 100.0]),
    ) {
        let mut entry = Catalog::parse("c", SMALL).unwrap().find("mine").unwrap().clone();
        entry.mpki.value = mpki;
        entry.write_share.value = share;
        entry.overlap.value = overlap;
        entry.degree.value = degree;
        entry.phase_spread.value = spread;
        entry.speed.value = speed;
        let hardware = Hardware::shipped("iabw").unwrap();
        let program = entry.program(&hardware, 1);
        prop_assert_eq!(program.length(), entry.run_time());
    }

    #[test]
    fn no_text_is_too_odd(cut in 0..SMALL.len(), insert in "[ -~\n]{0,12}") {
        let text = format!("{}{insert}{}", &SMALL[..cut], &SMALL[cut..]);
        if let Ok(catalog) = Catalog::parse("c", &text) {
            let hardware = Hardware::shipped("iabw").unwrap();
            for entry in catalog.iter() {
                let _ = entry.synthetic(&hardware, 1).check();
            }
        }
        let _ = Catalog::parse("c", &SMALL[..cut]);
    }
}
