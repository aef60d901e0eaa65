//! The meter on a tree of ordinary files that behaves as the kernel's, with faults on demand.

mod control;

use std::fs;
use std::io;
use std::path::PathBuf;

use memweir_core::{JobId, Lines, Nanos};

use super::*;
use crate::files::fake::FakeTree;
use crate::meter::Reason;

const ME: i32 = 100;
const NAMESPACE: u64 = 4_026_531_836;
const STAT: &str = "(memweir) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5000 0 0";

/// A resctrl and a proc file system in one tree. Tests change it behind the meter's back.
struct Machine(FakeTree);

impl Machine {
    fn with_domains(domains: usize) -> Self {
        let counter = |domain| {
            ["mbm_total_bytes", "mbm_local_bytes", "llc_occupancy"]
                .map(|name| (format!("mon_data/mon_L3_{domain:02}/{name}"), "0\n"))
        };
        let others = ["tasks", "mon_data/mon_PERF_PKG_00/core_energy"];
        let files = others.map(|file| (file.to_owned(), ""));
        let files = (0..domains).flat_map(counter).chain(files);
        let machine = Self(FakeTree::with_template(files));
        let mount =
            format!("24 30 0:22 / {} rw - resctrl resctrl rw\n", machine.resctrl().display());
        machine.file("proc/self/mountinfo", &mount);
        machine.file("proc/filesystems", "nodev\tresctrl\n");
        machine.file("proc/cpuinfo", "flags\t: fpu cqm_mbm_total cqm_mbm_local\n");
        machine.file(&format!("proc/{ME}/stat"), &format!("{ME} {STAT}"));
        machine.0.link("proc/self/ns/pid", &format!("pid:[{NAMESPACE}]"));
        machine.file(
            "resctrl/info/L3_MON/mon_features",
            "llc_occupancy\nmbm_total_bytes\nmbm_total_bytes_config\nmbm_local_bytes\n",
        );
        machine.file("resctrl/info/L3_MON/num_rmids", "176\n");
        fs::create_dir_all(machine.mon_groups()).unwrap();
        machine
    }

    fn new() -> Self {
        Self::with_domains(2)
    }

    fn proc(&self) -> PathBuf {
        self.0.root().join("proc")
    }

    fn resctrl(&self) -> PathBuf {
        self.0.root().join("resctrl")
    }

    fn mon_groups(&self) -> PathBuf {
        self.resctrl().join("mon_groups")
    }

    fn file(&self, path: &str, text: &str) {
        self.0.file(path, text);
    }

    /// Makes the next use of `operation` on a path that ends with `path` fail.
    fn fail(&self, operation: &str, path: &str, errno: i32) {
        self.0.fail(operation, path, errno, 1);
    }

    fn groups(&self) -> Vec<String> {
        let groups = KernelFiles.children(&self.mon_groups()).unwrap();
        groups.iter().map(|group| group.file_name().unwrap().to_str().unwrap().into()).collect()
    }

    /// The name of the group of a job.
    fn group(job: u32) -> String {
        format!("memweir-{ME}-5000-{NAMESPACE}-job{job}")
    }

    /// The threads that were written to a job's group: the last one alone.
    fn tasks(&self, job: u32) -> String {
        self.0.value(&format!("resctrl/mon_groups/{}/tasks", Self::group(job)))
    }

    /// Sets a job's counter in one domain.
    fn set(&self, job: u32, domain: usize, text: &str) {
        let group = Self::group(job);
        let file =
            format!("resctrl/mon_groups/{group}/mon_data/mon_L3_{domain:02}/mbm_total_bytes");
        assert!(self.0.root().join(&file).exists(), "{file}");
        self.file(&file, text);
    }

    fn meter(&self) -> Result<ResctrlMeter, Probe> {
        ResctrlMeter::open_with(Arc::new(self.0.clone()), &self.proc(), ME)
    }
}

fn lines(meter: &mut ResctrlMeter, job: u32) -> Lines {
    let counts = meter.read(JobId(job), Nanos::ZERO, Nanos::ZERO).unwrap().counts;
    assert_eq!((counts.instructions, counts.writes), (0, Lines::ZERO));
    counts.reads
}

#[test]
fn counts_a_job_over_all_domains_from_birth_to_removal() {
    let machine = Machine::new();
    let mut meter = machine.meter().unwrap();
    meter.attach(JobId(3), 4711).unwrap();
    assert_eq!(machine.tasks(3), "4711");
    assert_eq!(lines(&mut meter, 3), Lines::ZERO);
    machine.set(3, 0, "6400\n");
    machine.set(3, 1, "640\n");
    assert_eq!(lines(&mut meter, 3), Lines(110));
    meter.detach(JobId(3));
    assert!(machine.groups().is_empty());
    assert!(meter.read(JobId(3), Nanos::ZERO, Nanos::ZERO).is_err());
    assert_eq!(meter.take_notices(), Vec::<String>::new());
}

