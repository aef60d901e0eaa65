use proptest::prelude::*;

use super::*;
use crate::files::fake::FakeTree;

/// Makes a proc file system with the processes 7 and 9, of which 9 cannot be read. Without a
/// namespace, it is that of a kernel that has none.
fn tree(namespace: Option<&str>) -> FakeTree {
    let tree = FakeTree::with_template([]);
    for pid in [7, 9] {
        let zeros = "0 ".repeat(18);
        tree.file(&format!("{pid}/stat"), &format!("{pid} (odd) name)) S {zeros}900 0 0"));
    }
    tree.fail("read", "9/stat", libc::EACCES, usize::MAX);
    if let Some(namespace) = namespace {
        tree.link("self/ns/pid", namespace);
    }
    tree
}

fn proc(tree: &FakeTree) -> Proc<'_> {
    Proc { files: tree, root: tree.root() }
}

#[test]
fn owners_are_told_by_pid_start_and_namespace() {
    let tree = tree(Some("pid:[42]"));
    let proc = proc(&tree);
    let owner = Owner::of_process(proc, 7).unwrap();
    assert_eq!(owner.to_string(), "memweir-7-900-42");
    assert_eq!(owner.state(proc), OwnerState::Alive);
    let reused = Owner { start_time: 899, ..owner };
    assert_eq!(reused.state(proc), OwnerState::Dead);
    assert_eq!(Owner { pid: 8, ..owner }.state(proc), OwnerState::Dead);
    assert_eq!(Owner { pid: 9, ..owner }.state(proc), OwnerState::Unknown);
}

#[test]
fn without_namespaces_processes_are_told_apart_all_the_same() {
    let tree = tree(None);
    let proc = proc(&tree);
    let owner = Owner::of_process(proc, 7).unwrap();
    assert_eq!(
        (owner.to_string().as_str(), owner.state(proc)),
        ("memweir-7-900-0", OwnerState::Alive)
    );
    assert_eq!(Owner { pid: 8, ..owner }.state(proc), OwnerState::Dead);
}

#[test]
fn nobody_in_another_namespace_is_taken_for_dead() {
    let owner = Owner::of_process(proc(&tree(Some("pid:[42]"))), 7).unwrap();
    // There, pid 8 may well be alive.
    let elsewhere = Owner { pid: 8, ..owner };
    for namespace in ["pid:[43]", "pid:[]", "42"] {
        let tree = tree(Some(namespace));
        assert_eq!(owner.state(proc(&tree)), OwnerState::Unknown, "{namespace}");
        assert_eq!(elsewhere.state(proc(&tree)), OwnerState::Unknown, "{namespace}");
        assert_eq!(Owner::of_process(proc(&tree), 7).is_ok(), namespace == "pid:[43]");
    }
}

#[test]
fn this_process_is_alive() {
    let owner = Owner::current().unwrap();
    assert_eq!(owner.state(Proc::kernel()), OwnerState::Alive);
    // Above the kernel's largest pid.
    assert_eq!(Owner { pid: 1 << 22, ..owner }.state(Proc::kernel()), OwnerState::Dead);
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
