//! Hashes the code and the data of the figures, so that the keys of their results change with them.

mod sources;

use std::io;
use std::path::PathBuf;

fn main() -> io::Result<()> {
    let directories = ["src", "experiments"].map(PathBuf::from);
    println!("cargo::rustc-env=MEMWEIR_FIGURES={}", sources::hash(directories.into_iter())?);
    Ok(())
}
