//! The ways through the code that `docs/architecture.md` lists, held against the code.

use memweir_test_support::root;

/// A row of a way.
struct Row<'t> {
    /// True if a stack begins here.
    begins: bool,
    file: &'t str,
    functions: Vec<&'t str>,
}

/// A way as the manual writes it.
struct Way<'t> {
    title: &'t str,
    rows: Vec<Row<'t>>,
}

/// The texts of a line that are set as code.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

impl<'t> Row<'t> {
    fn of(line: &'t str) -> Self {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let file = code(cells[2]).next().expect("a file");
        Self { begins: !cells[1].is_empty(), file, functions: code(cells[3]).collect() }
    }
}

impl<'t> Way<'t> {
    fn of(section: &'t str) -> Self {
        let (title, text) = section.split_once('\n').expect("a title");
        let lines = text.lines().filter(|line| line.starts_with('|')).skip(2);
        Self { title, rows: lines.map(Row::of).collect() }
    }
}

fn ways(manual: &str) -> Vec<Way<'_>> {
    let (_, rest) = manual.split_once("## Four ways through the code\n").expect("the ways");
    let rest = rest.split("\n## ").next().expect("a first part");
    rest.split("\n### ").skip(1).map(Way::of).collect()
}

/// The body of a function: of `Type::name`, in an implementation of the type.
fn body<'t>(source: &'t str, function: &str) -> Option<&'t str> {
    let (within, name, margin) = match function.split_once("::") {
        None => (vec![source], function, ""),
        Some((of, name)) => {
            let blocks = source.split("\nimpl").skip(1);
            let blocks = blocks.filter_map(|block| block.split("\n}").next());
            let is_of = |block: &&str| names(block.lines().next().unwrap_or_default(), of);
            (blocks.filter(is_of).collect(), name, "    ")
        }
    };
    let end = format!("\n{margin}}}");
    within.into_iter().find_map(|block| {
        let begins = |(at, _): &(usize, &str)| {
            let line = block[..*at].rsplit('\n').next().unwrap_or_default();
            let indent = line.len() - line.trim_start().len();
            indent == margin.len() && !line.trim_start().starts_with("//")
        };
        let called = format!("fn {name}");
        let after = |at: usize| block[at + called.len()..].starts_with(['(', '<']);
        let mut found = block.match_indices(&called).filter(begins);
        let (at, _) = found.find(|(at, _)| after(*at))?;
        block[at..].split(&end).next().map(|text| &text[called.len()..])
    })
}

/// Returns true if the text has this name as a word.
fn names(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part)
    })
}

#[test]
fn bodies_of_functions_are_found() {
    let source = "fn f() {\n    g()\n}\n\nimpl A {\n    fn f() {\n        h()\n    }\n}\n\
                  \nimpl<T> B for C<T> {\n    fn f<X>() {\n        i()\n    }\n}\n";
    assert!(names(body(source, "f").unwrap(), "g"));
    assert!(names(body(source, "A::f").unwrap(), "h"));
    assert!(names(body(source, "C::f").unwrap(), "i"));
    assert!(body(source, "g").is_none() && body(source, "D::f").is_none());
}

#[test]
fn each_function_of_a_way_calls_the_next() {
    let read = |file: &str| std::fs::read_to_string(root().join(file));
    let manual = read("docs/architecture.md").unwrap();
    let ways = ways(&manual);
    assert_eq!(ways.len(), 4);
    for Way { title, rows } in ways {
        let mut caller: Option<(&str, String)> = None;
        let mut count = 0;
        for row in rows {
            let source = read(row.file).unwrap_or_else(|error| panic!("{}: {error}", row.file));
            let mut begins = row.begins;
            for function in row.functions {
                let own = body(&source, function)
                    .unwrap_or_else(|| panic!("{}: no function `{function}`", row.file));
                let name = function.rsplit("::").next().expect("a name");
                if let Some((by, text)) = caller.filter(|_| !begins) {
                    assert!(names(&text, name), "{title}: `{by}` does not call `{function}`");
                }
                caller = Some((function, own.to_owned()));
                (begins, count) = (false, count + 1);
            }
        }
        let line = format!("| {} | {count} |", title[..1].to_lowercase() + &title[1..]);
        assert!(manual.contains(&line), "{title}: passes {count} functions");
    }
}
