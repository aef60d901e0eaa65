//! `memweir doctor`: the features of this machine, and for every missing one the reason and help.
//!
//! Meters and mechanisms are probed in their own modules, by trying them; this module adds the
//! kernel's features, memweir's own files and the installed tools.

mod media;
mod paging;
mod system;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use memweir_core::names::Named;
use memweir_core::words::counted;
use memweir_linux::memories::Memories;
use memweir_linux::meter::perf::probe_perf;
use memweir_linux::meter::resctrl::probe_resctrl;
use memweir_linux::paging::{try_memfd, try_pagemap_scan};
use memweir_linux::qemu::{Qemu, QemuPaths};
use memweir_linux::{Mechanism, MeterKind, Probe, blocker};
use serde::Serialize;

use crate::platform::{Machine, Platform, PlatformError, Target};
use crate::store::Store;

/// Places to look in instead of the usual ones.
#[derive(Clone, Debug, Default)]
pub struct DoctorOptions {
    /// The emulator and the plugin.
    pub qemu: QemuPaths,
    /// The calibration; [`Platform::default_path`] if absent.
    pub platform: Option<PathBuf>,
    /// The profile store; [`Store::default_path`] if absent.
    pub store: Option<PathBuf>,
}

/// Features of this machine. `doctor --json` is this structure, field by field.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorReport {
    /// Version of memweir.
    pub version: String,
    /// Release of the kernel.
    pub kernel: String,
    /// The machine.
    pub machine: Machine,
    /// The meters by name.
    pub meters: BTreeMap<String, Probe>,
    /// The blocking mechanisms by name.
    pub mechanisms: BTreeMap<String, Probe>,
    /// Memories beside DRAM by kind, and their use for the policy `hmmsched`.
    pub media: BTreeMap<String, Probe>,
    /// Features and memories for paging to slower memory.
    pub paging: BTreeMap<String, Probe>,
    /// Privileges of this process.
    pub privileges: BTreeMap<String, Probe>,
    /// Features of the kernel.
    pub kernel_features: BTreeMap<String, Probe>,
    /// Programs that memweir starts.
    pub tools: BTreeMap<String, Probe>,
    /// The calibration.
    pub platform: Probe,
    /// The profile store.
    pub store: Probe,
}

/// Probes everything. Takes some tenths of a second, starts a few processes and leaves nothing.
#[must_use]
pub fn doctor(options: &DoctorOptions) -> DoctorReport {
    let machine = Machine::here();
    let store = store(options.store.as_deref());
    let root = Path::new("/");
    let memories = Memories::here();
    DoctorReport {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: system::release(root),
        meters: meters(&options.qemu, &store),
        mechanisms: Mechanism::ALL
            .iter()
            .map(|mechanism| (mechanism.to_string(), blocker::probe(*mechanism)))
            .collect(),
        media: named(media::media(&memories)),
        paging: named(paging::paging(&memories, machine.memory, try_memfd(), try_pagemap_scan())),
        privileges: named(system::privileges(root)),
        kernel_features: named(system::kernel_features(root)),
        tools: named(system::tools(&options.qemu)),
        platform: platform(options.platform.as_deref(), &machine),
        store,
        machine,
    }
}

fn named<const N: usize>(probes: [(&str, Probe); N]) -> BTreeMap<String, Probe> {
    probes.into_iter().map(|(name, probe)| (name.to_owned(), probe)).collect()
}

fn meters(qemu: &QemuPaths, store: &Probe) -> BTreeMap<String, Probe> {
    let declared = Probe::available(if store.available {
        format!("figures from the jobs file, or from the profile store: {}", store.reason)
    } else {
        "figures from the jobs file; nothing has been profiled yet".to_owned()
    });
    let probe = |kind: MeterKind| match kind {
        MeterKind::Perf => probe_perf(),
        MeterKind::Resctrl => probe_resctrl(),
        MeterKind::Declared => declared.clone(),
        MeterKind::Software => Qemu::probe(qemu),
    };
    MeterKind::ALL.iter().map(|kind| (kind.to_string(), probe(*kind))).collect()
}

const CALIBRATE: &str = "`memweir calibrate` measures this machine's memory bus";

fn platform(path: Option<&Path>, machine: &Machine) -> Probe {
    let path = match path.map(Path::to_owned).map_or_else(Platform::default_path, Ok) {
        Ok(path) => path,
        Err(error) => return Probe::missing(error.to_string()).help("set HOME"),
    };
    let platform = match Platform::load(&path) {
        Ok(platform) => platform,
        Err(PlatformError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Probe::missing(format!("{} does not exist", path.display())).help(CALIBRATE);
        }
        Err(error) => return Probe::missing(error.to_string()).help(CALIBRATE),
    };
    if let Some(notice) = platform.notice_for(machine) {
        return Probe::missing(notice).help(CALIBRATE);
    }
    let Some(peak) = platform.peak() else {
        return Probe::missing(format!("{} holds no peak", path.display())).help(CALIBRATE);
    };
    let target = match &platform.target {
        Target::Measured { .. } => "the target is measured".to_owned(),
        Target::NotMeasurable { reason } => format!("the target is not measurable: {reason}"),
    };
    let date = platform.date.strftime("%F");
    Probe::available(format!("{} of {date}: peak {peak}; {target}", path.display()))
}

fn store(path: Option<&Path>) -> Probe {
    const PROFILE: &str = "`memweir profile -- CMD` fills it";
    let path = match path.map(Path::to_owned).map_or_else(Store::default_path, Ok) {
        Ok(path) => path,
        Err(error) => return Probe::missing(error.to_string()).help("set HOME"),
    };
    // Probing must not create a store.
    if !path.exists() {
        return Probe::missing(format!("{} does not exist yet", path.display())).help(PROFILE);
    }
    match Store::read(Some(&path)).and_then(|store| store.list()) {
        Ok(entries) => {
            let programs = counted(entries.len() as u64, "program");
            Probe::available(format!("{programs} in {}", path.display()))
        }
        Err(error) => Probe::missing(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
