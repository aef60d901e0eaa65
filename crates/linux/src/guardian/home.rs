//! The groups that hold a guardian and nothing else, so that a kill of the processes of memweir's
//! own group one by one, or of that group alone, leaves the guardian alive.

use std::io;
use std::path::{Path, PathBuf};

use crate::files::{Files, KernelFiles};
use crate::launch::LaunchError;

/// One group per hierarchy. The guardian removes them at its end; what it could not leave is
/// removed when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Homes(Vec<PathBuf>);

impl Homes {
    /// Makes the groups.
    pub(super) fn create(paths: Vec<PathBuf>) -> Result<Self, LaunchError> {
        let mut homes = Self::default();
        for path in paths {
            let failed =
                |source| LaunchError::new(format!("making the group {}", path.display()), source);
            KernelFiles.create_dir(&path).map_err(failed)?;
            homes.0.push(path);
        }
        Ok(homes)
    }

    /// Moves a process into all of them.
    pub(super) fn admit(&self, pid: i32) -> io::Result<()> {
        self.0.iter().try_for_each(|home| KernelFiles.write(&members(home), &pid.to_string()))
    }
}

impl Drop for Homes {
    fn drop(&mut self) {
        for home in &self.0 {
            // The guardian removes it when its work is done, unless the group above takes no
            // processes.
            let _ = KernelFiles.remove_dir(home);
        }
    }
}

/// Moves the calling process out of `home` into the group above it, and removes `home`, which need
/// not exist. Where the group above takes no processes, the next start of memweir removes it.
pub(super) fn leave(files: &dyn Files, home: &Path) {
    if let Some(above) = home.parent() {
        let _ = files.write(&members(above), "0");
        // Memweir may have died between making the group and moving the guardian there.
        let _ = files.remove_dir(home);
    }
}

fn members(group: &Path) -> PathBuf {
    group.join("cgroup.procs")
}
