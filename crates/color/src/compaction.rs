//! Keeps the kernel from moving locked pages while colored programs run.

use std::fs;
use std::io::{Read, Seek, Write};

use nix::fcntl::{Flock, FlockArg};

use crate::processes::lives;

/// Whether compaction moves locked pages.
const SETTING: &str = "/proc/sys/vm/compact_unevictable_allowed";

/// Who shares the setting: what it was before the first, and the processes that want it at 0.
const SHARED: &str = "/run/memweir-compaction";

/// Compaction leaves locked pages alone while this lives; the last one puts the setting back.
#[derive(Debug)]
pub(crate) struct Quiet {
    held: bool,
}

impl Quiet {
    /// Changes the setting, if it can be changed.
    pub(crate) fn begin() -> Self {
        let held = share(|users, before| {
            if users.is_empty() {
                *before = fs::read_to_string(SETTING).ok()?.trim().to_owned();
                fs::write(SETTING, "0").ok()?;
            }
            users.push(std::process::id());
            Some(())
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
            if let Some(mine) = users.iter().position(|user| *user == std::process::id()) {
                users.swap_remove(mine);
            }
            if users.is_empty() {
                fs::write(SETTING, before.as_str()).ok()?;
            }
            Some(())
        });
    }
}

/// Changes the shared file under its lock. Users that were killed are forgotten; if the last one
/// was, the next puts back what was before.
fn share(change: impl FnOnce(&mut Vec<u32>, &mut String) -> Option<()>) -> Option<()> {
    let options = fs::File::options().read(true).write(true).create(true).truncate(false).clone();
    let mut file = Flock::lock(options.open(SHARED).ok()?, FlockArg::LockExclusive).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let mut words = text.split_whitespace();
    let mut before = words.next().unwrap_or("1").to_owned();
    let known: Vec<u32> = words.filter_map(|word| word.parse().ok()).collect();
    let mut users: Vec<u32> = known.iter().copied().filter(|user| lives(*user)).collect();
    if users.is_empty() && !known.is_empty() {
        fs::write(SETTING, before.as_str()).ok()?;
    }
    change(&mut users, &mut before)?;
    file.set_len(0).ok()?;
    file.rewind().ok()?;
    let users: Vec<String> = users.iter().map(u32::to_string).collect();
    write!(file, "{before} {}", users.join(" ")).ok()
}
