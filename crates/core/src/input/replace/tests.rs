use super::*;
use proptest::prelude::*;

const FILE: &str = "seed = 1\n[machine]\ncores = 4\n[[tasks]]\nname = \"a\"\nwork = 2.5\n";

const SOURCE: Document<'_> = Document { name: "x.toml", text: FILE };

fn replaced(values: &[(&str, &str)]) -> Replaced {
    let replacement = |(path, value): &(&str, &str)| {
        let text = format!("{path}={value}");
        Replacement::read(&text, format!("--set {text}")).expect("a replacement")
    };
    let replacements: Vec<_> = values.iter().map(replacement).collect();
    Replaced::new(SOURCE, &replacements)
}

fn value_of(source: &Replaced, key: &str) -> String {
    let mut section = source.parse().expect("correct");
    let value = section.take(key).expect("there");
    value.text().map_or_else(|| value.number().expect("a number").to_string(), str::to_owned)
}

#[test]
fn values_of_the_command_line_take_the_place_of_the_files() {
    assert_eq!(value_of(&replaced(&[("seed", "7")]), "seed"), "7");
    // A word needs no quotes; what looks like TOML is TOML.
    assert_eq!(value_of(&replaced(&[("seed", "ideal-average")]), "seed"), "ideal-average");
    assert_eq!(value_of(&replaced(&[("seed", "\"7\"")]), "seed"), "7");
    assert_eq!(value_of(&replaced(&[("seed", "a # b")]), "seed"), "a # b");
    assert_eq!(value_of(&replaced(&[("seed", "\"a # b\"")]), "seed"), "a # b");
    assert_eq!(value_of(&replaced(&[("seed", "7 # b")]), "seed"), "7 # b");
    assert_eq!(value_of(&replaced(&[("new", "2.5")]), "new"), "2.5");
    // The last word counts.
    assert_eq!(value_of(&replaced(&[("seed", "7"), ("seed", "8")]), "seed"), "8");
}

#[test]
fn a_refusal_of_the_file_names_the_option_that_made_it_wrong() {
    let refused = |text: &str, values: &[&str]| {
        let document = Document { name: "x.toml", text };
        let read = |set: &[Replacement]| {
            let replaced = Replaced::new(document, set);
            let mut root = replaced.parse()?;
            match root.require("least")?.integer()? > root.require("most")?.integer()? {
                true => Err(root.refuse("nothing is in between")),
                false => Ok(()),
            }
        };
        let set = values.iter().map(|set| Replacement::read(set, format!("--set {set}")).unwrap());
        read_replacing("x.toml", &set.collect::<Vec<_>>(), read).unwrap_err().to_string()
    };
    let (right, wrong) = ("least = 1\nmost = 2\n", "least = 3\nmost = 2\n");
    assert_eq!(refused(right, &["new=1", "least=3"]), "--set least=3: nothing is in between");
    assert_eq!(
        refused(right, &["least=a"]),
        "--set least=a: least: must be a whole number, not a string"
    );
    assert_eq!(refused(wrong, &["new=1"]), "x.toml:1: nothing is in between");
}

#[test]
fn a_key_and_its_value_have_no_spaces_around_them() {
    assert_eq!(key_and_value(" a = b=c "), ("a", Some("b=c")));
    assert_eq!((key_and_value(" a "), key_and_value("a=")), (("a", None), ("a", Some(""))));
}

#[test]
fn a_replacement_has_a_key_and_a_value() {
    for (text, reason) in [("cores", "KEY=VALUE"), ("cores= ", "no value"), ("=1", "``")] {
        let refusal = Replacement::read(text, "--set").expect_err(text).sentence();
        assert!(refusal.contains(reason), "{text}: {refusal}");
    }
}

