//! Options of the devices. Those of their controllers are in [`memory`](super::memory).

use std::path::Path;
use std::sync::Arc;

use memweir_core::PhysAddr;
use memweir_core::input::{InputError, Refusal};
use memweir_core::units::LINE_BYTES;
use memweir_dram::config::{RefreshPolicy, Setting};
use memweir_dram::spec::Organization;
use memweir_dram::{MemoryConfig, MemorySpec};

use super::memory::with_map;
use crate::failure::refusal_of;
use crate::value::{named, place};

/// The memory: its devices, and whether they are refreshed.
#[derive(Debug, clap::Args)]
pub(super) struct DeviceArgs {
    /// A shipped memory (see `memweir dram list`) or a device file; `A+B` puts devices into the
    /// ranks of a channel
    #[arg(long, value_name = "NAME|FILE.toml", help_heading = "Memory")]
    memory: String,
    /// Channels
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Memory")]
    channels: u32,
    /// Ranks of each channel [default: the device file's]
    #[arg(long, value_name = "N", help_heading = "Memory")]
    ranks: Option<u32>,
    /// Refresh of the DRAM
    #[arg(long, value_name = "NAME", default_value = "all-bank", help_heading = "Memory")]
    #[arg(value_parser = named::<RefreshPolicy>())]
    refresh: RefreshPolicy,
}

/// A second memory, on channels of its own.
#[derive(Debug, clap::Args)]
pub(super) struct NvmArgs {
    /// A second memory on channels of its own, NVM or any other: a shipped memory or a device file
    #[arg(long, value_name = "NAME|FILE.toml", help_heading = "Second memory")]
    nvm: Option<String>,
    /// The address at which it begins [default: where the first memory ends]
    #[arg(long, value_name = "ADDRESS", value_parser = place, requires = "nvm")]
    #[arg(help_heading = "Second memory")]
    nvm_from: Option<PhysAddr>,
    /// Its channels
    #[arg(long, value_name = "N", default_value_t = 1, requires = "nvm")]
    #[arg(help_heading = "Second memory")]
    nvm_channels: u32,
    /// Ranks of each of them [default: the device file's]
    #[arg(long, value_name = "N", requires = "nvm", help_heading = "Second memory")]
    nvm_ranks: Option<u32>,
    /// Its address map, over addresses that count from its beginning: as `--map`
    #[arg(long, value_name = "NAME|FILE", requires = "nvm", help_heading = "Second memory")]
    nvm_map: Option<String>,
}

impl DeviceArgs {
    /// The devices with default controllers, not checked yet.
    pub(super) fn config(&self) -> Result<MemoryConfig, InputError> {
        let mut config = built(&self.memory, self.channels, self.ranks, Side::First)?;
        config.refresh = self.refresh;
        Ok(config)
    }
}

impl NvmArgs {
    /// The second memory and its beginning behind `first`; `None` without `--nvm`. Its controllers
    /// are the default ones, and not checked yet.
    pub(super) fn config(
        &self,
        first: &MemoryConfig,
    ) -> Result<Option<(PhysAddr, MemoryConfig)>, InputError> {
        let Some(nvm) = &self.nvm else { return Ok(None) };
        let mut config = built(nvm, self.nvm_channels, self.nvm_ranks, Side::Second)?;
        if let Some(given) = &self.nvm_map {
            config = with_map(config, given, Side::Second)?;
        }
        let end = PhysAddr(first.capacity().0);
        let from = self.nvm_from.unwrap_or(end);
        let wrong = |reason: String| {
            let help = format!("from {end} on, where the first memory ends, in whole lines");
            refusal_of("--nvm-from", reason).help(help)
        };
        if from < end {
            return Err(wrong(format!("{from} lies in the first memory")));
        }
        if !from.0.is_multiple_of(LINE_BYTES) {
            return Err(wrong(format!("{from} lies within a line of {LINE_BYTES} bytes")));
        }
        if from.0.checked_add(config.capacity().0).is_none() {
            return Err(wrong(format!("{} do not fit behind {from}", config.capacity())));
        }
        Ok(Some((from, config)))
    }
}

/// The memory that an option is about.
#[derive(Clone, Copy)]
pub(super) enum Side {
    First,
    Second,
}

impl Side {
    /// Returns the option of a setting. Both memories share those of the controllers.
    pub(super) fn option(self, setting: Setting) -> String {
        match (self, setting) {
            (Self::Second, Setting::Devices) => "--nvm".to_owned(),
            (Self::Second, Setting::Channels | Setting::Ranks | Setting::Map) => {
                format!("--nvm-{setting}")
            }
            _ => format!("--{setting}"),
        }
    }

    /// Checks the memory of these options.
    pub(super) fn check(self, config: &MemoryConfig) -> Result<(), InputError> {
        config.check().map_err(|(setting, refusal)| {
            refusal.written_in("command line").key(self.option(setting))
        })
    }
}

/// A memory of these devices.
fn built(
    devices: &str,
    channels: u32,
    ranks: Option<u32>,
    side: Side,
) -> Result<MemoryConfig, InputError> {
    let specs =
        devices.split('+').map(|one| spec(one, &side.option(Setting::Devices)).map(Arc::new));
    let specs = specs.collect::<Result<Vec<_>, _>>()?;
    let refused =
        |refusal: Refusal| refusal.written_in("command line").key(side.option(Setting::Ranks));
    let ranks = match (specs.as_slice(), ranks) {
        ([spec], ranks) => {
            let ranks = ranks.unwrap_or(spec.organization.ranks);
            Organization::check_ranks(ranks.into()).map_err(refused)?;
            vec![Arc::clone(spec); ranks as usize]
        }
        (specs, Some(ranks)) if ranks as usize != specs.len() => {
            let reason = format!("{} devices are named, one for each rank", specs.len());
            return Err(refused(Refusal::new(reason, "leave the number of ranks out")));
        }
        (specs, _) => specs.to_vec(),
    };
    Ok(MemoryConfig::of_ranks(ranks, channels))
}

/// A shipped memory, or that of a file, which `option` names.
pub(super) fn spec(name: &str, option: &str) -> Result<MemorySpec, InputError> {
    let file = MemorySpec::file(name, Path::new(""))
        .map_err(|refusal| refusal.written_in("command line").key(option))?;
    MemorySpec::parse(&file.name, &file.text)
}
