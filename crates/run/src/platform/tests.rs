use memweir_core::cache::CacheGeometry;
use proptest::prelude::*;

use super::*;

fn machine() -> Machine {
    let cache = |size, ways| CacheGeometry { size: Bytes(size), ways, line: 64 };
    Machine {
        cpu: "A Processor".to_owned(),
        cores: 2,
        memory: Bytes(8 << 30),
        hypervisor: Some("KVM".to_owned()),
        caches: Some(CacheHierarchy {
            l1d: cache(48 << 10, 12),
            l2: cache(1 << 20, 16),
            llc: cache(32 << 20, 16),
        }),
    }
}

fn sample() -> Platform {
    let mut platform = Platform::new(machine(), Effort::Quick);
    platform.peak = Some(Peak {
        bandwidth: BytesPerSec::from_gb(44.0),
        saturation: BytesPerSec::from_gb(38.5),
        kernel: Kernel::Read,
        instances: 2,
    });
    platform.target = Target::Measured {
        coefficients: [-1.5, 1.25, -0.011],
        from: BytesPerSec::from_gb(1.0),
        to: BytesPerSec::from_gb(60.0),
        r_squared: 0.97,
    };
    platform.streams =
        vec![StreamPoint { kernel: Kernel::Copy, instances: 1, bandwidth: BytesPerSec(3.1e10) }];
    platform.idle_table = vec![IdlePoint { idle: 0, bandwidth: BytesPerSec(4.0e10) }];
    platform.hog_curve = vec![HogPoint {
        idle: 16,
        demand: BytesPerSec(2.0e10),
        achieved: BytesPerSec(1.99e10),
        weighted_speedup: 1.98,
    }];
    platform.full_load = platform.hog_curve.clone();
    platform.combinations = vec![Combination {
        demand: BytesPerSec(3.0e10),
        achieved: BytesPerSec(2.4e10),
        weighted_speedup: 1.7,
        seeds: vec![3, u32::MAX],
    }];
    platform
}

fn refusal(text: &str) -> InputError {
    Platform::parse(text, "platform.toml").unwrap_err()
}

#[test]
fn what_is_saved_is_what_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("platform.toml");
    let mut platform = sample();
    platform.save(&path).unwrap();
    assert_eq!(Platform::load(&path).unwrap(), platform);
    platform.target = Target::NotMeasurable { reason: "two busy cores do not contend".to_owned() };
    platform.peak = None;
    platform.machine.hypervisor = None;
    platform.save(&path).unwrap();
    assert_eq!(Platform::load(&path).unwrap(), platform);
}

#[test]
fn the_curve_has_its_coefficients_in_their_places() {
    // 1.25 x 20 - 0.011 x 400 - 1.5 = 19.1 GB/s.
    let curve = sample().target_curve().unwrap();
    let target = curve.apply(BytesPerSec::from_gb(20.0), sample().peak());
    assert!((target.as_gb() - 19.1).abs() < 1e-9, "{target}");
    let unmeasured = Platform::new(machine(), Effort::Full);
    assert_eq!((unmeasured.target_curve(), unmeasured.bus().saturation), (None, None));
}

#[test]
fn an_absent_file_is_told_from_a_wrong_one() {
    let error = Platform::load(Path::new("/nonexistent/platform.toml")).unwrap_err();
    let PlatformError::Io { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), io::ErrorKind::NotFound);
}

#[test]
fn wrong_values_are_refused_with_line_key_and_reason() {
    let text = sample().to_toml();
    for (right, wrong, key, reason) in [
        ("format = 1", "format = 7", "format", "format 7 is unknown"),
        ("bandwidth = 44000000000.0", "bandwidth = -1.0", "bandwidth", "finite number"),
        ("saturation = 38500000000.0", "saturation = nan", "saturation", "finite number"),
        ("saturation = 38500000000.0", "saturation = 0.0", "saturation", "zero"),
        ("idle = 16", "idel = 16", "idel", "unknown field"),
        ("kernel = \"copy\"", "kernel = \"cpoy\"", "kernel", "unknown variant"),
        ("-1.5", "inf", "coefficients", "finite"),
        ("weighted_speedup = 1.98", "weighted_speedup = -2", "weighted_speedup", "zero or more"),
    ] {
        assert!(text.contains(right), "{right}\n{text}");
        let line = text[..text.find(right).unwrap()].lines().count();
        let error = refusal(&text.replacen(right, wrong, 1));
        assert!(error.reason.contains(reason), "{error}");
        // A table with a tag is read as a whole, and its errors point to its head.
        if key != "coefficients" {
            assert_eq!(error.key.as_deref(), Some(key), "{error}");
            let found = error.line.unwrap();
            assert!(found == line || found == line + 1, "{error}: line {line}");
        } else {
            assert!(error.line.is_some(), "{error}");
        }
    }
}

#[test]
fn a_missing_part_is_named() {
    let error = refusal("format = 1\n");
    assert!(error.reason.contains("missing field"), "{error}");
    assert!(error.to_string().contains("memweir calibrate"), "{error}");
}

#[test]
fn a_calibration_of_another_machine_is_noticed() {
    let platform = sample();
    assert_eq!(platform.notice_for(&machine()), None);
    let mut other = machine();
    other.memory = Bytes(9 << 30);
    assert_eq!(platform.notice_for(&other), None, "memory comes and goes in guests");
    other.cpu = "Another".to_owned();
    other.cores = 64;
    let notice = platform.notice_for(&other).unwrap();
    assert!(notice.contains("Another here") && notice.contains("2 cores there"), "{notice}");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = Platform::parse(&text, "x");
    }

    #[test]
    fn damage_never_lets_a_wrong_number_in(
        place in any::<prop::sample::Index>(),
        insert in "[-0-9a-z.\"\\n=\\[\\]]{0,4}",
        remove in 0_usize..12,
    ) {
        let mut text = sample().to_toml();
        let start = place.index(text.len());
        text.replace_range(start..(start + remove).min(text.len()), &insert);
        if let Ok(platform) = Platform::parse(&text, "x") {
            let fine = |rate: BytesPerSec| rate.0.is_finite() && rate.0 >= 0.0;
            prop_assert!(platform.peak().is_none_or(|peak| fine(peak) && peak.0 > 0.0));
            prop_assert!(platform.hog_curve.iter().all(|p| fine(p.demand) && fine(p.achieved)));
            prop_assert!(platform.combinations.iter().all(|p| fine(p.demand)));
        }
    }
}
