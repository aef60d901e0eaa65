//! Checks the open files that a program inherits from memweir.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use memweir_core::input::Refusal;

/// Refuses open files that a program would inherit and read past its page table: a page that is
/// evicted meanwhile would not get the data. Files that the program opens itself are its library's
/// concern.
///
/// # Errors
/// The descriptor, and help.
pub fn check_inherited_files() -> Result<(), Refusal> {
    let descriptors = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let found = descriptors.map(|entry| entry.file_name()).find(|name| reads_directly(name));
    found.map_or(Ok(()), |name| {
        let reason = format!("descriptor {} is a file open with O_DIRECT", name.display());
        Err(Refusal::new(reason, "open it without that flag, or close it"))
    })
}

/// Returns true if the descriptor of this name is a file or a device that is read with `O_DIRECT`.
fn reads_directly(name: &OsStr) -> bool {
    let Ok(info) = fs::read_to_string(Path::new("/proc/self/fdinfo").join(name)) else {
        return false;
    };
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
    // The flag has another meaning for pipes.
    let on_disk = fs::metadata(Path::new("/proc/self/fd").join(name))
        .is_ok_and(|file| file.is_file() || file.file_type().is_block_device());
    on_disk && flags & libc::O_DIRECT != 0 && flags & libc::O_ACCMODE != libc::O_WRONLY
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    #[test]
    fn a_file_that_would_be_read_directly_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        let open = |flags| {
            File::options().read(true).write(true).create(true).custom_flags(flags).open(&path)
        };
        let plain = open(0).unwrap();
        let name = |file: &File| OsString::from(file.as_raw_fd().to_string());
        assert!(!reads_directly(&name(&plain)));
        // Some file systems have no direct I/O.
        if let Ok(direct) = open(libc::O_DIRECT) {
            assert!(reads_directly(&name(&direct)));
        }
    }
}
