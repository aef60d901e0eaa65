//! Rules of the source tree: layers, owners, names, system calls, `unsafe`, skips, and the width of
//! lines.

use std::collections::{BTreeMap, BTreeSet};

use memweir_test_support::root;

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
    // The support of tests sets up the processes that they start.
    let homes = ["crates/linux/", "crates/scx/", "crates/test-support/", "plugins/"];
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
fn a_message_that_cannot_be_printed_ends_nothing() {
    // Build scripts speak to their builder, and tests to their reader.
    let free = ["/build.rs", "study/sources.rs", "reproduce/sources.rs", "test-support/src/lib.rs"];
    let speaks_freely = |path: &str| free.iter().any(|end| path.ends_with(end));
    for (path, text) in sources().filter(|(path, _)| is_shipped(path) && !speaks_freely(path)) {
        let prints =
            code(&text).find(|line| line.contains("println!(") || line.contains("print!("));
        assert_eq!(
            prints, None,
            "{path}: `linux::stderr` and `output` of the command do not panic"
        );
    }
}

#[test]
fn every_test_skips_through_the_macro() {
    for (path, text) in sources().filter(|(path, _)| !path.starts_with("crates/test-support")) {
        assert!(!text.contains("\"SKIPPED"), "{path}: use `memweir_test_support::skip!`");
    }
}

/// Bytes of the string literal at the start of `text`; `before` is the code in front of it.
fn string_length(before: &str, text: &str) -> usize {
    let bare = before.trim_end_matches('#');
    if bare.ends_with('r') {
        let end = format!("\"{}", &before[bare.len()..]);
        return 1 + text[1..].find(&end).expect("an end") + end.len();
    }
    let mut escaped = false;
    let end = text[1..].find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.expect("an end") + 2
}

/// A source whose string literals are empty but for the ends of lines.
fn without_strings(text: &str) -> String {
    let (mut code, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        code.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match rest {
            _ if rest.starts_with('"') => string_length(&code, rest),
            _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("'\"'") => 3,
            _ if rest.starts_with("'\\\"'") => 4,
            _ => 1,
        };
        let (token, after) = rest.split_at(length);
        let is_string = token.starts_with('"');
        code.extend(token.chars().filter(|c| !is_string || *c == '\n'));
        rest = after;
    }
    code + rest
}

#[test]
fn strings_of_a_source_are_found() {
    let text = "f(\"a \\\" b\", '\"', '\\\"', r#\"c \" d\"#); // \"e\nlet x = \"f \\\n g\"; // h\n";
    assert_eq!(without_strings(text), "f(, '\"', '\\\"', r#); // \"e\nlet x = \n; // h\n");
}

#[test]
fn code_comments_and_the_manual_end_at_100_columns() {
    let is_long = |line: &&str| line.chars().count() > 100;
    for (path, text) in sources() {
        assert_eq!(without_strings(&text).lines().find(is_long), None, "{path}");
    }
    for (path, text) in commented().filter(|(path, _)| !path.ends_with(".patch")) {
        let mut comments = text.lines().filter(|line| comment(&path, line).is_some());
        let found = comments.find(|line| is_long(line) && !line.contains("://"));
        assert_eq!(found, None, "{path}");
    }
    let at_root = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .map(|name| (name.to_owned(), std::fs::read_to_string(root().join(name)).unwrap()));
    for (path, text) in files("docs", "md").into_iter().chain(at_root) {
        let prose = text.split("```").step_by(2).flat_map(str::lines);
        let mut prose = prose.filter(|line| !line.starts_with('|'));
        assert_eq!(prose.find(is_long), None, "{path}");
    }
}

/// The files with comments: sources, data, scripts and patches of the kernel.
fn commented() -> impl Iterator<Item = (String, String)> {
    let folders = ["crates", "plugins", "fuzz", "demo", "experiments", "kernel"];
    let folders = folders.into_iter().chain(["packaging", "python", "scripts"]);
    let endings = ["rs", "toml", "py", "sh", "c", "h", "patch", "suite", "service", "allowed"];
    let below = folders.flat_map(move |folder| endings.map(|ending| files(folder, ending)));
    let others = ["Makefile", ".ci/run", "kernel/test/guest/init"];
    below.flatten().chain(
        others.map(|name| {
            (name.to_owned(), std::fs::read_to_string(root().join(name)).expect("a text"))
        }),
    )
}

/// The words of a line that is a comment, or part of one, in a file of this name. Of a patch, only
/// the lines that it adds count.
fn comment<'l>(path: &str, line: &'l str) -> Option<&'l str> {
    let markers: &[&str] = match path.rsplit('.').next() {
        Some("rs") => &["//"],
        Some("c" | "h") => &["//", "/*", "* "],
        Some("patch") => &["//", "/*", "* ", "#"],
        _ => &["#"],
    };
    let line = if path.ends_with(".patch") { line.strip_prefix('+')? } else { line };
    let line = line.trim_start();
    let words = line.trim_start_matches(['/', '*', '#', '!']).trim_start();
    markers.iter().any(|marker| line.starts_with(marker)).then_some(words)
}

