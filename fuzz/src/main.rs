//! The fuzzer: libFuzzer on the target that `MEMWEIR_FUZZ` names. `fuzz/run.sh` calls it.
//!
//! With `MEMWEIR_FUZZ_SEEDS=DIRECTORY` it writes the seeds of the target there and exits. With
//! `MEMWEIR_FUZZ=list` it lists the targets.

#![no_main]

use std::path::Path;
use std::process::exit;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use memweir_fuzz::{TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("MEMWEIR_FUZZ").unwrap_or_default();
    if name == "list" {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        exit(0);
    }
    let target = TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| {
        eprintln!("MEMWEIR_FUZZ={name}: no such target; MEMWEIR_FUZZ=list lists them");
        exit(2);
    });
    if let Some(directory) = std::env::var_os("MEMWEIR_FUZZ_SEEDS") {
        for (number, seed) in target.seeds().iter().enumerate() {
            let file = Path::new(&directory).join(format!("seed-{number:03}"));
            if let Err(error) = std::fs::write(&file, seed) {
                eprintln!("{}: {error}", file.display());
                exit(1);
            }
        }
        exit(0);
    }
    if target.catches_panics {
        // libFuzzer's hook ends the process at any panic; one that leaves the target still does.
        std::panic::set_hook(Box::new(|_| ()));
    }
    target
});

fuzz_target!(
    init: {
        LazyLock::force(&TARGET);
    },
    |data: &[u8]| (TARGET.run)(data)
);