#[test]
fn says_that_reads_carry_the_writes() {
    let meter = Machine::new().meter().unwrap();
    let capabilities = meter.capabilities();
    assert!(!capabilities.writes && !capabilities.instructions);
    assert!(capabilities.caveats[0].contains("together"), "{capabilities:?}");
    assert_eq!(meter.kind(), MeterKind::Resctrl);
}

#[test]
fn gaps_and_resets_are_bridged_and_told_once() {
    let machine = Machine::new();
    let mut meter = machine.meter().unwrap();
    for job in [0, 1] {
        meter.attach(JobId(job), 1).unwrap();
        machine.set(job, 0, "6400\n");
        assert_eq!(lines(&mut meter, job), Lines(100));
        machine.set(job, 0, "Unavailable\n");
        assert_eq!(lines(&mut meter, job), Lines(100));
        machine.set(job, 0, "Error\n");
        machine.set(job, 1, "64\n");
        assert_eq!(lines(&mut meter, job), Lines(101));
        // The counter was reset meanwhile.
        machine.set(job, 0, "640\n");
        assert_eq!(lines(&mut meter, job), Lines(111));
    }
    let notices = meter.take_notices();
    assert_eq!(notices.len(), 3, "{notices:?}");
    assert!(notices[0].starts_with("job 0: mbm_total_bytes is `Unavailable`"), "{notices:?}");
    assert!(notices[1].contains("`Error`") && notices[2].contains("reset"), "{notices:?}");
    assert!(meter.take_notices().is_empty());
}

#[test]
fn a_job_without_an_rmid_is_refused_and_the_others_go_on() {
    let machine = Machine::new();
    let mut meter = machine.meter().unwrap();
    meter.attach(JobId(0), 1).unwrap();
    machine.fail("create_dir", &Machine::group(1), libc::ENOSPC);
    let error = meter.attach(JobId(1), 2).unwrap_err();
    assert!(error.text.contains("job 1") && error.text.contains("there are 176"), "{error}");
    assert_eq!(error.reason, Reason::Limit);
    machine.fail("create_dir", &Machine::group(2), libc::EBUSY);
    let error = meter.attach(JobId(2), 2).unwrap_err();
    assert!(error.text.contains("try again") && error.reason == Reason::Limit, "{error:?}");
    machine.set(0, 0, "64\n");
    assert_eq!(lines(&mut meter, 0), Lines(1));
}

#[test]
fn a_job_that_cannot_enter_leaves_no_group() {
    let faults = [
        ("write", "tasks", libc::ESRCH),
        ("write", "tasks", libc::EPERM),
        ("children", "mon_data", libc::EIO),
        ("read", "mbm_total_bytes", libc::EIO),
    ];
    for (operation, path, errno) in faults {
        let machine = Machine::new();
        let mut meter = machine.meter().unwrap();
        machine.fail(operation, path, errno);
        let error = meter.attach(JobId(0), 1).expect_err(operation);
        let source = io::Error::from_raw_os_error(errno);
        assert!(error.text.contains("job 0"), "{error}");
        assert!(error.text.ends_with(&source.to_string()), "{error}");
        assert_eq!(error.reason, Reason::of(&source));
        assert!(machine.groups().is_empty(), "after {operation} {path}");
        assert!(meter.attach(JobId(0), 1).is_ok(), "a second try may succeed");
    }
}

#[test]
fn a_group_without_domains_is_an_error_and_no_silence() {
    let machine = Machine::with_domains(0);
    let mut meter = machine.meter().unwrap();
    assert!(meter.attach(JobId(0), 1).unwrap_err().to_string().contains("mon_L3"));
    assert!(machine.groups().is_empty());
}

#[test]
fn a_failing_read_is_an_error_and_the_next_one_works() {
    let machine = Machine::new();
    let mut meter = machine.meter().unwrap();
    meter.attach(JobId(0), 1).unwrap();
    machine.set(0, 0, "128\n");
    machine.fail("read", "mon_L3_01/mbm_total_bytes", libc::EIO);
    assert!(meter.read(JobId(0), Nanos::ZERO, Nanos::ZERO).is_err());
    assert_eq!(lines(&mut meter, 0), Lines(2), "nothing is counted twice");
}

