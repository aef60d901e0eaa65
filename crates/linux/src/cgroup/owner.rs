//! The names of memweir's groups, which tell whose they are after their owner has died.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::blocker::processes::start_time;

const PREFIX: &str = "memweir";
/// Longest part of a group's name that comes from the batch's name.
const MAX_BATCH_NAME: usize = 64;

/// A memweir that made a group: its process id is not enough, since those are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) pid: i32,
    /// In clock ticks since boot.
    start_time: u64,
    /// Inode of its pid namespace: a container's pids mean nothing outside of it.
    pid_namespace: u64,
}

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerState {
    Alive,
    Dead,
    /// It lives, or lived, in another pid namespace.
    Unknown,
}

impl Owner {
    /// This process.
    pub(crate) fn current() -> std::io::Result<Self> {
        let pid = std::process::id() as i32;
        Ok(Self { pid, start_time: start_time(pid)?, pid_namespace: pid_namespace()? })
    }

    /// A name for a new group of this owner's, different from all that it has made before.
    pub(crate) fn new_group(&self, batch: &str) -> String {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let batch: String = batch
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "_.".contains(c) { c } else { '_' })
            .take(MAX_BATCH_NAME)
            .collect();
        let Self { pid, start_time, pid_namespace } = self;
        format!("{PREFIX}-{pid}-{start_time}-{pid_namespace}-{serial}-{batch}")
    }

    /// The owner that a group's name tells; `None` for groups that memweir has not made.
    pub(crate) fn of_group(name: &str) -> Option<Self> {
        let mut fields = name.strip_prefix(PREFIX)?.strip_prefix('-')?.splitn(5, '-');
        let owner = Self {
            pid: fields.next()?.parse().ok().filter(|pid| *pid > 0)?,
            start_time: fields.next()?.parse().ok()?,
            pid_namespace: fields.next()?.parse().ok()?,
        };
        let _serial: u32 = fields.next()?.parse().ok()?;
        fields.next().map(|_batch| owner)
    }

    /// Whether the owner still runs.
    pub(crate) fn state(&self) -> OwnerState {
        if pid_namespace().ok() != Some(self.pid_namespace) {
            return OwnerState::Unknown;
        }
        match start_time(self.pid) {
            Ok(start) if start == self.start_time => OwnerState::Alive,
            Ok(_) => OwnerState::Dead,
            Err(error) if super::is_gone(&error) => OwnerState::Dead,
            Err(_) => OwnerState::Unknown,
        }
    }
}

fn pid_namespace() -> std::io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn this_process_is_alive_and_recognized() {
        let owner = Owner::current().unwrap();
        let name = owner.new_group("my batch/1");
        assert!(name.ends_with("-my_batch_1"), "{name}");
        assert_eq!(Owner::of_group(&name), Some(owner));
        assert_eq!(owner.state(), OwnerState::Alive);
        assert_ne!(owner.new_group("x"), owner.new_group("x"));
    }

    #[test]
    fn a_reused_pid_and_a_missing_one_are_dead_owners() {
        let owner = Owner::current().unwrap();
        let reused = Owner { start_time: owner.start_time + 1, ..owner };
        assert_eq!(reused.state(), OwnerState::Dead);
        // Above the kernel's largest pid.
        assert_eq!(Owner { pid: 1 << 22, ..owner }.state(), OwnerState::Dead);
    }

    #[test]
    fn an_owner_in_another_namespace_is_unknown() {
        let owner = Owner { pid_namespace: 1, ..Owner::current().unwrap() };
        assert_eq!(owner.state(), OwnerState::Unknown);
    }

    #[test]
    fn the_groups_of_others_are_not_ours() {
        for name in ["", "memweir", "memweir-", "memweir-1-2-3", "memweir-1-2-3-4", "user.slice"] {
            assert_eq!(Owner::of_group(name), None, "{name}");
        }
        assert_eq!(Owner::of_group("memweir--1-2-3-4-x"), None);
        assert!(Owner::of_group("memweir-1-2-3-4-").is_some());
    }

    proptest! {
        #[test]
        fn every_name_is_read_back_and_is_one_path_component(batch: String) {
            let owner = Owner::current().unwrap();
            let name = owner.new_group(&batch);
            prop_assert!(!name.contains('/') && name.len() < 255);
            prop_assert_eq!(Owner::of_group(&name), Some(owner));
        }

        #[test]
        fn never_panics(name: String, tail in "memweir-[0-9-]{0,40}") {
            let _ = (Owner::of_group(&name), Owner::of_group(&tail));
        }
    }
}
