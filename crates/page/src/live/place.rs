//! Places for evicted pages: requests, and the check that this machine has them.

use std::fmt;
use std::path::{Path, PathBuf};

use memweir_abi::preload::page::NvmPlace;
use memweir_core::Bytes;
use memweir_core::input::Refusal;
use memweir_linux::MissingFeature;
use memweir_linux::paging::{Obstacle, Step};
use memweir_linux::preload::NotStarted;

use super::machine::Surroundings;

/// Size of one eviction: a smaller area could not take even that.
pub const SMALLEST_NVM: Bytes = Bytes(2 << 20);

/// A place for evicted pages, as requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nvm {
    /// Shared memory without a file: DRAM that stands in for NVM.
    Memfd(Bytes),
    /// A tmpfs like the one that holds a directory, or the directory of a file.
    File {
        /// The directory or file.
        path: PathBuf,
        /// Size of the area; all that is left in that file system if absent.
        size: Option<Bytes>,
    },
    /// A NUMA node of slow memory.
    Node {
        /// Its number.
        number: u32,
        /// Size of the area; all that is free if absent.
        size: Option<Bytes>,
    },
    /// A DAX device, which no Linux maps as paging needs it.
    Device(PathBuf),
}

impl fmt::Display for Nvm {
    /// Writes the place as it is requested, without the size: `node:2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memfd(_) => f.write_str("memfd"),
            Self::File { path, .. } => write!(f, "file:{}", path.display()),
            Self::Node { number, .. } => write!(f, "node:{number}"),
            Self::Device(path) => write!(f, "dax:{}", path.display()),
        }
    }
}

impl Nvm {
    /// Returns the place for the library and the size of the area.
    ///
    /// # Errors
    /// Refuses places that this machine does not have or its kernel cannot use, and areas that are
    /// too small or larger than the place.
    pub(super) fn check(&self, here: &impl Surroundings) -> Result<(NvmPlace, Bytes), NotStarted> {
        let (place, size) = match self {
            Self::Memfd(size) => {
                protection(here.try_memfd(), "shared memory")?;
                let room = here.available().unwrap_or(*size);
                (NvmPlace::Memfd, within(*size, room, "this machine has", "memfd")?)
            }
            Self::File { path, size } => file(path, *size, here)?,
            Self::Node { number, size } => {
                protection(here.try_memfd(), "shared memory")?;
                let (_, all, free) = node(*number, here)?;
                let asked = size.unwrap_or(free);
                let has = format!("node {number} has");
                let size = within(asked, all, &has, &format!("node:{number}"))?;
                (NvmPlace::Node { node: *number }, size)
            }
            Self::Device(path) => return Err(device(path, here)),
        };
        if size < SMALLEST_NVM {
            let reason =
                format!("{size} of NVM are smaller than what is evicted at once, {SMALLEST_NVM}");
            let help = format!(
                "name at least {SMALLEST_NVM}, in all as much as the program needs beyond --dram"
            );
            return Err(Refusal::new(reason, help).into());
        }
        Ok((place, size))
    }
}

/// Refuses a size that is more than there is.
fn within(size: Bytes, room: Bytes, who_has: &str, place: &str) -> Result<Bytes, Refusal> {
    if size <= room {
        return Ok(size);
    }
    let most = room.0 >> 20;
    Err(Refusal::new(
        format!("{size} of NVM are asked for, and {who_has} {room}"),
        format!("`{place}:{most}M` is the most"),
    ))
}

