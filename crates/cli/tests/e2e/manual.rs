//! The commands of the README and the manual, run as a reader would run them.
//!
//! Every `console` block of a page runs in order in one scratch directory that holds the files its
//! commands name. A block whose first line is `# NAME.toml` or `# NAME.py` is such a file. A
//! comment before a block exempts it, or some of its commands, with a reason:
//!
//! ```text
//! <!-- not run: needs a memory node without processors -->
//! <!-- not run (make, cd): builds for minutes -->
//! ```
//!
//! The output that a page shows, in a block or in a `text` block after it, is compared with what
//! the block printed if this comment stands before it:
//!
//! ```text
//! <!-- output -->
//! ```
//!
//! Any other output that follows a block says why it is not compared:
//!
//! ```text
//! <!-- output varies: the times are those of a machine -->
//! ```
//!
//! A page may leave out lines and columns: each of its lines has cells of one line that was
//! printed.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::support::{MEMWEIR, World, root};

/// The comment before an output that must be the same.
const OUTPUT: &str = "<!-- output -->";

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A `console` block and the comment before it.
#[derive(Debug, PartialEq)]
struct Block {
    /// Line of the fence, from 1.
    line: usize,
    commands: Vec<Shown>,
    exempt: Exempt,
    /// The lines that it must print.
    output: Vec<String>,
}

/// A command as a page shows it.
#[derive(Debug, PartialEq)]
struct Shown {
    prompt: Prompt,
    text: String,
}

#[derive(Debug, PartialEq)]
enum Prompt {
    User,
    Root,
}

/// The commands of a block that are not run.
#[derive(Debug, PartialEq)]
enum Exempt {
    None,
    All,
    /// Those that begin with one of these words.
    Some(Vec<String>),
}

impl Exempt {
    fn parse(line: &str) -> Self {
        let Some(comment) = line.trim().strip_prefix("<!-- not run") else { return Self::None };
        let (list, why) = comment.split_once(':').expect("a reason after `not run`");
        reason(why, line);
        let list = list.trim();
        if list.is_empty() {
            return Self::All;
        }
        let inner = list.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        let inner = inner.unwrap_or_else(|| panic!("`(COMMAND, ...)` in {line}"));
        Self::Some(inner.split(',').map(|prefix| prefix.trim().to_owned()).collect())
    }

    fn covers(&self, command: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Some(prefixes) => prefixes.iter().any(|prefix| command.starts_with(prefix)),
        }
    }
}

/// Reads a reason that ends a comment.
fn reason<'a>(comment: &'a str, line: &str) -> &'a str {
    let comment = comment.strip_suffix("-->").expect("the comment ends on its line");
    assert!(comment.split_whitespace().count() >= 3, "a reason is a sentence: {line}");
    comment
}

/// The use that the test makes of a fenced block.
#[derive(Clone, Copy, PartialEq)]
enum Fence {
    Console,
    /// Output of the last `console` block, which must be the same.
    Output,
    Other,
}

/// The use of a block that opens with this line, after this comment and with nothing else since a
/// `console` block or not.
fn fence(line: &str, comment: &str, follows_commands: bool) -> Fence {
    let compared = comment.trim() == OUTPUT;
    match line.strip_prefix("```").expect("a fence") {
        "console" => Fence::Console,
        "text" if compared => Fence::Output,
        "text" if follows_commands => {
            let varies = comment.trim().strip_prefix("<!-- output varies: ");
            reason(varies.unwrap_or_else(|| panic!("compare, or say why not: {comment}")), comment);
            Fence::Other
        }
        _ => {
            assert!(!compared, "this is no output: {line}");
            Fence::Other
        }
    }
}

/// The `console` blocks of a page. Lines without a prompt are output.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open: Option<Fence> = None;
    let mut compared = false;
    let mut follows_commands = false;
    let mut before = "";
    for (index, line) in page.lines().enumerate() {
        match open {
            None if line.starts_with("```") => {
                let kind = fence(line, before, follows_commands);
                if kind == Fence::Console {
                    let exempt = Exempt::parse(before);
                    let (commands, output) = (Vec::new(), Vec::new());
                    blocks.push(Block { line: index + 1, commands, exempt, output });
                }
                compared = before.trim() == OUTPUT;
                open = Some(kind);
            }
            None => follows_commands &= line.is_empty() || line.starts_with("<!--"),
            Some(kind) if line == "```" => {
                follows_commands = kind == Fence::Console;
                open = None;
            }
            Some(Fence::Other) => {}
            Some(kind) => {
                let block = blocks.last_mut().expect("output follows a block of commands");
                let user = line.strip_prefix("$ ").map(|text| (Prompt::User, text));
                let root = || line.strip_prefix("# ").map(|text| (Prompt::Root, text));
                match user.or_else(root) {
                    Some((prompt, text)) if kind == Fence::Console => {
                        block.commands.push(Shown { prompt, text: text.to_owned() });
                    }
                    _ if compared => block.output.push(line.to_owned()),
                    _ => {}
                }
            }
        }
        if !line.trim().is_empty() {
            before = line;
        }
    }
    assert!(open.is_none(), "a block of the page has no end");
    blocks
}

