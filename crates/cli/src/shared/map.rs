//! Address maps in files, and the warning that one may not hold on this machine.

use std::path::{Path, PathBuf};

use memweir_core::address_map::AddressMap;
use memweir_core::input::InputError;
use memweir_map::published;
use memweir_run::files;
use memweir_run::platform::Machine;

/// Reads the map of `path`, which may be an entry of a JSON collection: `FILE#ID`.
pub(crate) fn read(path: &Path) -> Result<AddressMap, InputError> {
    let (file, id) = file_and_id(path);
    read_entry(&file, id.as_deref())
}

/// Splits `FILE#ID`. A file may have a # in its name.
pub(crate) fn file_and_id(path: &Path) -> (PathBuf, Option<String>) {
    let parts = path.to_str().filter(|_| !path.exists()).and_then(|text| text.rsplit_once('#'));
    match parts {
        Some((file, id)) => (file.into(), Some(id.to_owned())),
        None => (path.to_owned(), None),
    }
}

/// Reads the map of a file, or the one with this name of a JSON collection.
pub(crate) fn read_entry(file: &Path, id: Option<&str>) -> Result<AddressMap, InputError> {
    let name = file.display().to_string();
    let text = files::text(file)?;
    if text.trim_start().starts_with('{') {
        let entries = published::parse(&name, &text)?;
        let chosen = published::choose(entries, id).map_err(|refusal| refusal.written_in(&name))?;
        return Ok(chosen.map);
    }
    if let Some(id) = id {
        return Err(InputError::new(name, format!("a map file has no entry `{id}`"))
            .help("leave out #ID: only JSON collections have entries"));
    }
    AddressMap::parse(&name, &text)
}

/// Returns the warning of programs that run in colors, if this is a virtual machine.
pub(crate) fn uncertain_colors() -> Option<String> {
    virtual_machine("programs of different colors share banks")
}

/// Returns the warning that the addresses of this machine are not those of its DRAM, and what
/// follows from that, if it is a virtual machine.
pub(crate) fn virtual_machine(consequence: &str) -> Option<String> {
    let hypervisor = Machine::here().hypervisor?;
    Some(format!(
        "this is a virtual machine (on {hypervisor}): guest-physical addresses are not DRAM \
         addresses, so {consequence} unless the host backs this guest with contiguous memory"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_read_from_a_file_or_an_entry_of_a_collection() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).unwrap();
        };
        file("maps.json", include_str!("../../../map/data/published_maps.json"));
        file("i7.toml", include_str!("../../../core/data/maps/i7-860.toml"));
        file("i7#2.toml", include_str!("../../../core/data/maps/i7-860.toml"));
        let banks = |name: &str| {
            let map = read(&directory.path().join(name));
            map.map(|map| memweir_map::view::banks(&map)).map_err(|error| error.to_string())
        };
        for name in ["i7.toml", "i7#2.toml", "maps.json#bpm-i7-860"] {
            assert_eq!(banks(name), Ok(32), "{name}");
        }
        for (name, refusal) in [
            ("maps.json", "42 maps are in it and none is named"),
            ("maps.json#bpm-i7", "no map `bpm-i7` is in it"),
            ("i7.toml#bpm-i7-860", "i7.toml: a map file has no entry `bpm-i7-860`"),
            ("none.toml#1", "none.toml: cannot be read"),
        ] {
            assert!(banks(name).unwrap_err().contains(refusal), "{name}");
        }
    }
}
