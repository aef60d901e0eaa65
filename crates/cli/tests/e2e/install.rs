//! `make install`, and the use of the installed files from their places.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{MEMWEIR, World};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Place where cargo has left a library for these tests.
fn built(library: &str) -> PathBuf {
    let directory = Path::new(MEMWEIR).parent().expect("a directory");
    let places = [directory.join("deps").join(library), directory.join(library)];
    places.into_iter().find(|path| path.exists()).expect("the libraries are built for these tests")
}

/// Runs `make` with the files that these tests are built of, into `world`.
fn make(world: &World, target: &str) {
    let output = Command::new("make")
        .args(["-C", ROOT, "--no-print-directory", target, "PREFIX=/usr"])
        .arg(format!("DESTDIR={}", world.path().display()))
        .arg(format!("memweir={MEMWEIR}"))
        .arg(format!("plugin={}", built("libmemweir_qemu_pmu.so").display()))
        .arg(format!("preload={}", built("libmemweir_preload.so").display()))
        .output()
        .expect("make starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Every file below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory").flatten();
    let below = |entry: std::fs::DirEntry| {
        let path = entry.path();
        if path.is_dir() { files(&path) } else { vec![path] }
    };
    entries.flat_map(below).collect()
}

#[test]
fn what_is_installed_works_from_there_and_can_be_removed() {
    if Command::new("make").arg("--version").output().is_err() {
        return memweir_test_support::skip!(Program, "make is not installed");
    }
    let world = World::new();
    make(&world, "install-built");
    let usr = world.path().join("usr");
    for page in ["memweir.1", "memweir-run.1", "memweir-color-audit.1"] {
        let text = std::fs::read_to_string(usr.join("share/man/man1").join(page)).expect(page);
        assert!(text.contains(".SH NAME"), "{page}");
    }
    let shells = [
        ("share/bash-completion/completions/memweir", "complete -F _memweir"),
        ("share/zsh/site-functions/_memweir", "#compdef memweir"),
        ("share/fish/vendor_completions.d/memweir.fish", "complete -c memweir"),
    ];
    for (file, expected) in shells {
        let text = std::fs::read_to_string(usr.join(file)).expect(file);
        assert!(text.contains(expected), "{file}");
    }
    assert!(usr.join("include/memweir_color.h").exists());
    for (unit, command) in [
        ("system", "/usr/bin/memweir daemon --operators memweir"),
        ("user", "/usr/bin/memweir daemon"),
    ] {
        let path = usr.join("lib/systemd").join(unit).join("memweir.service");
        let text = std::fs::read_to_string(path).expect(unit);
        assert!(text.contains(&format!("\nExecStart={command}\n")), "{text}");
    }
    let group = std::fs::read_to_string(usr.join("lib/sysusers.d/memweir.conf")).expect("a file");
    assert!(group.contains("g memweir "), "{group}");
    assert!(usr.join("share/memweir/grafana/memweir.json").exists());
    finds_its_libraries(&world, &usr.join("bin/memweir"));
    make(&world, "uninstall");
    assert_eq!(files(&usr), Vec::<PathBuf>::new());
}

/// The installed command, used from another directory and without the variables of a developer.
fn finds_its_libraries(world: &World, memweir: &Path) {
    let elsewhere = tempfile::tempdir().expect("a directory");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(memweir);
        command.args(arguments).current_dir(elsewhere.path()).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", world.path());
        command.output().expect("the installed command starts")
    };
    let doctor = run(&["doctor", "--json"]);
    let doctor: Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    let meter = &doctor["meters"]["software"];
    if meter["available"] == true {
        let reason = meter["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("usr/lib/memweir/libmemweir_qemu_pmu.so"), "{meter}");
    } else {
        memweir_test_support::skip!(Program, "the software meter: {meter}");
    }
    if !super::colors::possible() {
        return;
    }
    std::fs::write(elsewhere.path().join("map.toml"), super::colors::MAP).expect("a file");
    let colored = ["color", "run", "--map", "map.toml", "--colors", "0-3", "--json", "run.json"];
    let colored = run(&[&colored[..], &["--", "sh", "-c", "echo hello"]].concat());
    assert_eq!(colored.stdout, b"hello\n", "{}", String::from_utf8_lossy(&colored.stderr));
    let report = std::fs::read_to_string(elsewhere.path().join("run.json")).expect("a report");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["counters"]["processes"], 1, "{report}");
}
