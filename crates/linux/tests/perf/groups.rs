//! Counts of a control group, in a real one.

use std::path::{Path, PathBuf};
use std::process::Command;

use memweir_linux::cgroup_tree::CgroupTree;
use memweir_linux::meter::Reason;
use memweir_linux::meter::cgroup::GroupMeter;
use memweir_linux::meter::perf::{PerfGroupMeter, PerfOpenError};

use crate::child::{run, software_events};

const PAGES: u64 = 20_000;

/// Lines that the test's event file reports for one page fault.
const LINES_PER_FAULT: u64 = 64;

/// Faults of the shells around the programs.
const OTHER_FAULTS: u64 = 10_000;

/// A control group of one test.
struct Group(PathBuf);

impl Group {
    /// Makes a group; `None`, with a skip, where that is not possible.
    fn new(tree: &CgroupTree, name: &str) -> Option<Self> {
        let path = tree.top().join(format!("memweir-test-{}-{name}", std::process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => Some(Self(path)),
            Err(error) => {
                memweir_test_support::skip!(Privilege, "cannot make {}: {error}", path.display());
                None
            }
        }
    }

    /// Runs a shell command in the group below it of this name, to its end.
    fn run(&self, below: &str, command: &str) {
        let group = self.0.join(below);
        std::fs::create_dir_all(&group).unwrap();
        let script = format!("echo $$ > {}/cgroup.procs && {command}", group.display());
        shell(&script);
    }
}

/// Runs a shell command, whose `$0` is this test's program.
fn shell(script: &str) {
    let this = std::env::current_exe().unwrap();
    let status = Command::new("sh").args(["-c", script]).arg(this).status().unwrap();
    assert!(status.success(), "{script}");
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(self.0.join("below"));
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn opened() -> Option<(CgroupTree, PerfGroupMeter)> {
    let Ok(tree) = CgroupTree::open() else {
        memweir_test_support::skip!(Kernel, "no cgroup v2 tree is mounted");
        return None;
    };
    match PerfGroupMeter::open(&tree, Some(&software_events())) {
        Ok(meter) => Some((tree, meter)),
        Err(PerfOpenError::Unavailable(probe)) => {
            memweir_test_support::skip!(Privilege, "{}", probe.reason);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn faults(meter: &mut PerfGroupMeter) -> u64 {
    meter.read(1).unwrap().counts.reads.0 / LINES_PER_FAULT
}

#[test]
fn a_group_counts_what_is_done_in_it_and_below_from_attachment_on() {
    let Some((tree, mut meter)) = opened() else { return };
    let Some(group) = Group::new(&tree, "counts") else { return };
    let touch = run(&format!("touch:{PAGES}"));
    group.run("", &touch);
    meter.attach(1, &group.0).unwrap();
    assert_eq!(faults(&mut meter), 0, "nothing from before counts");
    group.run("", &touch);
    let once = faults(&mut meter);
    assert!((PAGES..PAGES + OTHER_FAULTS).contains(&once), "{once}");
    // Outside of the group.
    shell(&touch);
    assert_eq!(faults(&mut meter), once);
    group.run("below", &touch);
    let twice = faults(&mut meter);
    assert!((once + PAGES..once + PAGES + OTHER_FAULTS).contains(&twice), "{once} {twice}");
    drop(group);
    assert_eq!(faults(&mut meter), twice, "the counts outlive the group");
    meter.detach(1);
    assert!(meter.read(1).is_err());
}

#[test]
fn a_group_that_is_gone_is_refused_as_gone() {
    let Some((tree, mut meter)) = opened() else { return };
    let error = meter.attach(1, &tree.top().join("memweir-test-none")).unwrap_err();
    assert_eq!(error.reason, Reason::Gone);
    let error = meter.attach(1, Path::new("/proc/self")).unwrap_err();
    assert_eq!(error.reason, Reason::Other, "{error}");
}