fn file(
    path: &Path,
    size: Option<Bytes>,
    here: &impl Surroundings,
) -> Result<(NvmPlace, Bytes), NotStarted> {
    let directory = if path.is_dir() { Some(path) } else { path.parent() };
    let directory = match directory {
        Some(directory) if directory.as_os_str().is_empty() => Path::new("."),
        Some(directory) => directory,
        None => path,
    };
    let shown = directory.display();
    let found = here.try_directory(directory).map_err(|error| {
        Refusal::new(format!("{shown}: {error}"), "name a directory of a tmpfs that can be written")
    })?;
    if found.is_dax {
        return Err(Refusal::new(
            format!(
                "{shown} is on a DAX file system, whose pages the kernel does not let be protected from \
                 writes (userfaultfd), and copies without a lock that an eviction could hold: updates \
                 would be lost"
            ),
            "make the device a NUMA node (`daxctl reconfigure-device --mode=system-ram`) and page to `node:N`",
        )
        .into());
    }
    let other = |reason: String| {
        Refusal::new(
            reason,
            "name a directory of a tmpfs (`mount -t tmpfs -o size=4G tmpfs DIR`), or page to \
             `node:N` or `memfd:SIZE`",
        )
    };
    match &found.protection {
        Err(obstacle) if matches!(obstacle.step, Step::Protect | Step::Map) => {
            return Err(other(format!(
                "{shown} is on a file system whose private mappings cannot be protected from \
                 writes by userfaultfd: {obstacle}"
            ))
            .into());
        }
        _ => protection(found.protection, &shown.to_string())?,
    }
    let options = found.tmpfs.ok_or_else(|| other(format!("{shown} is not on a tmpfs")))?;
    if !here.may_mount() {
        return Err(MissingFeature::new(
            "evicted pages are in a tmpfs of their own, which CAP_SYS_ADMIN alone can mount",
            "run as root, or page to `memfd:SIZE`",
        )
        .into());
    }
    let place = format!("file:{shown}");
    let has = format!("{shown} has room for");
    let size = within(size.unwrap_or(found.room), found.room, &has, &place)?;
    Ok((NvmPlace::Tmpfs(options), size))
}

fn node(number: u32, here: &impl Surroundings) -> Result<(usize, Bytes, Bytes), Refusal> {
    let nodes = here.nodes();
    nodes.iter().find(|(known, ..)| *known == number as usize).copied().ok_or_else(|| {
        let known: Vec<String> = nodes.iter().map(|(n, size, _)| format!("{n} ({size})")).collect();
        let help = match known.is_empty() {
            true => "this kernel tells no NUMA nodes; `memfd:SIZE` stands in".to_owned(),
            false => format!("nodes with memory: {}", known.join(", ")),
        };
        Refusal::new(format!("there is no memory on a NUMA node {number}"), help)
    })
}

/// Returns the reason why a device is refused, which it always is, by the kernel's answers to
/// trying it.
fn device(path: &Path, here: &impl Surroundings) -> NotStarted {
    let shown = path.display();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let known = here.dax();
    let found = known.iter().find(|device| device.name == name);
    if let Some(node) = found.filter(|device| device.is_system_ram).and_then(|found| found.node) {
        let reason = format!("{shown} is memory of the system already");
        return Refusal::new(reason, format!("page to `node:{node}`")).into();
    }
    let tried = match here.try_device(path) {
        Err(error) => {
            let names: Vec<&str> = known.iter().map(|device| device.name.as_str()).collect();
            let help = match names.is_empty() {
                true => {
                    "this machine offers no memory as a device; `memfd:SIZE` stands in".to_owned()
                }
                false => format!("devices: {}", names.join(", ")),
            };
            return Refusal::new(format!("{shown}: {error}"), help).into();
        }
        Ok(tried) => tried,
    };
    let reason = match tried {
        Err(Obstacle { step: Step::Map, error }) => {
            format!(
                "{shown} refuses private mappings ({error}), in which a write goes to a copy in DRAM"
            )
        }
        Err(Obstacle { error, .. }) => {
            format!("pages of {shown} cannot be protected from writes: {error}")
        }
        Ok(()) => format!("{shown} is not a DAX device"),
    };
    let help = format!(
        "`daxctl reconfigure-device --mode=system-ram {name}` makes it a NUMA node, whose content is lost; then \
         page to `node:N`"
    );
    Refusal::new(reason, help).into()
}

/// Turns an obstacle to protecting pages into the feature that the machine lacks.
fn protection(tried: Result<(), Obstacle>, what: &str) -> Result<(), MissingFeature> {
    tried.map_err(|obstacle| obstacle.missing(what))
}

#[cfg(test)]
mod tests;
