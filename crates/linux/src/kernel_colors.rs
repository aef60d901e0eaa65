//! The address map of a kernel that colors pages itself (`kernel/bank-color`). The text of a map is
//! opaque here.

use std::io;
use std::path::PathBuf;

use crate::MissingFeature;

/// File through which the kernel takes its map.
const MAP: &str = "/sys/kernel/mm/page_color/map";

/// The map that the kernel colors pages by.
#[derive(Clone, Debug)]
pub struct KernelMap {
    file: PathBuf,
}

impl KernelMap {
    /// Opens the map of the running kernel.
    ///
    /// # Errors
    /// If it has none, or keeps it from this process.
    pub fn here() -> Result<Self, MissingFeature> {
        Self::at(MAP.into())
    }

    /// Opens the map behind `file`, for tests.
    ///
    /// # Errors
    /// If there is no such file, or it cannot be read.
    pub fn at(file: PathBuf) -> Result<Self, MissingFeature> {
        let map = Self { file };
        match map.text() {
            Ok(_) => Ok(map),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(MissingFeature::new(
                "this kernel does not color pages",
                "build one with the patches in kernel/bank-color",
            )),
            Err(error) => Err(MissingFeature::new(
                format!("{}: {error}", map.file.display()),
                "run as root, who alone may see the map",
            )),
        }
    }

    /// Returns the map in use; an empty text if none is loaded.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn text(&self) -> io::Result<String> {
        std::fs::read_to_string(&self.file)
    }

    /// Replaces the map in use; an empty text removes it.
    ///
    /// # Errors
    /// If a control group or a thread is colored by the map in use, or the kernel refuses the new
    /// one, for which its log has the reason.
    pub fn load(&self, text: &str) -> Result<(), MissingFeature> {
        // The kernel takes one write as one map, so removal needs a write of at least one byte.
        let text = if text.is_empty() { "\n" } else { text };
        std::fs::write(&self.file, text).map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => MissingFeature::new(
                "the kernel colors pages by another map, which a control group or a thread uses",
                "end the programs that it colors, or use the same map",
            ),
            Some(libc::EINVAL) => {
                MissingFeature::new("the kernel refuses the map", "its log says why: dmesg | tail")
            }
            _ => MissingFeature::new(format!("{}: {error}", self.file.display()), "run as root"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read_and_replaced_whole() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("map");
        let missing = KernelMap::at(file.clone()).unwrap_err();
        assert!(missing.reason.contains("does not color"), "{missing}");
        std::fs::write(&file, "bank 0x2000\n").unwrap();
        let map = KernelMap::at(file).unwrap();
        assert_eq!(map.text().unwrap(), "bank 0x2000\n");
        map.load("").unwrap();
        assert_eq!(map.text().unwrap(), "\n");
    }

    #[test]
    fn what_cannot_be_written_says_what_would_help() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("map")).unwrap();
        let map = KernelMap { file: directory.path().join("map") };
        assert!(map.load("bank 0x2000\n").unwrap_err().help.contains("root"));
    }
}
