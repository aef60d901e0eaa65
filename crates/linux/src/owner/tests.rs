use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Stands for the missing link of kernels without namespaces.
const WITHOUT: &str = "nothing";

/// Processes with their start times, and the namespace that they are seen from.
struct FakeProc {
    processes: BTreeMap<i32, io::Result<u64>>,
    namespace: &'static str,
}

impl Proc for FakeProc {
    fn read(&self, path: &Path) -> io::Result<String> {
        let pid = path.to_str().and_then(|p| p.strip_suffix("/stat")?.parse().ok()).unwrap();
        match self.processes.get(&pid) {
            Some(Ok(start)) => {
                let zeros = "0 ".repeat(18);
                Ok(format!("{pid} (odd) name)) S {zeros}{start} 0 0"))
            }
            Some(Err(error)) => Err(io::Error::from(error.kind())),
            None => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        assert_eq!(path, Path::new("self/ns/pid"));
        match self.namespace {
            WITHOUT => Err(io::Error::from_raw_os_error(libc::ENOENT)),
            namespace => Ok(namespace.into()),
        }
    }
}

fn proc(namespace: &'static str) -> FakeProc {
    let denied = Err(io::Error::from(io::ErrorKind::PermissionDenied));
    FakeProc { processes: BTreeMap::from([(7, Ok(900)), (9, denied)]), namespace }
}

#[test]
fn owners_are_told_by_pid_start_and_namespace() {
    let proc = proc("pid:[42]");
    let owner = Owner::of_process(&proc, 7).unwrap();
    assert_eq!(owner.to_string(), "memweir-7-900-42");
    assert_eq!(owner.state(&proc), OwnerState::Alive);
    let reused = Owner { start_time: 899, ..owner };
    assert_eq!(reused.state(&proc), OwnerState::Dead);
    assert_eq!(Owner { pid: 8, ..owner }.state(&proc), OwnerState::Dead);
    assert_eq!(Owner { pid: 9, ..owner }.state(&proc), OwnerState::Unknown);
}

#[test]
fn without_namespaces_processes_are_told_apart_all_the_same() {
    let proc = proc(WITHOUT);
    let owner = Owner::of_process(&proc, 7).unwrap();
    assert_eq!(
        (owner.to_string().as_str(), owner.state(&proc)),
        ("memweir-7-900-0", OwnerState::Alive)
    );
    assert_eq!(Owner { pid: 8, ..owner }.state(&proc), OwnerState::Dead);
}

#[test]
fn nobody_in_another_namespace_is_taken_for_dead() {
    let owner = Owner::of_process(&proc("pid:[42]"), 7).unwrap();
    // There, pid 8 may well be alive.
    let elsewhere = Owner { pid: 8, ..owner };
    for namespace in ["pid:[43]", "pid:[]", "", "42"] {
        assert_eq!(owner.state(&proc(namespace)), OwnerState::Unknown, "{namespace}");
        assert_eq!(elsewhere.state(&proc(namespace)), OwnerState::Unknown, "{namespace}");
    }
    assert!(Owner::of_process(&proc(""), 7).is_err());
}

#[test]
fn this_process_is_alive() {
    let owner = Owner::current().unwrap();
    assert_eq!(owner.state(&KernelProc), OwnerState::Alive);
    // Above the kernel's largest pid.
    assert_eq!(Owner { pid: 1 << 22, ..owner }.state(&KernelProc), OwnerState::Dead);
}

#[test]
fn the_names_of_others_are_not_ours() {
    for name in ["", "memweir", "memweir-", "memweir-1-2-3", "memweir--1-2-3-x", "memweir-0-2-3-x"]
    {
        assert_eq!(Owner::of_name(name), None, "{name}");
    }
    assert_eq!(Owner::of_name("memweir-1-2-3-").unwrap().1, "");
}

proptest! {
    #[test]
    fn every_name_is_read_back(pid in 1.., start_time: u64, pid_namespace: u64, rest: String) {
        let owner = Owner { pid, start_time, pid_namespace };
        let name = format!("{owner}-{rest}");
        prop_assert_eq!(Owner::of_name(&name), Some((owner, rest.as_str())));
        prop_assert_eq!(Owner::parse(&owner.to_string()), Some(owner));
        prop_assert_eq!(Owner::parse(&name), None);
    }

    #[test]
    fn never_panics(name: String, tail in "memweir-[0-9-]{0,40}") {
        let _ = (Owner::of_name(&name), Owner::of_name(&tail));
    }
}
