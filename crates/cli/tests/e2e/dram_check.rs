//! `memweir dram check` from outside: command traces in, verdicts out.

use assert_cmd::Command;
use serde_json::Value;

use crate::support::{World, json, refusal, stdout_of};

fn check(world: &World, arguments: &[&str]) -> Command {
    let mut command = world.memweir();
    command.args(["dram", "check"]).args(arguments);
    command
}

#[test]
fn the_commands_of_a_replay_keep_the_rules_and_a_hurried_one_does_not() {
    let world = World::new();
    let lines = |i: u64| format!("{} {:#x}\n", if i % 4 == 3 { "ST" } else { "LD" }, i * 4160);
    world.file("t.txt", &(0..5_000).map(lines).collect::<String>());
    for (memory, options) in [("ddr4-2400", vec![]), ("lpddr2-1066", vec!["--refresh", "per-bank"])]
    {
        let memory = ["--memory", memory];
        let replay = ["dram", "replay", "t.txt", "--commands", "c.txt", "--json", "r.json"];
        world.memweir().args(replay).args(memory).args(&options).assert().success();
        let told = stdout_of(check(&world, &["c.txt"]).args(memory).args(&options), 0);
        assert!(told.contains("keep all rules"), "{told}");
    }
    let commands = world.read("c.txt");
    // A read that comes a cycle after the row was opened.
    let row = commands.lines().position(|line| line.contains(" activate ")).expect("a row");
    let mut lines: Vec<String> = commands.lines().map(str::to_owned).collect();
    let words: Vec<&str> = commands.lines().nth(row).expect("it is there").split(' ').collect();
    let at: u64 = words[0].parse().expect("a cycle");
    lines.insert(row + 1, format!("{} read {} 0", at + 1, words[2..7].join(" ")));
    world.file("c.txt", &(lines.join("\n") + "\n"));
    let arguments = ["c.txt", "--memory", "lpddr2-1066", "--json", "--show", "3"];
    let report = json(&mut check(&world, &arguments), 1);
    assert_eq!(report["by_rule"]["tRCD"], 1, "{report}");
    let first = &report["first"][0];
    assert_eq!((&first["rule"], &first["required_cycles"]), (&"tRCD".into(), &10.into()));
    assert_eq!((&first["actual_cycles"], &first["after"]["name"]), (&1.into(), &"activate".into()));
    let counted: u64 =
        report["by_rule"].as_object().expect("rules").values().filter_map(Value::as_u64).sum();
    assert_eq!(report["violations"], counted, "{report}");
}

#[test]
fn a_violation_is_told_with_both_commands_and_the_distance() {
    let world = World::new();
    world.file(
        "c.txt",
        "# by hand\n0 activate 0 0 0 0 7 0\n16 read 0 0 0 0 7 0\n20 activate 0 0 9 0 7 0\n",
    );
    let told = stdout_of(&mut check(&world, &["c.txt", "--memory", "ddr4-2400"]), 1);
    assert!(told.starts_with("2 violations in 3 commands up to cycle 20"), "{told}");
    assert!(told.contains("tRCD: 16 cycles after activate of channel 0 rank 0"), "{told}");
    assert!(told.contains("groups 0 to 3"), "{told}");
    let mut piped = check(&world, &["-", "--memory", "ddr4-2400"]);
    let told = stdout_of(piped.write_stdin("0 activate 0 0 0 0 7 0\n17 read 0 0 0 0 7 0\n"), 0);
    assert!(told.starts_with("2 commands"), "{told}");
}

#[test]
fn what_is_no_command_trace_is_refused_with_line_and_field() {
    let world = World::new();
    for (content, arguments, needle) in [
        (
            "1 activate 0 0 0 0 0 0\nx read 0 0 0 0 0 0\n",
            vec![],
            "c.txt:2: cycle: `x` is no number",
        ),
        ("1 activat 0 0 0 0 0 0\n", vec![], "`activate`"),
        ("1 activate 0 0 0\n", vec![], "c.txt:1: bank: is missing"),
        ("# nothing\n", vec![], "the trace has no commands"),
        ("9 activate 0 0 0 0 0 0\n", vec!["--end", "5"], "the trace goes on to cycle 9"),
        ("9 activate 0 0 0 0 0 0\n", vec!["--ranks", "3"], "1, 2, 4, 8 or 16"),
        ("9 activate 0 0 0 0 0 0\n", vec!["--ranks", "0"], "0 ranks"),
        ("9 activate 0 0 0 0 0 0\n", vec!["--ranks", "4294967295"], "1, 2, 4, 8 or 16"),
        ("9 activate 0 0 0 0 0 0\n", vec!["--show", "1000"], "100"),
        ("\u{0}\u{1}\n", vec![], "c.txt:1"),
    ] {
        world.file("c.txt", content);
        let mut wrong = check(&world, &["c.txt", "--memory", "ddr4-2400"]);
        let told = refusal(wrong.args(&arguments), 2);
        assert!(told.contains(needle), "{content:?}: {told}");
    }
    let told = refusal(&mut check(&world, &["no.txt", "--memory", "ddr4-2400"]), 2);
    assert!(told.contains("no.txt"), "{told}");
    // An idle memory whose refreshes never come: nine intervals are the most.
    world.file("c.txt", "");
    let idle = || check(&world, &["c.txt", "--memory", "ddr4-2400"]);
    stdout_of(idle().args(["--end", "84240"]), 0);
    let told = stdout_of(idle().args(["--end", "84241"]), 1);
    assert!(told.contains("tREFI") && told.contains("and 6 more"), "{told}");
    stdout_of(idle().args(["--end", "84241", "--refresh", "off"]), 0);
}
