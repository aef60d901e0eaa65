//! The state of `sched_ext` on this host, as `/sys/kernel/sched_ext` shows it.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::LoadError;

const DIRECTORY: &str = "/sys/kernel/sched_ext";

/// Name of the program in `bpf/`.
const NAME: &str = "memweir";

/// Longest time that the kernel takes to end the scheduler of a process that has died.
const END_TIMEOUT: Duration = Duration::from_secs(2);
const END_POLL: Duration = Duration::from_millis(10);

/// Returns how many CPUs have come or gone since the boot.
#[cfg_attr(not(feature = "libbpf"), allow(dead_code))]
pub(crate) fn hotplugs() -> u64 {
    hotplugs_at(Path::new(DIRECTORY))
}

fn hotplugs_at(directory: &Path) -> u64 {
    let text = fs::read_to_string(directory.join("hotplug_seq")).unwrap_or_default();
    text.trim().parse().unwrap_or_default()
}

/// Refuses a kernel without `sched_ext`, and one whose place for a scheduler is taken. A memweir
/// that was killed a moment ago still has the place, so its successor waits for it.
pub(crate) fn check() -> Result<(), LoadError> {
    check_until(Path::new(DIRECTORY), Instant::now() + END_TIMEOUT)
}

fn check_until(directory: &Path, deadline: Instant) -> Result<(), LoadError> {
    loop {
        match check_at(directory) {
            Err(LoadError::Occupied(owner)) if may_end(&owner) && Instant::now() < deadline => {
                sleep(END_POLL);
            }
            checked => return checked,
        }
    }
}

/// Returns true for a scheduler of memweir and for one that is on its way.
fn may_end(owner: &str) -> bool {
    [NAME, "enabling", "disabling"].contains(&owner)
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

    #[test]
    fn cpus_that_came_or_went_are_read() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(hotplugs_at(directory.path()), 0);
        fs::write(directory.path().join("hotplug_seq"), "17\n").unwrap();
        assert_eq!(hotplugs_at(directory.path()), 17);
    }

    #[test]
    fn the_scheduler_of_a_dead_memweir_is_waited_for_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(directory.path().join(file), text).unwrap();
        fs::create_dir(directory.path().join("root")).unwrap();
        write("state", "enabled\n");
        write("root/ops", "memweir\n");
        let far = Instant::now() + Duration::from_secs(1000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sleep(3 * END_POLL);
                write("state", "disabled\n");
            });
            assert!(check_until(directory.path(), far).is_ok());
        });
        write("state", "enabled\n");
        let passed = check_until(directory.path(), Instant::now());
        assert!(matches!(passed, Err(LoadError::Occupied(name)) if name == "memweir"));
        write("root/ops", "other_1.0\n");
        let refused = check_until(directory.path(), far);
        assert!(matches!(refused, Err(LoadError::Occupied(name)) if name == "other_1.0"));
    }
}
