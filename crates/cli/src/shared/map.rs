//! Address maps in files, and the warning that one may not hold on this machine.

use std::path::Path;

use memweir_core::address_map::AddressMap;
use memweir_core::input::InputError;
use memweir_run::files;
use memweir_run::platform::Machine;

/// Reads the map of `path`.
pub(crate) fn read(path: &Path) -> Result<AddressMap, InputError> {
    AddressMap::parse(&path.display().to_string(), &files::text(path)?)
}

/// The warning that a map may not hold here, if this is a virtual machine.
pub(crate) fn virtual_machine() -> Option<String> {
    let hypervisor = Machine::here().hypervisor?;
    Some(format!(
        "this is a virtual machine (on {hypervisor}): guest-physical addresses are not DRAM \
         addresses, so programs of different colors share banks unless the host backs this guest \
         with contiguous memory"
    ))
}