/// The cells of a line of a table, or its words where it is none. A rule has no cells.
fn cells(line: &str) -> Vec<&str> {
    let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
    cells.filter(|cell| !cell.chars().all(|c| c == '─')).collect()
}

/// The first line of a shown output that was not printed after the lines before it.
fn not_printed<'a>(shown: &'a [String], printed: &str) -> Option<&'a str> {
    let mut lines = printed.lines().map(cells);
    let mut was_printed = |line: &str| {
        let wanted = cells(line);
        wanted.is_empty()
            || lines.any(|cells| {
                let mut rest = cells.iter();
                wanted.iter().all(|cell| rest.any(|other| other == cell))
            })
    };
    shown.iter().map(String::as_str).find(|line| !was_printed(line))
}

/// The files that a page shows, as pairs of name and content: its blocks that begin with a name.
fn files(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    blocks.filter_map(|block| {
        let (_, content) = block.split_once('\n')?;
        let name = content.lines().next()?.strip_prefix("# ")?;
        let is_file = [".toml", ".py"].iter().any(|ending| name.ends_with(ending));
        (is_file && !name.contains(['/', ' '])).then_some((name, content))
    })
}

/// Lines of words, for programs that compress and sort.
fn words(lines: usize) -> String {
    let line = |index: usize| format!("{} {} memory\n", index * 7919 % 10007, index * 31 % 1009);
    (0..lines).map(line).collect()
}

/// A program that keeps some memory for long enough to be looked at.
const SERVER: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    memset(malloc(32 << 20), 1, 32 << 20);
    sleep(SECONDS);
    return 0;
}
"#;

const JOB: &str = "rows = [bytearray(4096) for _ in range(20_000)]\nprint(sum(map(len, rows)))\n";

const HYBRID: &str = r#"
machine = "hmmsched"
policies = ["os", "hmmsched"]
repetitions = 2
migration = { policy = "hot-pages", elsewhere = "nvm", dram_mib = 256 }

[[tasks]]
program = "433.milc"
instances = 4
work_s = 5
"#;

const TABLE_1: &str = "machine = \"iabw\"\npolicies = [\"os\", \"ideal-average\"]\nrepetitions = 2\n\
                       mix = { paper = \"spec-01\" }\n";

/// A trace of 64 reads in a row: eight bytes a request.
fn trace() -> Vec<u8> {
    (0..64_u64).flat_map(|line| (line * 64).to_le_bytes()).collect()
}

/// Writes the files that a page shows.
fn show_files(world: &World, page: &str) {
    for (name, content) in files(page) {
        world.file(name, content);
    }
}

/// The files that the pages' commands name.
fn furnish(world: &World) {
    for name in ["a", "b", "c", "data", "input", "big"] {
        world.file(name, &words(20_000));
    }
    let readme = std::fs::read_to_string(Path::new(ROOT).join("README.md")).expect("README.md");
    show_files(world, &readme);
    world.file("job.py", JOB);
    world.file("hybrid.toml", HYBRID);
    world.file("table1.toml", TABLE_1);
    std::fs::write(world.path().join("trace.bin"), trace()).expect("a trace");
    let source = world.file("server.c", SERVER);
    for (name, seconds) in [("server", 60), ("batch", 1)] {
        let define = format!("-DSECONDS={seconds}");
        let output = world.path().join(name);
        let built = Command::new("cc").arg(define).arg("-o").arg(output).arg(&source).status();
        assert!(built.expect("a C compiler").success());
    }
    let shipped = Path::new(ROOT).join("crates");
    let map = shipped.join("study/data/bank-machines/i7-860-map.toml");
    for name in ["i7-860.toml", "map.toml"] {
        std::fs::copy(&map, world.path().join(name)).expect("the map is shipped");
    }
    let maps = shipped.join("map/data/published_maps.json");
    std::fs::copy(maps, world.path().join("published_maps.json")).expect("the maps are shipped");
    for folder in ["experiments", "crates"] {
        symlink(Path::new(ROOT).join(folder), world.path().join(folder)).expect("a link");
    }
    let bin = world.path().join("bin");
    std::fs::create_dir(&bin).expect("a directory");
    symlink(MEMWEIR, bin.join("memweir")).expect("a link");
}

/// The commands of a block as a script that ends at the first that fails and names it.
fn script(block: &Block) -> Option<String> {
    let runs = |shown: &&Shown| {
        !block.exempt.covers(&shown.text)
            && (shown.prompt == Prompt::User || root(&format!("`{}`", shown.text)))
    };
    let commands: Vec<&str> =
        block.commands.iter().filter(runs).map(|shown| shown.text.as_str()).collect();
    (!commands.is_empty()).then(|| format!("set -ex\n{}\n", commands.join("\n")))
}

