//! Swap areas for the time of a run. The kernel decides which pages are read in place
//! (`kernel/direct-read-swap`).

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::MissingFeature;

/// `SWAP_FLAG_DIRECT_READ` of the patches.
const DIRECT_READ: libc::c_int = 0x80000;

/// Effect of a read fault on a page of a swap area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapReads {
    /// Maps the page where it is.
    InPlace,
    /// Copies it to DRAM.
    Copied,
}

/// A swap area in use. Dropping it ends the use, which brings its pages back to DRAM.
#[derive(Debug)]
pub struct SwapArea {
    path: CString,
}

impl SwapArea {
    /// Begins to use the device or file `path`, which has a swap area's signature.
    ///
    /// # Errors
    /// If the kernel refuses, with help.
    pub fn begin(path: &Path, reads: SwapReads) -> Result<Self, MissingFeature> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| MissingFeature::new("a path with a zero in it", "name a block device"))?;
        let flags = match reads {
            SwapReads::InPlace => DIRECT_READ,
            SwapReads::Copied => 0,
        };
        // SAFETY: the path ends with a zero, and outlives the call.
        match unsafe { libc::swapon(name.as_ptr(), flags) } {
            0 => Ok(Self { path: name }),
            _ => Err(missing(path, &io::Error::last_os_error(), reads)),
        }
    }
}

impl Drop for SwapArea {
    fn drop(&mut self) {
        // SAFETY: the path ends with a zero, and outlives the call.
        unsafe { libc::swapoff(self.path.as_ptr()) };
    }
}

fn missing(path: &Path, error: &io::Error, reads: SwapReads) -> MissingFeature {
    let shown = path.display();
    let told = |help: String| MissingFeature::new(format!("{shown}: {error}"), help);
    match error.raw_os_error() {
        Some(libc::EPERM) => told("run as root".to_owned()),
        Some(libc::EBUSY) => {
            told("it is a swap area in use: leave --nvm out, or swapoff first".into())
        }
        Some(libc::EOPNOTSUPP) if reads == SwapReads::InPlace => MissingFeature::new(
            format!("{shown} cannot be read in place"),
            "name a block device of byte-addressable memory, as /dev/pmem0 in fsdax mode",
        ),
        Some(libc::EINVAL) if reads == SwapReads::InPlace => told(format!(
            "`mkswap {shown}` makes it a swap area; if it is one, this kernel reads none in place \
             (kernel/direct-read-swap)"
        )),
        Some(libc::EINVAL) => told(format!("`mkswap {shown}` makes it a swap area")),
        _ => told("name a block device or file with a swap area".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_swap_area_is_refused_with_what_would_help() {
        let directory = tempfile::tempdir().unwrap();
        let absent = SwapArea::begin(&directory.path().join("absent"), SwapReads::Copied);
        // A user who may not swap gets that error first.
        let missing = absent.unwrap_err();
        assert!(missing.reason.contains("absent"), "{missing}");

        let error = |number| io::Error::from_raw_os_error(number);
        let device = Path::new("/dev/sda2");
        let told = |number, reads| super::missing(device, &error(number), reads);
        assert!(told(libc::EINVAL, SwapReads::InPlace).help.contains("kernel/direct-read-swap"));
        assert!(!told(libc::EINVAL, SwapReads::Copied).help.contains("direct-read"));
        assert!(told(libc::EOPNOTSUPP, SwapReads::InPlace).reason.contains("read in place"));
        assert!(told(libc::EBUSY, SwapReads::InPlace).help.contains("swapoff"));
    }
}
