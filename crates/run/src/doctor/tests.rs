use std::fs;

use memweir_core::BytesPerSec;
use memweir_linux::hog::Kernel;

use super::*;
use crate::platform::{Effort, Peak};

fn options(dir: &tempfile::TempDir) -> DoctorOptions {
    DoctorOptions {
        qemu: QemuPaths::default(),
        platform: Some(dir.path().join("platform.toml")),
        store: Some(dir.path().join("profiles.sqlite")),
    }
}

#[test]
fn every_meter_and_mechanism_is_there_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let report = doctor(&options(&dir));
    let names = |probes: &BTreeMap<String, Probe>| probes.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&report.meters), ["declared", "perf", "resctrl", "software"]);
    assert_eq!(names(&report.mechanisms), ["cgroup-v1", "cgroup-v2", "sched-ext", "sigstop"]);
    assert_eq!(names(&report.media), ["cpuless-nodes", "cxl", "dax", "second-medium"]);
    assert_eq!(names(&report.paging), ["pagemap-scan", "places", "userfaultfd"]);
    let DoctorReport { meters, mechanisms, media, paging, privileges, kernel_features, .. } =
        &report;
    let maps = [meters, mechanisms, media, paging, privileges, kernel_features];
    for (name, probe) in maps.into_iter().flatten() {
        assert!(!probe.reason.is_empty(), "{name}");
    }
    assert!(report.meters["declared"].available);
    // The form that scripts rely on.
    let json = serde_json::to_value(&report).unwrap();
    for group in ["meters", "mechanisms", "media", "paging"] {
        for (name, probe) in json[group].as_object().unwrap() {
            assert!(probe["available"].is_boolean() && probe["reason"].is_string(), "{name}");
        }
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "looking makes nothing");
    let manual = include_str!("../../../../docs/json.md");
    let section = manual.split("\n## ").find(|section| section.starts_with("`doctor --json`"));
    let fields = serde_json::to_value(&report).unwrap();
    for field in fields.as_object().unwrap().keys() {
        let is_named = |text: &str| text.contains(&format!("`{field}"));
        assert!(section.is_some_and(is_named), "docs/json.md does not describe `{field}`");
    }
}

#[test]
fn the_calibration_is_there_absent_foreign_or_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("platform.toml");
    let machine = Machine::here();
    let probe = || platform(Some(&path), &machine);
    assert!(probe().reason.contains("does not exist"), "{:?}", probe());
    fs::write(&path, "format = 7\n").unwrap();
    assert!(!probe().available && probe().help.unwrap().contains("memweir calibrate"));

    let mut calibrated = Platform::new(machine.clone(), Effort::Quick);
    calibrated.save(&path).unwrap();
    assert!(probe().reason.contains("no peak"), "{:?}", probe());
    calibrated.peak = Some(Peak {
        bandwidth: BytesPerSec::from_gb(44.0),
        saturation: BytesPerSec::from_gb(38.5),
        kernel: Kernel::Read,
        instances: 2,
    });
    calibrated.save(&path).unwrap();
    assert!(probe().available && probe().reason.contains("44.0 GB/s"), "{:?}", probe());
    calibrated.machine.cpu = "another".to_owned();
    calibrated.save(&path).unwrap();
    assert!(!probe().available && probe().reason.contains("another machine"), "{:?}", probe());
}

#[test]
fn the_store_is_counted_or_its_trouble_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("profiles.sqlite");
    assert!(!store(Some(&path)).available && !path.exists());
    Store::open(Some(&path)).unwrap();
    assert!(store(Some(&path)).reason.starts_with("0 programs"));
    fs::write(&path, "no database at all, and longer than a header of one. ".repeat(9)).unwrap();
    assert!(store(Some(&path)).reason.contains("not a database"));
}
