//! `memweir map`: showing, decoding and importing address maps; `memweir color plan`: assigning the
//! colors of one to jobs.

use crate::support::{World, refusal, stderr_of, stdout_of};

const I7_860: &str = r#"
name = "Core i7-860"
bits = 33
function = [
    { role = "bank", bits = [13] }, { role = "bank", bits = [14] }, { role = "bank", bits = [15] },
    { role = "rank", bits = [21] }, { role = "channel", bits = [22] },
]
"#;

fn json(world: &World, arguments: &[&str]) -> serde_json::Value {
    crate::support::json(world.memweir().args(arguments), 0)
}

#[test]
fn a_map_is_shown_with_its_picture_and_its_colors() {
    let world = World::new();
    world.file("i7-860.toml", I7_860);
    let show = ["map", "show", "i7-860.toml"];
    let shown = stdout_of(world.memweir().args(show).args(["--cache", "8M:16"]), 0);
    let picture =
        shown.lines().find(|line| line.starts_with("bank 0")).expect("a row for each function");
    assert_eq!(picture.matches('●').count(), 1, "{picture}");
    assert!(shown.contains("4 KiB"), "{shown}");
    let shown = json(&world, &[&show[..], &["--cache", "8M:16", "--json", "-"]].concat());
    assert_eq!(shown["pages"][0]["colors"], 32);
    assert_eq!(shown["pages"][0]["cache"]["common"], 8);
    assert_eq!(shown["pages"][3]["banks_touched"], 8);
    world.memweir().args(show).args(["--svg", "map.svg"]).assert().success();
    assert!(world.read("map.svg").contains("channel 0"));
}

#[test]
fn addresses_are_decoded_by_role() {
    let world = World::new();
    world.file("i7-860.toml", I7_860);
    let decode = ["map", "decode", "i7-860.toml"];
    let places = json(&world, &[&decode[..], &["0x6000", "4194304", "--json", "-"]].concat());
    assert_eq!(places["memweir"]["arguments"][1], "decode");
    let places = &places["places"];
    assert_eq!((&places[0]["bank"], &places[0]["channel"]), (&3.into(), &0.into()));
    assert_eq!((&places[1]["channel"], &places[1]["color"]), (&1.into(), &16.into()));
    assert!(places[0]["row"].is_null());
    let wrong = refusal(world.memweir().args(decode).arg("6g"), 2);
    assert!(wrong.contains("`6g` is no address"), "{wrong}");
    world.file("hole.toml", &I7_860.replace("bits = 33", "bits = 33\noffset = 0x20000000"));
    let below = refusal(world.memweir().args(["map", "decode", "hole.toml", "4096"]), 2);
    assert!(below.contains("below the map's offset 0x20000000"), "{below}");
    let complete = "name = \"two banks\"\nbits = 9\nfunction = [{ role = \"bank\", bits = [7] }]\n\
                    row = [8]\ncolumn = [0, 1, 2, 3, 4, 5, 6]\n";
    world.file("complete.toml", complete);
    let decode = ["map", "decode", "complete.toml"];
    world.memweir().args(decode).arg("511").assert().success();
    let beyond = refusal(world.memweir().args(decode).arg("512"), 2);
    assert!(beyond.contains("beyond the 9 address bits of the map"), "{beyond}");
}

#[test]
fn what_other_tools_found_becomes_a_map_file() {
    let world = World::new();
    let found = "6 13 (Correct: 95%)\n14 17 (Correct: 100%)\n6 13 14 17 (Correct: 90%)\n";
    world.file("map.txt", found);
    let import = ["map", "import", "map.txt"];
    let named = ["--name", "my machine", "-o", "map.toml"];
    let told = stderr_of(world.memweir().args(import).args(named), 0);
    assert!(told.contains("1 of 3 functions"), "{told}");
    let shown = json(&world, &["map", "show", "map.toml", "--json", "-"]);
    assert_eq!((&shown["name"], &shown["banks"]), (&"my machine".into(), &4.into()));
    let printed = stdout_of(world.memweir().args(import), 0);
    assert_eq!(stdout_of(world.memweir().args(import).args(["-o", "-"]), 0), printed);
    assert!(!world.has("-"), "`-` is standard output");
    world.file("wrong.txt", "6 13\n14 99\n");
    let message = refusal(world.memweir().args(["map", "import", "wrong.txt"]), 2);
    assert!(message.contains("wrong.txt:2: `99` is no address bit"), "{message}");
    let message = refusal(world.memweir().args(import).args(["--format", "dramdg"]), 2);
    assert!(message.contains("did you mean `dramdig`"), "{message}");
}