#[test]
fn comments_of_all_languages_are_found() {
    assert_eq!(comment("a.rs", "    //! Who."), Some("Who."));
    assert_eq!(comment("a.toml", "# Who."), Some("Who."));
    assert_eq!(comment("Makefile", "# Who."), Some("Who."));
    assert_eq!(comment("a.c", "\t/* Who. */"), Some("Who. */"));
    assert_eq!(comment("a.c", " * Who."), Some("Who."));
    assert_eq!(comment("a.patch", "+\t/* Who. */"), Some("Who. */"));
    assert_eq!(comment("a.patch", " \t/* Who. */"), None);
    assert_eq!(comment("a.c", "*who = 1;"), None);
    assert_eq!(comment("a.rs", "let a = 1; // Who."), None);
}

#[test]
fn comments_name_their_subject() {
    let mut unnamed = Vec::new();
    for (path, text) in commented() {
        for words in text.lines().filter_map(|line| comment(&path, line)) {
            let opening = words.split_whitespace().next().unwrap_or_default();
            if ["What", "Whether", "Who", "How"].contains(&opening) {
                unnamed.push(format!("{path}: {words}"));
            }
        }
    }
    assert!(unnamed.is_empty(), "name the subject of\n{}", unnamed.join("\n"));
}

/// The type or trait that a line at the margin defines, behind its visibility.
fn defined_type(line: &str) -> Option<&str> {
    let (kind, rest) = line.split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type"].contains(&kind);
    is_type.then(|| rest.split(|c: char| !c.is_alphanumeric()).next())?
}

/// The public type or trait that a line at the margin defines.
fn public_type(line: &str) -> Option<&str> {
    defined_type(line.strip_prefix("pub ")?)
}

/// The public names of the crates, with the files that define them.
fn public_names() -> impl Iterator<Item = (String, String)> {
    let shipped = sources().filter(|(path, _)| is_shipped(path));
    shipped.flat_map(|(path, text)| {
        let names: Vec<_> = code(&text).filter_map(public_type).map(str::to_owned).collect();
        names.into_iter().map(move |name| (name, path.clone()))
    })
}

/// The crate of a file.
fn home(path: &str) -> &str {
    path.split("/src/").next().expect("a crate")
}

#[test]
fn a_public_name_has_one_meaning_in_its_crate() {
    let mut homes = BTreeMap::new();
    for (name, path) in public_names() {
        let other = homes.insert((home(&path).to_owned(), name.clone()), path.clone());
        assert_eq!(other, None, "{path}: `{name}` is public in both");
    }
    assert!(homes.contains_key(&("crates/flow".to_owned(), "Machine".to_owned())));
}

/// The lines of a source that are no comments.
fn statements(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The paths that the tree of an import names: `a::{b, c as d}` names `a::b` and `a::c as d`.
fn paths_of(tree: &str) -> Vec<String> {
    let Some((prefix, group)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let mut depth = 0;
    let parts = group.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        (c == ',' && depth == 0) || depth < 0
    });
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    parts.flat_map(|part| paths_of(&format!("{prefix}{part}"))).collect()
}

/// The paths that a source imports from the workspace.
fn imports(statements: &str) -> Vec<String> {
    let trees = statements.split("use ").skip(1).filter_map(|rest| rest.split(';').next());
    let is_own = |tree: &&str| {
        ["memweir_", "crate::", "super::"].iter().any(|start| tree.starts_with(start))
    };
    trees.filter(is_own).flat_map(paths_of).collect()
}

/// Returns true if the statements name exactly this path.
fn names(statements: &str, path: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    statements.match_indices(path).any(|(at, _)| {
        let before = statements[..at].ends_with(|c| is_part(c) || c == ':');
        !before && !statements[at + path.len()..].starts_with(is_part)
    })
}

#[test]
fn imports_of_a_source_are_found() {
    let text = "use std::io;\nuse memweir_core::{Bytes, input::{self, Document as Text}};\n\
                // use crate::x;\npub use crate::a::B;\n";
    let found = imports(&statements(text));
    let expected = [
        "memweir_core::Bytes",
        "memweir_core::input::self",
        "memweir_core::input::Document as Text",
    ];
    assert_eq!(found[..3], expected);
    assert_eq!(found[3..], ["crate::a::B"]);
    assert!(names("x = a::B::new()", "a::B"));
    assert!(!names("x = y::a::B", "a::B") && !names("x = a::Bc", "a::B"));
}