#[test]
fn lists_of_words_need_no_quotes() {
    let source = replaced(&[("seed", "[os, [a,'b,c'], 3]")]);
    let list = source.parse().expect("correct").take("seed").expect("there");
    let elements = list.array("an array").expect("an array");
    assert_eq!(elements[0].string(), Ok("os"));
    let inner = elements[1].array("an array").expect("an array");
    assert_eq!((inner[0].string(), inner[1].string()), (Ok("a"), Ok("b,c")));
    assert_eq!(elements[2].integer(), Ok(3));
    assert_eq!(values("1,[a,b],\"c,d\","), ["1", "[a,b]", "\"c,d\"", ""]);
    // Three values: a string with a quote and a comma, one that ends in a backslash, and a word.
    let escapes = [r#""a\",b""#, r#""\\""#, "c"];
    assert_eq!(values(&escapes.join(",")), escapes);
    assert_eq!(values(r"'a\',b"), [r"'a\'", "b"]);
}

#[test]
fn values_reach_into_tables_and_arrays() {
    let source = replaced(&[("machine.cores", "8"), ("tasks[0].work", "3"), ("a.b.c", "1")]);
    let mut root = source.parse().expect("correct");
    let mut machine = root.take("machine").expect("there").section().expect("a table");
    assert_eq!(machine.take("cores").expect("there").integer(), Ok(8));
    let mut tasks = root.take("tasks").expect("there").sections().expect("tables");
    assert_eq!(tasks[0].take("work").expect("there").number(), Ok(3.0));
    assert_eq!(tasks[0].take("name").expect("there").string(), Ok("a"));
    let mut a = root.take("a").expect("made").section().expect("a table");
    assert!(a.take("b").expect("made").is_table());
}

#[test]
fn refusals_name_the_file_or_the_option() {
    let source = replaced(&[("seed", "7"), ("machine.cores", "x"), ("machine.memry", "1")]);
    let mut root = source.parse().expect("correct");
    let mut machine = root.take("machine").expect("there").section().expect("a table");
    assert_eq!(
        machine.take("cores").expect("there").integer().expect_err("a string").to_string(),
        "--set machine.cores=x: machine.cores: must be a whole number, not a string"
    );
    assert_eq!(
        machine.only(&["memory"]).expect_err("unknown").to_string(),
        "--set machine.memry=1: machine.memry: unknown key\n  help: did you mean `memory`?"
    );
    let tasks = root.take("tasks").expect("there").sections().expect("tables");
    assert_eq!(tasks[0].refuse("bad").to_string(), "x.toml:4: tasks[0]: bad");
}

#[test]
fn a_value_of_several_lines_belongs_to_one_option() {
    let source = replaced(&[("name", "a\n\nb"), ("seed", "x")]);
    assert_eq!(value_of(&source, "name"), "a\n\nb");
    let seed = source.parse().expect("correct").take("seed").expect("there");
    let refused = seed.integer().expect_err("a string").to_string();
    assert_eq!(refused, "--set seed=x: seed: must be a whole number, not a string");
    let empty = Document { name: "x.toml", text: "" };
    let source = Replaced::new(empty, &source.replacements);
    let missing = source.parse().expect("correct").require("cores").expect_err("missing");
    assert_eq!(missing.to_string(), "x.toml:1: `cores` is missing");
}

#[test]
fn what_is_left_below_a_key_goes_to_another_file() {
    let at = |path: &str| Replacement::new(path.parse().expect("a path"), "1", "--set");
    let below = |path: &str| at(path).below("machine").map(|left| left.path.to_string());
    assert_eq!(below("machine.nodes[0].cores").as_deref(), Some("nodes[0].cores"));
    assert_eq!((below("machine"), below("cores")), (None, None));
}

#[test]
fn places_that_cannot_be_are_refused() {
    for (path, said) in [
        ("seed.x", "seed: is an integer in the file and has no key `x`"),
        (
            "tasks[1].work",
            "tasks: has 1 element, counted from 0; none is [1]\n  help: the nearest key is \
             `tasks[0].work`",
        ),
        (
            "tasks.0.work",
            "tasks: is an array in the file and has no key `0`\n  help: the nearest key is \
             `tasks[0].work`",
        ),
        (
            "tasks.work",
            "tasks: is an array in the file and has no key `work`\n  help: the nearest key is \
             `tasks[0].work`",
        ),
        ("machine[0]", "machine: is a table in the file and has no element [0]"),
    ] {
        let refused = replaced(&[(path, "1")]).parse().expect_err("refused").to_string();
        assert_eq!(refused, format!("--set {path}=1: {said}"));
    }
    for path in ["", ".", "a.", "a[", "a[x]", "a[1", "a]b", "a b", "[0]", "a[0]x"] {
        assert!(path.parse::<KeyPath>().is_err(), "{path}");
    }
    assert_eq!("a.b[3][1].c-d".parse::<KeyPath>().expect("a path").to_string(), "a.b[3][1].c-d");
}

#[test]
fn the_files_own_errors_stay_its_own() {
    let path: KeyPath = "seed".parse().expect("a path");
    let broken = Document { name: "x.toml", text: "seed = 1\nname = \"\"\"open" };
    let replaced = Replaced::new(broken, &[Replacement::new(path, "2", "--set")]);
    assert_eq!(replaced.parse().expect_err("refused").line, Some(2));
}

proptest! {
    #[test]
    fn no_replacement_is_too_odd(path in "[a-c.\\[\\]0-9]{0,8}", value in "\\PC{0,30}|[\\[\\]{}\"'=#\n,1a]{0,12}") {
        if let Ok(path) = path.parse::<KeyPath>() {
            prop_assert_eq!(path.to_string().parse::<KeyPath>().expect("read back"), path.clone());
            let source = Replaced::new(SOURCE, &[Replacement::new(path, &value, "--set")]);
            if let Err(error) = source.parse() {
                prop_assert_eq!(error.source_name, "--set");
            }
        }
    }
}

#[test]
fn anything_but_a_bracket_behind_a_place_is_refused() {
    for text in ["tasks[0]s", "tasks[0]Ωs", "tasks[0", "tasks]"] {
        let refusal = text.parse::<KeyPath>().unwrap_err();
        assert!(refusal.to_string().contains("names no key"), "{refusal}");
    }
}