#[test]
fn groups_of_dead_runs_are_removed_and_no_others() {
    let machine = Machine::new();
    let groups = machine.mon_groups();
    // 200 lives on; 300 is a new process with an old PID; 400 is gone.
    machine.file("proc/200/stat", &format!("200 {STAT}"));
    machine.file("proc/300/stat", &format!("300 {STAT}"));
    // In another pid namespace, 400 may be alive.
    let stay = [
        format!("memweir-200-5000-{NAMESPACE}-job0"),
        "memweir-400-1-77-job2".to_owned(),
        "mine".to_owned(),
    ];
    let go =
        [format!("memweir-300-4999-{NAMESPACE}-job0"), format!("memweir-400-1-{NAMESPACE}-job2")];
    for name in stay.iter().chain(&go) {
        fs::create_dir(groups.join(name)).unwrap();
    }
    let mut meter = machine.meter().unwrap();
    assert_eq!(machine.groups(), stay);
    assert!(meter.take_notices()[0].contains("removed 2"));
}

#[test]
fn runs_that_cannot_be_asked_after_keep_their_groups() {
    let machine = Machine::new();
    let name = format!("memweir-400-1-{NAMESPACE}-job2");
    fs::create_dir(machine.mon_groups().join(&name)).unwrap();
    machine.fail("read", "proc/400/stat", libc::EACCES);
    let _meter = machine.meter().unwrap();
    assert_eq!(machine.groups(), [name]);
}

#[test]
fn groups_that_cannot_be_removed_are_told() {
    let machine = Machine::new();
    let mut meter = machine.meter().unwrap();
    meter.attach(JobId(0), 1).unwrap();
    machine.fail("remove_dir", &Machine::group(0), libc::EBUSY);
    meter.detach(JobId(0));
    assert!(meter.take_notices()[0].contains("stays behind"));
}

#[test]
fn a_meter_that_goes_away_takes_its_groups_along() {
    let machine = Machine::new();
    let mut meter = machine.meter().unwrap();
    meter.attach(JobId(0), 1).unwrap();
    meter.attach(JobId(1), 2).unwrap();
    assert_eq!(machine.groups().len(), 2);
    drop(meter);
    assert!(machine.groups().is_empty());
}

#[test]
fn local_bytes_are_used_where_there_is_no_total() {
    let machine = Machine::new();
    machine.file("resctrl/info/L3_MON/mon_features", "llc_occupancy\nmbm_local_bytes\n");
    let meter = machine.meter().unwrap();
    assert!(meter.capabilities().caveats[2].contains("own socket"));
}

#[test]
fn groups_are_made_in_the_own_control_group() {
    let machine = Machine::new();
    machine.file("proc/self/cpu_resctrl_groups", "res:/gold\nmon:\n");
    fs::create_dir_all(machine.resctrl().join("gold/mon_groups")).unwrap();
    let mut meter = machine.meter().unwrap();
    meter.attach(JobId(0), 1).unwrap();
    assert!(machine.resctrl().join("gold/mon_groups").join(Machine::group(0)).exists());
}

#[test]
fn what_is_missing_is_named_with_what_helps() {
    let machine = Machine::new();
    let refused = || machine.meter().expect_err("no meter");
    machine.fail("writable", "mon_groups", libc::EROFS);
    assert!(refused().help.unwrap().contains("root"));
    machine.file("resctrl/info/L3_MON/mon_features", "llc_occupancy\n");
    assert!(refused().reason.contains("llc_occupancy"));
    machine.file("proc/self/mountinfo", "");
    assert!(refused().help.unwrap().starts_with("mount -t resctrl"));
    machine.file("proc/filesystems", "nodev\tproc\n");
    assert!(refused().help.unwrap().contains("CONFIG_X86_CPU_RESCTRL"));
    machine.file("proc/cpuinfo", "flags\t: fpu hypervisor\n");
    assert!(refused().reason.contains("virtual machine"));
    machine.file("proc/cpuinfo", "flags\t: fpu\n");
    assert!(refused().reason.contains("this CPU has no"));
}

#[test]
fn the_real_file_system_is_used_where_there_is_one() {
    let mut meter = match ResctrlMeter::open() {
        Ok(meter) => meter,
        Err(probe) => {
            return memweir_test_support::skip!(Processor, "no resctrl here: {}", probe.reason);
        }
    };
    let mut child = std::process::Command::new("sleep").arg("1").spawn().unwrap();
    meter.attach(JobId(0), i32::try_from(child.id()).unwrap()).unwrap();
    assert!(meter.read(JobId(0), Nanos::ZERO, Nanos::ZERO).is_ok());
    child.kill().unwrap();
    child.wait().unwrap();
    meter.detach(JobId(0));
    assert!(meter.take_notices().iter().all(|notice| !notice.contains("stays behind")));
}
