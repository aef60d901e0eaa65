//! Hashes the sources of the simulators, so that the keys of results change with any of them.

mod sources;

use std::io;
use std::path::{Path, PathBuf};

/// Crates beside this one on which results depend. Where they are not, as in a published package,
/// its version fixes theirs.
const CRATES: [&str; 8] = ["bank", "core", "dram", "energy", "flow", "policy", "swap", "trace"];

fn main() -> io::Result<()> {
    let beside = CRATES.iter().map(|name| Path::new("..").join(name));
    let packages = beside.chain([PathBuf::from(".")]);
    let directories = packages.flat_map(|package| ["src", "data"].map(|name| package.join(name)));
    println!("cargo::rustc-env=MEMWEIR_SOURCES={}", sources::hash(directories)?);
    Ok(())
}
