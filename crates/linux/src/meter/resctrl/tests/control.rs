//! Monitoring groups for control groups: taken, followed, and returned.

use memweir_core::{Bytes, Lines};

use super::*;
use crate::meter::Reason;
use crate::meter::cgroup::{DomainBytes, GroupMeter, Scope};
use crate::meter::resctrl::control::ResctrlGroupMeter;

fn opened(machine: &Machine, most: Option<usize>) -> ResctrlGroupMeter {
    let files = Arc::new(machine.0.clone());
    ResctrlGroupMeter::open_with(files, &machine.proc(), ME, most).unwrap()
}

/// Makes a control group with these threads.
fn control_group(machine: &Machine, name: &str, threads: &str) -> PathBuf {
    machine.file(&format!("cgroup/{name}/cgroup.threads"), threads);
    machine.0.root().join("cgroup").join(name)
}

#[test]
fn counts_both_scopes_of_every_domain() {
    let machine = Machine::new();
    let mut meter = opened(&machine, None);
    let group = control_group(&machine, "a", "11\n");
    meter.attach(7, &group).unwrap();
    machine.set(0, 0, "6400\n");
    machine.set(0, 1, "640\n");
    let local =
        format!("resctrl/mon_groups/{}/mon_data/mon_L3_01/mbm_local_bytes", Machine::group(0));
    machine.file(&local, "64\n");
    let reading = meter.read(7).unwrap();
    assert_eq!(reading.counts.reads, Lines(110));
    let bytes = |domain, scope, bytes| DomainBytes { domain, scope, bytes: Bytes(bytes) };
    assert_eq!(
        reading.domains,
        [
            bytes(0, Scope::Total, 6400),
            bytes(0, Scope::Local, 0),
            bytes(1, Scope::Total, 640),
            bytes(1, Scope::Local, 64),
        ]
    );
}

#[test]
fn threads_that_enter_later_are_followed_and_those_known_are_not_moved_again() {
    let machine = Machine::new();
    let mut meter = opened(&machine, None);
    let group = control_group(&machine, "a", "11\n");
    control_group(&machine, "a/below", "12\n");
    meter.attach(1, &group).unwrap();
    assert_eq!(machine.tasks(0), "12");
    control_group(&machine, "a", "11\n13\n");
    meter.read(1).unwrap();
    assert_eq!(machine.tasks(0), "13");
    // A thread that ends while it is moved is no failure.
    control_group(&machine, "a", "11\n13\n14\n");
    machine.fail("write", "tasks", libc::ESRCH);
    meter.read(1).unwrap();
    assert_eq!(machine.tasks(0), "13");
    meter.read(1).unwrap();
    assert_eq!(machine.tasks(0), "13", "nothing new came");
    control_group(&machine, "a", "15\n");
    machine.fail("write", "tasks", libc::EPERM);
    assert_eq!(meter.read(1).unwrap_err().reason, Reason::Permission);
}

#[test]
fn no_more_groups_are_taken_than_allowed_and_each_is_returned() {
    let machine = Machine::new();
    let mut meter = opened(&machine, Some(2));
    let groups = ["a", "b", "c"].map(|name| control_group(&machine, name, "1\n"));
    meter.attach(1, &groups[0]).unwrap();
    meter.attach(2, &groups[1]).unwrap();
    assert_eq!(meter.attach(3, &groups[2]).unwrap_err().reason, Reason::Limit);
    assert_eq!(machine.groups().len(), 2);
    meter.detach(1);
    assert_eq!(machine.groups(), [Machine::group(1)]);
    meter.attach(3, &groups[2]).unwrap();
    assert!(meter.read(1).is_err() && meter.read(3).is_ok());
    drop(meter);
    assert!(machine.groups().is_empty());
}

#[test]
fn half_of_the_monitoring_ids_are_left_to_others() {
    let machine = Machine::new();
    assert!(opened(&machine, None).describe().contains("at most 88 are taken"));
    machine.file("resctrl/info/L3_MON/num_rmids", "odd\n");
    assert!(opened(&machine, None).describe().contains("at most 16 are taken"));
}

#[test]
fn a_group_that_cannot_be_monitored_leaves_nothing_behind() {
    for (operation, path, errno, reason) in [
        ("create_dir", &*Machine::group(0), libc::ENOSPC, Reason::Limit),
        ("write", "tasks", libc::EPERM, Reason::Permission),
        ("children", "mon_data", libc::EIO, Reason::Other),
        ("read", "mbm_local_bytes", libc::EIO, Reason::Other),
    ] {
        let machine = Machine::new();
        let mut meter = opened(&machine, None);
        let group = control_group(&machine, "a", "1\n");
        machine.fail(operation, path, errno);
        assert_eq!(meter.attach(1, &group).unwrap_err().reason, reason, "{operation} {path}");
        assert!(machine.groups().is_empty(), "{operation} {path}");
        assert!(meter.attach(1, &group).is_ok(), "a second try may succeed");
    }
}

#[test]
fn gaps_are_told_once_and_groups_that_stay_are_named() {
    let machine = Machine::new();
    let mut meter = opened(&machine, None);
    meter.attach(1, &control_group(&machine, "a", "")).unwrap();
    machine.set(0, 0, "Unavailable\n");
    meter.read(1).unwrap();
    meter.read(1).unwrap();
    assert_eq!(meter.take_notices().len(), 1);
    machine.fail("remove_dir", &Machine::group(0), libc::EBUSY);
    meter.detach(1);
    assert!(meter.take_notices()[0].contains("stays behind"));
}
