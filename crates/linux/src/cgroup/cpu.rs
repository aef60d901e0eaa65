//! The cpu controller of v2 groups.

use std::io;
use std::path::{Path, PathBuf};

use super::names;
use crate::files::Files;

/// `cpu.weight` of a group that weighs as much as one task of nice value 0; also its default.
const TASK: u32 = 100;
/// The highest `cpu.weight`.
const HIGHEST: u32 = 10_000;

/// Gives a group the weight of `tasks` tasks.
pub(crate) fn weigh(files: &dyn Files, group: &Path, tasks: u32) -> io::Result<()> {
    let weight = tasks.saturating_mul(TASK).clamp(TASK, HIGHEST);
    files.write(&group.join("cpu.weight"), &weight.to_string())
}

/// Returns true if a group has another weight than a new one.
pub(crate) fn is_weighed(files: &dyn Files, group: &Path) -> bool {
    let weight = files.read(&group.join("cpu.weight")).ok();
    weight.and_then(|text| text.trim().parse::<u32>().ok()).is_some_and(|weight| weight != TASK)
}

/// Enables the controller for the groups below `place`.
pub(crate) fn enable_cpu(files: &dyn Files, place: &Path) -> io::Result<()> {
    files.write(&place.join("cgroup.subtree_control"), "+cpu")
}

/// Disables it again, unless jobs of a memweir still lie below `place`.
pub(crate) fn disable_cpu(files: &dyn Files, place: &Path) {
    let has_jobs = |group: &PathBuf| is_ours(group) && !names::is_home(group);
    if !files.children(place).unwrap_or_default().iter().any(has_jobs) {
        // The kernel refuses where a group further down has it enabled: that group needs it.
        let _ = files.write(&place.join("cgroup.subtree_control"), "-cpu");
    }
}

/// Returns true if enabling it below `place` changes nothing for other programs, because only
/// groups of memweirs lie there.
pub(crate) fn may_enable_cpu(files: &dyn Files, place: &Path) -> bool {
    let has_cpu = files
        .read(&place.join("cgroup.controllers"))
        .is_ok_and(|text| text.split_whitespace().any(|controller| controller == "cpu"));
    has_cpu && files.children(place).is_ok_and(|groups| groups.iter().all(|group| is_ours(group)))
}

fn is_ours(group: &Path) -> bool {
    names::owner_of_group(group).is_some()
}
