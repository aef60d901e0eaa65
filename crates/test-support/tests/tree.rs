//! Rules of the source tree: layers, system calls, `unsafe`, skips, and the width of lines.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The workspace's crates, and the crates of the workspace that each uses. The same table stands in
/// `docs/architecture.md`.
const LAYERS: &[(&str, &str)] = &[
    ("core", ""),
    ("plot", ""),
    ("test-support", ""),
    ("policy", "core"),
    ("dram", "core"),
    ("energy", "core"),
    ("linux", "core"),
    ("sim", "core policy dram energy"),
    ("map", "core linux"),
    ("color", "core linux"),
    ("page", "core policy energy linux"),
    ("run", "core policy dram linux"),
    ("emulate", "core policy linux run sim"),
    ("reproduce", "core policy dram energy plot sim"),
    ("cli", "core policy dram energy linux sim map color page run emulate reproduce plot"),
    ("qemu-pmu", "core"),
    ("preload", "core policy"),
    ("color-api", "core"),
];

/// Files outside of `linux` and the plugins that call the kernel themselves. The list only gets
/// shorter.
const KERNEL_CALLERS: &[&str] = &[
    "crates/cli/src/dram/replay.rs",
    "crates/cli/src/foreground.rs",
    "crates/cli/src/interrupt.rs",
    "crates/cli/src/run/mod.rs",
    "crates/color/src/audit.rs",
    "crates/color/src/counters.rs",
    "crates/page/src/live/session.rs",
    "crates/run/src/batch.rs",
    "crates/run/src/batch/engine/end.rs",
    "crates/run/src/batch/live.rs",
    "crates/run/src/batch/pinning.rs",
    "crates/run/src/hog/team.rs",
    "crates/run/src/profile/ends.rs",
    "crates/run/src/profile/workspace.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace").to_owned()
}

/// The files below a directory of the workspace whose names have this ending, with their texts.
fn files(directory: &str, ending: &str) -> Vec<(String, String)> {
    let mut pending = vec![root().join(directory)];
    let mut found = Vec::new();
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|e| e == ending) {
                let text = std::fs::read_to_string(&path).unwrap();
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
                found.push((name.to_owned(), text));
            }
        }
    }
    found
}

fn sources() -> impl Iterator<Item = (String, String)> {
    ["crates", "plugins", "fuzz"].into_iter().flat_map(|directory| files(directory, "rs"))
}

/// Names without `memweir-` of the crates that a manifest lists as dependencies.
fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let section = manifest.split("\n[").find_map(|part| part.strip_prefix("dependencies]"));
    let names = section.unwrap_or_default().lines().filter_map(|l| l.strip_prefix("memweir-"));
    names.map(|line| line.split(['.', ' ']).next().expect("a name")).collect()
}

#[test]
fn dependencies_of_a_manifest_are_found() {
    let manifest = "[package]\nname = \"x\"\n\n[dependencies]\nmemweir-core.workspace = true\n\
                    memweir-sim = { path = \"\" }\ncsv = 1\n\n[dev-dependencies]\nmemweir-run = 1\n";
    assert_eq!(dependencies(manifest), BTreeSet::from(["core", "sim"]));
}

#[test]
fn crates_use_only_the_layers_below_them() {
    let manifests = files("crates", "toml").into_iter().chain(files("plugins", "toml"));
    let mut seen = BTreeSet::new();
    for (path, manifest) in manifests.filter(|(path, _)| path.ends_with("/Cargo.toml")) {
        let name = path.split('/').nth(1).expect("a folder per crate").to_owned();
        let allowed = LAYERS.iter().find(|(layer, _)| *layer == name);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{name}: not among the layers"));
        let used = dependencies(&manifest);
        assert_eq!(used, allowed.split_whitespace().collect(), "{name}");
        seen.insert(name);
    }
    assert_eq!(seen.len(), LAYERS.len());
}

/// Returns true for code that comes with the crate, rather than with its tests and benchmarks.
fn is_shipped(path: &str) -> bool {
    let tests = ["/tests/", "/benches/", "/examples/", "/tests.rs", "/testing.rs", "fuzz/"];
    !tests.iter().any(|part| path.contains(part))
}

/// The lines of a source in front of its unit tests that are no comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let before_tests = text.split("#[cfg(test)]\nmod tests {").next().expect("a first part");
    before_tests.lines().filter(|line| !line.trim_start().starts_with("//"))
}

#[test]
fn system_calls_and_unsafe_code_stay_in_linux_and_the_plugins() {
    let home = |path: &str| path.starts_with("crates/linux/") || path.starts_with("plugins/");
    let mut callers = BTreeSet::new();
    for (path, text) in sources().filter(|(path, _)| is_shipped(path) && !home(path)) {
        let calls = |line: &str| line.replace("unix::", "").contains("nix::");
        if code(&text).any(|line| line.contains("libc::") || calls(line)) {
            callers.insert(path.clone());
        }
        for opening in ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"] {
            assert!(!code(&text).any(|line| line.contains(opening)), "{path}: {opening}");
        }
    }
    let listed: BTreeSet<String> = KERNEL_CALLERS.iter().map(|path| (*path).to_owned()).collect();
    assert_eq!(callers, listed);
}

#[test]
fn every_test_skips_through_the_macro() {
    for (path, text) in sources().filter(|(path, _)| !path.starts_with("crates/test-support")) {
        assert!(!text.contains("\"SKIPPED"), "{path}: use `memweir_test_support::skip!`");
    }
}

#[test]
fn comments_and_the_manual_end_at_100_columns() {
    let is_long = |line: &&str| line.chars().count() > 100;
    for (path, text) in sources() {
        let mut comments = text.lines().filter(|line| line.trim_start().starts_with("//"));
        assert_eq!(comments.find(is_long), None, "{path}");
    }
    for (path, text) in files("docs", "md") {
        let prose = text.split("```").step_by(2).flat_map(str::lines);
        let mut prose = prose.filter(|line| !line.starts_with('|'));
        assert_eq!(prose.find(is_long), None, "{path}");
    }
}

#[test]
fn comments_name_their_subject() {
    for (path, text) in sources() {
        let comments = text.lines().map(|line| line.trim_start().trim_start_matches(['/', '!']));
        let commented = text.lines().map(|line| line.trim_start().starts_with("//"));
        for (line, _) in comments.zip(commented).filter(|(_, is_comment)| *is_comment) {
            let opening = line.split_whitespace().next().unwrap_or_default();
            let clause = ["Whether", "Who"].contains(&opening);
            assert!(!clause, "{path}: name the subject of `{line}`");
        }
    }
}