/// Runs every block of a page, and says which failed.
fn run_page(page: &str) {
    let world = World::new();
    furnish(&world);
    let text = std::fs::read_to_string(Path::new(ROOT).join(page)).expect(page);
    show_files(&world, &text);
    let path = format!("{}:{}", world.path().join("bin").display(), std::env::var("PATH").unwrap());
    let mut failures = Vec::new();
    for block in blocks(&text) {
        let Some(script) = script(&block) else { continue };
        let log = world.path().join("log");
        let create = || std::fs::File::create(&log).expect("a file");
        let file = create();
        let status = world
            .surrounded(Command::new("timeout"))
            .args(["300", "sh", "-c", &script])
            .env("PATH", &path)
            // `data` is a file of the README.
            .env("XDG_DATA_HOME", world.path().join("store"))
            .stdin(std::process::Stdio::null())
            .stdout(file.try_clone().expect("a file"))
            .stderr(file)
            .status()
            .expect("a shell");
        let printed = world.read("log");
        if !status.success() {
            failures.push(format!("{page}:{}: {status}\n{printed}", block.line));
        } else if let Some(line) = not_printed(&block.output, &printed) {
            failures.push(format!("{page}:{}: not printed: {line}\n{printed}", block.line));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

macro_rules! pages {
    ($($name:ident: $page:literal),* $(,)?) => {$(
        #[test]
        fn $name() {
            run_page($page);
        }
    )*};
}

pages! {
    commands_of_the_readme_run: "README.md",
    commands_of_run_md_run: "docs/run.md",
    commands_of_policy_programs_md_run: "docs/policy-programs.md",
    commands_of_map_md_run: "docs/map.md",
    commands_of_color_md_run: "docs/color.md",
    commands_of_page_md_run: "docs/page.md",
    commands_of_sim_md_run: "docs/sim.md",
    commands_of_fit_md_run: "docs/fit.md",
    commands_of_sweep_md_run: "docs/sweep.md",
    commands_of_watch_md_run: "docs/watch.md",
    commands_of_the_first_page_run: "docs/introduction.md",
    commands_of_tutorial_batch_md_run: "docs/tutorial-batch.md",
    commands_of_tutorial_two_memories_md_run: "docs/tutorial-two-memories.md",
    commands_of_tutorial_banks_md_run: "docs/tutorial-banks.md",
    commands_of_tutorial_policy_md_run: "docs/tutorial-policy.md",
}

#[test]
fn files_are_blocks_that_begin_with_their_names() {
    let page = "```toml\n# a.toml\nx = 1\n```\n\n```console\n# b.py\n```\n```\n# a b.py\n```\n";
    let page = format!("# Title\n\n{page}```python\n# c.py\ny = 2\n```\n");
    let read: Vec<_> = files(&page).collect();
    let expected = [("a.toml", "# a.toml\nx = 1"), ("b.py", "# b.py"), ("c.py", "# c.py\ny = 2")];
    assert_eq!(read, expected);
}

#[test]
fn blocks_are_read_with_their_exemptions() {
    let page = "<!-- not run (make): builds for minutes -->\n\n```console\n$ make\n$ memweir -V\n\
                memweir 1\n# memweir doctor\n```\n```toml\n$ no = 1\n```\n\
                <!-- not run: needs two nodes -->\n```console\n$ a\n```\n";
    let read = blocks(page);
    let shown = |prompt, text: &str| Shown { prompt, text: text.to_owned() };
    assert_eq!(read.len(), 2);
    assert_eq!(read[0].line, 3);
    assert_eq!(
        read[0].commands,
        [
            shown(Prompt::User, "make"),
            shown(Prompt::User, "memweir -V"),
            shown(Prompt::Root, "memweir doctor")
        ]
    );
    assert!(read[0].exempt.covers("make") && !read[0].exempt.covers("memweir -V"));
    assert_eq!(script(&read[1]), None);
}

#[test]
fn outputs_are_read_and_compared() {
    let page = "<!-- output -->\n```console\n$ a\n one\n```\n\nAnd:\n\n```text\nx\n```\n\
                ```console\n$ b\ntwo\n```\n\n<!-- output -->\n```text\n# three\n```\n";
    let read: Vec<_> = blocks(page).into_iter().map(|block| block.output).collect();
    assert_eq!(read, [vec![" one".to_owned()], vec!["# three".to_owned()]]);
    let printed =
        "+ a\n policy   time    gain\n──\n os       1.0 s      -\n b        2 s   -1.0 %\n";
    let differs = |shown: &[&str]| {
        let shown: Vec<String> = shown.iter().map(|line| (*line).to_owned()).collect();
        not_printed(&shown, printed).map(str::to_owned)
    };
    assert_eq!(differs(&[" policy  gain", "───", " os  -", "", " b  -1.0 %"]), None);
    assert_eq!(differs(&[" policy  gain", " b  -1.1 %"]).as_deref(), Some(" b  -1.1 %"));
    assert_eq!(differs(&[" b  2 s", " os  -"]).as_deref(), Some(" os  -"), "the order counts");
}

#[test]
#[should_panic(expected = "compare, or say why not")]
fn an_output_is_compared_or_has_a_reason() {
    blocks("```console\n$ a\n```\n\n```text\none\n```\n");
}

#[test]
#[should_panic(expected = "a reason")]
fn an_exemption_without_a_reason_is_refused() {
    let _ = Exempt::parse("<!-- not run: slow -->");
}
