//! Rules of the source tree: layers, system calls, `unsafe`, skips, and the width of lines.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

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
                    memweir-flow = { path = \"\" }\ncsv = 1\n\n[dev-dependencies]\nmemweir-run = 1\n";
    assert_eq!(dependencies(manifest), BTreeSet::from(["core", "flow"]));
}

/// The words of a table's cell that are set as code.
fn in_backticks(cell: &str) -> BTreeSet<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn crates_use_what_the_architecture_says() {
    let text = std::fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let (_, table) = text.split_once("| crate | uses |\n|---|---|\n").expect("a table of layers");
    let mut layers = BTreeMap::new();
    for row in table.lines().take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        let names = in_backticks(cells[1]);
        layers.extend(names.into_iter().map(|name| (name, in_backticks(cells[2]))));
    }
    let manifests: Vec<_> = files("crates", "toml")
        .into_iter()
        .chain(files("plugins", "toml"))
        .filter(|(path, _)| path.ends_with("/Cargo.toml"))
        .collect();
    let used: BTreeMap<&str, BTreeSet<&str>> = manifests
        .iter()
        .map(|(path, text)| (path.split('/').nth(1).expect("a folder"), dependencies(text)))
        .collect();
    assert_eq!(used, layers);
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
    let homes = ["crates/linux/", "crates/scx/", "plugins/"];
    let home = |path: &str| homes.iter().any(|home| path.starts_with(home));
    for (path, text) in sources().filter(|(path, _)| is_shipped(path) && !home(path)) {
        let calls = |line: &str| line.replace("unix::", "").contains("nix::");
        let call = code(&text).find(|line| line.contains("libc::") || calls(line));
        assert_eq!(call, None, "{path}: calls of the kernel belong into `linux`");
        for opening in ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"] {
            assert!(!code(&text).any(|line| line.contains(opening)), "{path}: {opening}");
        }
    }
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
    let at_root = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .map(|name| (name.to_owned(), std::fs::read_to_string(root().join(name)).unwrap()));
    for (path, text) in files("docs", "md").into_iter().chain(at_root) {
        let prose = text.split("```").step_by(2).flat_map(str::lines);
        let mut prose = prose.filter(|line| !line.starts_with('|'));
        assert_eq!(prose.find(is_long), None, "{path}");
    }
}

#[test]
fn comments_name_their_subject() {
    for (path, text) in sources() {
        for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("//")) {
            let words = line.trim_start_matches(['/', '!']);
            let opening = words.split_whitespace().next().unwrap_or_default();
            let clause = ["What", "Whether", "Who", "How"].contains(&opening);
            assert!(!clause, "{path}: name the subject of `{line}`");
        }
    }
}