#[test]
fn maps_that_are_no_maps_are_refused_with_their_line() {
    let world = World::new();
    let refused = |text: &str| {
        world.file("map.toml", text);
        refusal(world.memweir().args(["map", "show", "map.toml"]), 2)
    };
    let beyond = refused(&I7_860.replace("bits = [22]", "bits = [33]"));
    assert!(
        beyond.contains("map.toml:6: function[4].bits[0]: bit 33 is not in the address"),
        "{beyond}"
    );
    let twice = refused(&I7_860.replace("bits = [22]", "bits = [21]"));
    assert!(twice.contains("function 21 is a sum of the functions before it"), "{twice}");
}

#[test]
fn maps_and_caches_of_more_colors_than_any_machine_has_are_refused() {
    let world = World::new();
    let banks = |bits: std::ops::Range<u8>| {
        let functions: String = bits.map(|bit| format!("{{ bits = [{bit}] }}, ")).collect();
        format!("name = \"a\"\nbits = 60\nfunction = [{functions}]\n")
    };
    world.file("most.toml", &banks(12..28));
    let shown = json(&world, &["map", "show", "most.toml", "--json", "-"]);
    assert_eq!(shown["pages"][0]["colors"], 65_536);
    for (name, bits) in [("more.toml", 12..29), ("panic.toml", 12..48)] {
        world.file(name, &banks(bits));
        let refused = refusal(world.memweir().args(["map", "show", name]), 2);
        assert!(refused.contains("functions of banks"), "{refused}");
    }
    let lines: String = (12..48).map(|bit| format!("{bit}\n")).collect();
    world.file("lines.txt", &lines);
    let refused = refusal(world.memweir().args(["map", "import", "lines.txt"]), 2);
    assert!(refused.contains("lines.txt: 36 functions of banks"), "{refused}");
    let show = ["map", "show", "most.toml", "--cache", "1P:1"];
    let refused = refusal(world.memweir().args(show), 2);
    assert!(refused.contains("more than 4 GiB"), "{refused}");
}

#[test]
fn colors_are_assigned_to_the_jobs_of_a_file() {
    let world = World::new();
    let map = world.file("i7-860.toml", I7_860);
    let job = |more: &str| format!("[[jobs]]\ncommand = [\"true\"]\n{more}\n");
    let jobs = world.file("jobs.toml", &[job(""), job("colors = \"0-1\""), job("")].concat());
    let plan = |more: &[&str]| {
        let mut plan = world.memweir();
        plan.args(["color", "plan"]).arg(&jobs).arg("--map").arg(&map).args(more);
        plan
    };
    let planned = crate::support::json(plan(&[]).args(["--json", "-"]), 0);
    let colors: Vec<&str> =
        (0..3).map(|job| planned["jobs"][job]["colors"].as_str().expect("text")).collect();
    assert_eq!(colors, ["2-16", "0-1", "17-31"]);
    let unknown = refusal(&mut plan(&["--policy", "unifrm"]), 2);
    assert!(unknown.contains("did you mean `uniform`"), "{unknown}");
    world.file("jobs.toml", &job("colors = \"0-99\""));
    let beyond = refusal(&mut plan(&[]), 2);
    assert!(beyond.contains("color 32 is outside the map"), "{beyond}");
    world.file("jobs.toml", &job("colors = \"3-1\""));
    let backwards = refusal(&mut plan(&[]), 2);
    assert!(backwards.contains("jobs.toml:3: jobs[0].colors: `3-1` is no color"), "{backwards}");
}
