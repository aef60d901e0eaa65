//! Keeps the kernel from moving locked pages while colored programs run.

use std::fs;
use std::io::{Read, Seek, Write};

use nix::fcntl::{Flock, FlockArg};

/// Whether compaction moves locked pages.
const SETTING: &str = "/proc/sys/vm/compact_unevictable_allowed";

/// Who shares the setting: how many, and what it was before the first.
const SHARED: &str = "/run/memweir-compaction";

/// Compaction leaves locked pages alone while this lives; the last one puts the setting back.
#[derive(Debug)]
pub(crate) struct Quiet {
    held: bool,
}

impl Quiet {
    /// Changes the setting, if it can be changed.
    pub(crate) fn begin() -> Self {
        let held = share(|users, before| match users {
            0 => {
                let now = fs::read_to_string(SETTING).ok()?.trim().to_owned();
                fs::write(SETTING, "0").ok()?;
                Some((1, now))
            }
            _ => Some((users + 1, before)),
        });
        Self { held: held.is_some() }
    }

    /// Whether the kernel leaves locked pages where they are.
    pub(crate) fn holds(&self) -> bool {
        self.held
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if !self.held {
            return;
        }
        share(|users, before| {
            if users <= 1 {
                fs::write(SETTING, &before).ok()?;
            }
            Some((users.saturating_sub(1), before))
        });
    }
}

/// Changes the shared file under its lock. A count that a killed process left behind keeps the
/// setting at 0, which is safe, until the machine starts anew.
fn share(change: impl FnOnce(u32, String) -> Option<(u32, String)>) -> Option<()> {
    let file = fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(SHARED)
        .ok()?;
    let mut file = Flock::lock(file, FlockArg::LockExclusive).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let (users, before) = text.split_once(' ').unwrap_or(("0", "1"));
    let (users, before) = change(users.parse().unwrap_or(0), before.to_owned())?;
    file.set_len(0).ok()?;
    file.rewind().ok()?;
    write!(file, "{users} {before}").ok()
}
