//! The state of `sched_ext` on this host, as `/sys/kernel/sched_ext` shows it.

use std::fs;
use std::path::Path;

use crate::LoadError;

const DIRECTORY: &str = "/sys/kernel/sched_ext";

/// Refuses a kernel without `sched_ext`, and one whose place for a scheduler is taken.
pub(crate) fn check() -> Result<(), LoadError> {
    check_at(Path::new(DIRECTORY))
}

fn check_at(directory: &Path) -> Result<(), LoadError> {
    let state = fs::read_to_string(directory.join("state"));
    let state = state.map_err(|_| LoadError::NoKernelSupport)?;
    if state.trim() == "disabled" {
        return Ok(());
    }
    let name = fs::read_to_string(directory.join("root/ops")).unwrap_or_default();
    let name = if name.trim().is_empty() { state.trim() } else { name.trim() };
    Err(LoadError::Occupied(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_refused_without_sched_ext_or_with_another_scheduler() {
        let directory = tempfile::tempdir().unwrap();
        let checked = || check_at(directory.path());
        assert!(matches!(checked(), Err(LoadError::NoKernelSupport)));
        fs::write(directory.path().join("state"), "disabled\n").unwrap();
        assert!(checked().is_ok());
        fs::write(directory.path().join("state"), "enabling\n").unwrap();
        assert!(matches!(checked(), Err(LoadError::Occupied(name)) if name == "enabling"));
        fs::write(directory.path().join("state"), "enabled\n").unwrap();
        fs::create_dir(directory.path().join("root")).unwrap();
        fs::write(directory.path().join("root/ops"), "other_1.0\n").unwrap();
        assert!(matches!(checked(), Err(LoadError::Occupied(name)) if name == "other_1.0"));
    }
}
