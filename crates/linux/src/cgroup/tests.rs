use super::*;
use crate::files::fake::FakeTree;

#[test]
fn thawing_goes_on_past_a_leaf_that_fails() {
    for version in [Version::V2, Version::V1] {
        let tree = FakeTree::new();
        let parent = tree.group("p");
        for leaf in ["p/a", "p/b", "p/c"] {
            let leaf = tree.group(leaf);
            tree.write(&leaf.join(version.switch()), version.frozen()).unwrap();
        }
        tree.write(&parent.join(version.switch()), version.frozen()).unwrap();
        tree.fail("write", &format!("a/{}", version.switch()), libc::EACCES, 1);
        tree.fail("write", &format!("b/{}", version.switch()), libc::ENODEV, 1);
        let error = thaw_owned(&tree, version, &parent).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EACCES));
        for group in ["p", "p/c"] {
            let value = tree.value(&format!("{group}/{}", version.switch()));
            assert_eq!(value, version.thawed(), "{version:?} {group}");
        }
        thaw_owned(&tree, version, &parent).unwrap();
        assert_eq!(tree.value(&format!("p/a/{}", version.switch())), version.thawed());
    }
}

#[test]
fn thawing_leaves_what_a_job_froze_itself() {
    let tree = FakeTree::new();
    let parent = tree.group("p");
    tree.group("p/job");
    let nested = tree.group("p/job/own");
    tree.write(&nested.join("cgroup.freeze"), "1").unwrap();
    tree.forget_writes();
    thaw_owned(&tree, Version::V2, &parent).unwrap();
    assert!(tree.writes().is_empty(), "nothing of ours was frozen");
}

#[test]
fn thawing_and_removing_what_is_gone_succeeds() {
    let tree = FakeTree::new();
    let missing = tree.root().join("missing");
    thaw_owned(&tree, Version::V2, &missing).unwrap();
    remove_tree(&tree, &missing).unwrap();
    assert_eq!(pids(&tree, &missing).unwrap(), []);
    assert!(!populated(&tree, Version::V2, &missing).unwrap());
}

#[test]
fn removing_takes_nested_groups_and_stops_at_processes() {
    let tree = FakeTree::new();
    let parent = tree.group("p");
    tree.group("p/a");
    tree.group("p/a/nested");
    let busy = tree.group("p/b");
    tree.populate(&busy, &[77]);
    let error = remove_tree(&tree, &parent).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBUSY));
    assert!(!parent.join("a").exists() && busy.exists());
    tree.populate(&busy, &[]);
    tree.fail("remove_dir", "p/b", libc::EBUSY, 2);
    remove_tree_patiently(&tree, &parent).unwrap();
    assert!(!parent.exists());
}

#[test]
fn signals_go_to_nested_groups_and_never_to_zero() {
    let tree = FakeTree::new();
    let leaf = tree.group("leaf");
    let nested = tree.group("leaf/nested");
    tree.populate(&leaf, &[10, 0, 11]);
    tree.populate(&nested, &[12]);
    tree.vanish(11);
    signal_all(&tree, &leaf, libc::SIGTERM).unwrap();
    assert_eq!(tree.signals(), [(10, libc::SIGTERM), (12, libc::SIGTERM)]);
}

#[test]
fn killing_uses_one_write_where_the_kernel_has_it_and_walks_otherwise() {
    let tree = FakeTree::new();
    let leaf = tree.group("leaf");
    tree.populate(&leaf, &[10, 11]);
    kill_all(&tree, Version::V2, &leaf).unwrap();
    assert_eq!(tree.writes(), [("leaf/cgroup.kill".to_owned(), "1".to_owned())]);
    assert!(tree.signals().is_empty());

    std::fs::remove_file(leaf.join("cgroup.kill")).unwrap();
    kill_all(&tree, Version::V2, &leaf).unwrap();
    assert_eq!(tree.signals(), [(10, libc::SIGKILL), (11, libc::SIGKILL)]);
}

#[test]
fn accounting_reads_the_line_of_that_name() {
    let tree = FakeTree::new();
    let leaf = tree.group("leaf");
    std::fs::write(leaf.join("cpu.stat"), "usage_usec_x 1\nusage_usec 1500\nuser_usec 7\n")
        .unwrap();
    assert_eq!(cpu_time(&tree, &leaf).unwrap(), Nanos(1_500_000));
    std::fs::write(leaf.join("cpu.stat"), "user_usec 7\n").unwrap();
    assert!(cpu_time(&tree, &leaf).is_err());
}

#[test]
fn threads_of_nested_groups_belong_to_the_group() {
    let tree = FakeTree::new();
    let group = tree.group("a");
    tree.group("a/b");
    for (version, file) in [(Version::V2, "cgroup.threads"), (Version::V1, "tasks")] {
        tree.file(&format!("a/{file}"), "12\n0\n");
        tree.file(&format!("a/b/{file}"), "13\n14\n");
        let mut found = threads(&tree, version, &group).unwrap();
        found.sort_unstable();
        assert_eq!(found, [12, 13, 14]);
        let gone = threads(&tree, version, &tree.root().join("gone"));
        assert_eq!(gone.unwrap(), [] as [i32; 0]);
    }
}
