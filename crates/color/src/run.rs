//! Everything around a colored program that is not the program: its environment, the counters, and
//! the machine's setting.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use memweir_core::preload::{COUNTERS, Counter, ORDER_VARIABLE, POOLS};
use serde::Serialize;

use crate::compaction::Quiet;
use crate::plan::Wish;
use crate::{ColorError, machine};

/// File name of the preload library.
const LIBRARY: &str = "libmemweir_preload.so";

/// Variable that names the library.
const LIBRARY_VARIABLE: &str = "MEMWEIR_PRELOAD";

/// Where the counters of running programs are.
pub(crate) const COUNTERS_DIRECTORY: &str = "/dev/shm";

/// How their files' names begin.
pub(crate) const COUNTERS_PREFIX: &str = "memweir-color-";

/// The capability without which pagemap hides page frames.
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// A program that can be started colored: put [`environment`](Self::environment) into it, keep
/// this until it has ended, and read [`totals`](Self::totals).
#[derive(Debug)]
pub struct Colored {
    environment: Vec<(OsString, OsString)>,
    counters: tempfile::NamedTempFile,
    quiet: Quiet,
}

impl Colored {
    /// Prepares what `wish` asks for. The program itself is checked by
    /// [`check_program`](crate::check_program).
    ///
    /// # Errors
    /// Refuses wrong wishes, and machines without what is needed.
    pub fn prepare(wish: &Wish) -> Result<Self, ColorError> {
        let counters = tempfile::Builder::new()
            .prefix(COUNTERS_PREFIX)
            .tempfile_in(COUNTERS_DIRECTORY)
            .map_err(|e| machine(format!("/dev/shm: {e}"), "mount a tmpfs there"))?;
        let order = wish.order(counters.path().display().to_string())?;
        privileged()?;
        recent_kernel()?;
        let library = library()?;
        // The words, all zero, and the order, for who audits.
        let mut content = vec![0; (COUNTERS + POOLS * 5) * 8];
        content.extend_from_slice(order.to_string().as_bytes());
        std::fs::write(counters.path(), content)
            .map_err(|e| machine(format!("{}: {e}", counters.path().display()), "free memory"))?;
        let mut preload = library.into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let environment =
            vec![("LD_PRELOAD".into(), preload), (ORDER_VARIABLE.into(), order.to_string().into())];
        Ok(Self { environment, counters, quiet: Quiet::begin() })
    }

    /// The variables to set in the program's environment.
    #[must_use]
    pub fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }

    /// Whether the kernel leaves the program's pages where they are (locked, and compaction kept
    /// off). Where it does not, the library moves them back.
    #[must_use]
    pub fn drift_prevented(&self) -> bool {
        self.quiet.holds()
    }

    /// What has been counted so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut words = [0; COUNTERS * 8];
        let read =
            File::open(self.counters.path()).and_then(|mut file| file.read_exact(&mut words));
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|b| words[i * 8 + b]));
        let count = |counter: Counter| if read.is_ok() { word(counter as usize) } else { 0 };
        Totals(Counter::ALL.iter().map(|(name, counter)| (*name, count(*counter))).collect())
    }
}

/// The counters of all processes of a colored program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals(Vec<(&'static str, u64)>);

impl Totals {
    /// One counter.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter as usize).map_or(0, |(_, value)| *value)
    }

    /// Every counter and its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().copied()
    }
}

impl Serialize for Totals {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Whether this process may see page frames.
pub(crate) fn privileged() -> Result<(), ColorError> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    match effective {
        Some(set) if set & CAP_SYS_ADMIN != 0 => Ok(()),
        _ => Err(machine(
            "page frames are visible to CAP_SYS_ADMIN only",
            "run as root, or give that capability",
        )),
    }
}

/// Whether pages can be moved.
fn recent_kernel() -> Result<(), ColorError> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= (6, 8) => Ok(()),
        _ => Err(machine(
            format!("Linux {} cannot move pages into a program (UFFDIO_MOVE)", release.trim()),
            "Linux 6.8 or later is needed",
        )),
    }
}

fn library() -> Result<PathBuf, ColorError> {
    let found = |path: PathBuf| path.canonicalize();
    if let Some(named) = std::env::var_os(LIBRARY_VARIABLE) {
        return found(named.clone().into()).map_err(|e| {
            machine(format!("{}: {e}", named.display()), "name the file of the library")
        });
    }
    let executable = std::env::current_exe().unwrap_or_default();
    let directory = executable.parent().unwrap_or(Path::new("/"));
    // `deps` is where cargo leaves the library when it builds it for another package's tests.
    let places = ["", "../lib/memweir", "deps", ".."];
    let candidates = places.iter().map(|place| directory.join(place).join(LIBRARY));
    candidates.into_iter().find_map(|candidate| found(candidate).ok()).ok_or_else(|| {
        machine(
            format!("{LIBRARY} was not found beside {} or in ../lib/memweir", executable.display()),
            format!("build it with `cargo build -p memweir-preload` or set {LIBRARY_VARIABLE}"),
        )
    })
}