#[test]
fn names_that_crates_share_are_qualified_where_they_meet() {
    let mut homes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, path) in public_names() {
        homes.entry(name).or_default().insert(home(&path).to_owned());
    }
    homes.retain(|_, homes| homes.len() > 1);
    assert!(homes.contains_key("Machine"));
    for (path, text) in sources() {
        let statements = statements(&text);
        let imports = imports(&statements);
        let last =
            |path: &str| path.trim_end_matches("::self").rsplit("::").next().map(str::to_owned);
        let modules: BTreeSet<String> = imports.iter().filter_map(|path| last(path)).collect();
        for import in &imports {
            let last = import.rsplit("::").next().expect("a name");
            let (name, alias) = last.split_once(" as ").unwrap_or((last, "_"));
            if !homes.contains_key(name) {
                continue;
            }
            assert_eq!(alias, "_", "{path}: write `{import}` qualified instead");
            let meets = |module: &&String| {
                module.starts_with(char::is_lowercase)
                    && names(&statements, &format!("{module}::{name}"))
            };
            let other = modules.iter().find(meets);
            assert_eq!(other, None, "{path}: `{name}` has another meaning there; qualify both");
        }
    }
}

/// The type that a line at the margin implements by itself: `impl<T> Name<T> {` has `Name`.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    if !rest.starts_with([' ', '<']) || line.contains(" for ") {
        return None;
    }
    let mut depth = 0;
    let end = rest.find(|c| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        c == ' ' && depth == 0
    })?;
    rest[end + 1..].split(|c: char| !c.is_alphanumeric()).next()
}

#[test]
fn implementations_are_found() {
    let names = ["impl Lone {", "impl<'a, M: Memory<u8>> System<'a, M> {", "impl Ord for Due {"];
    assert_eq!(names.map(implemented), [Some("Lone"), Some("System"), None]);
}

/// A type that is implemented all over its crate owns nothing: its parts want owners.
#[test]
fn a_type_is_implemented_in_three_files_at_most() {
    let mut definitions: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let mut files = definitions.clone();
    for (path, text) in sources().filter(|(path, _)| path.contains("/src/")) {
        let key = |name: &str| (home(&path).to_owned(), name.to_owned());
        for line in text.lines() {
            let bare = line.strip_prefix("pub ").unwrap_or(line);
            let bare = if bare.starts_with("pub(") {
                bare.split_once(' ').unwrap_or_default().1
            } else {
                bare
            };
            if let Some(name) = defined_type(bare) {
                definitions.entry(key(name)).or_default().insert(path.clone());
            }
            if let Some(name) = implemented(line) {
                files.entry(key(name)).or_default().insert(path.clone());
            }
        }
    }
    assert!(files.len() > 100, "{}", files.len());
    for (key, files) in files {
        // Private types of several modules may have one name. Their files are those in which
        // they are defined, and those below.
        let homes = definitions.remove(&key).unwrap_or_default();
        for definition in &homes {
            let folder = definition.trim_end_matches(".rs");
            let is_its = |file: &&String| {
                *file == definition
                    || !homes.contains(*file) && (homes.len() == 1 || file.starts_with(folder))
            };
            let files: Vec<&String> = files.iter().filter(is_its).collect();
            assert!(files.len() <= 3, "`{}` wants owners of its parts: {files:?}", key.1);
        }
    }
}

/// The modules at the top of its own crate that a line names.
fn own_modules(line: &str) -> impl Iterator<Item = &str> {
    let after = line.split("crate::").skip(1);
    let paths = after.flat_map(|path| match path.strip_prefix('{') {
        Some(group) => group.split(", ").collect::<Vec<_>>(),
        None => vec![path],
    });
    paths.filter_map(|path| path.split(|c: char| !c.is_alphanumeric() && c != '_').next())
}

#[test]
fn commands_share_what_they_share_in_one_place() {
    let lib = std::fs::read_to_string(root().join("crates/cli/src/lib.rs")).unwrap();
    let calls = lib.lines().filter(|line| line.contains("::execute("));
    let commands: BTreeSet<&str> =
        calls.filter_map(|line| line.split_once("=> ")?.1.split("::").next()).collect();
    assert!(commands.contains("run") && commands.contains("queue"), "{commands:?}");
    for (path, text) in files("crates/cli/src", "rs") {
        let own = path["crates/cli/src/".len()..].split(['/', '.']).next().expect("a module");
        let all = ["lib", "cli"].contains(&own);
        for line in text.lines().filter(|_| !all) {
            let mut others = own_modules(line).filter(|name| *name != own);
            let command = others.find(|name| commands.contains(name));
            assert_eq!(command, None, "{path}: `{line}` belongs into `shared`");
        }
    }
}
