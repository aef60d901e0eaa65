//! `memweir page energy`: the figures of the paper and of one's own numbers.

use crate::support::{World, json, refusal, result, stdout_of};

#[test]
fn the_mended_equations_give_the_claims_of_the_paper() {
    let world = World::new();
    let energy = ["page", "energy", "--reading", "mended", "--json", "-"];
    let report = json(world.memweir().args(energy), 0);
    let areas = report["areas"].as_array().expect("an array");
    assert_eq!(areas.len(), 3);
    for area in areas {
        let number = |key: &str| area[key].as_f64().expect("a number");
        assert!(number("less_percent") > number("paper_percent"), "{area}");
    }
    assert_eq!(report["break_even_lines"].as_f64().expect("a number").round(), 73.0);
}

#[test]
fn the_claims_of_the_paper_stand_beside_its_own_inputs_alone() {
    let world = World::new();
    let claims = |more: &[&str]| {
        let energy = ["page", "energy", "--json", "-"];
        let report = json(world.memweir().args(energy).args(more), 0);
        let areas = report["areas"].as_array().expect("an array");
        areas.iter().filter(|area| !area["paper_percent"].is_null()).count()
    };
    assert_eq!(claims(&[]), 3);
    assert_eq!(claims(&["--swap", "256M", "--swap-ins", "20000"]), 0);
    assert_eq!(claims(&["--duration", "10m"]), 0);
    assert_eq!(claims(&["--lines-in-place", "5"]), 0);
    let own = ["page", "energy", "--swap", "256M", "--swap-ins", "20000"];
    assert!(!stdout_of(world.memweir().args(own), 0).contains("paper"));
}

#[test]
fn reading_in_place_in_memory_as_cheap_as_dram_has_no_break_even() {
    let world = World::new();
    let alike = ["page", "energy", "--nvm", "lpddr2-dram"];
    let text = stdout_of(world.memweir().args(alike), 0);
    assert!(text.contains("never costs more than a copy") && !text.contains("inf"), "{text}");
    let report = json(world.memweir().args(alike).args(["--json", "-"]), 0);
    assert!(report["break_even_lines"].is_null(), "{report}");
}

#[test]
fn wrong_numbers_are_refused() {
    let world = World::new();
    let refused = |more: &[&str]| refusal(world.memweir().args(["page", "energy"]).args(more), 2);
    let more = refused(&["--swap", "1G", "--swap-ins", "10", "--copies-in", "11"]);
    assert!(more.contains("--copies-in: 11 copies of 10 swap-ins"), "{more}");
    assert!(refused(&["--reading", "mend"]).contains("did you mean `mended`"));
    assert!(refused(&["--nvm", "emmc-flash"]).contains("is flash"));
    let file =
        world.file("pcm.toml", "name = \"x\"\nkind = \"memory\"\nsource = \"y\"\ndie_mb = 0\n");
    let wrong = refused(&["--nvm", file.to_str().expect("a path of text")]);
    assert!(wrong.contains("pcm.toml"), "{wrong}");
}

/// A scenario that is simulated in a moment.
const SMALL: &str = "swaps = [\"dram\", \"flash\", \"nvm-copy\", \"nvm\"]\ndram_mib = 96\nswap_mib = 128\n\
                     group = \"news\"\n[assumed]\nreferences = 20000\n";

#[test]
fn applications_take_turns_on_every_swap_area() {
    let world = World::new();
    world.file("phone.toml", SMALL);
    let sim = ["page", "sim", "phone.toml", "--json", "-", "--threads", "2"];
    let report = json(world.memweir().args(sim), 0);
    let swaps = report["points"][0]["swaps"].as_array().expect("an array");
    let number = |swap: usize, key: &str| swaps[swap]["mean"][key].as_f64().expect("a number");
    assert_eq!(swaps.len(), 4);
    // Three kinds copy the same pages; direct read copies fewer and maps others.
    for swap in [1, 2] {
        assert_eq!(number(swap, "copies_in"), number(0, "copies_in"));
        assert_eq!(number(swap, "direct_reads"), 0.0);
    }
    assert!(number(3, "copies_in") < number(2, "copies_in"));
    assert_eq!(number(3, "direct_reads") - number(3, "upgrades"), number(3, "copies_avoided"));
    assert!(number(3, "copies_avoided") > 0.0);
    // Flash alone does block I/O for swapping, and is slowest.
    assert!(number(1, "block_io") > number(0, "block_io"));
    assert!(number(1, "switch_paging_ms") > number(0, "switch_paging_ms"));
    assert_eq!(swaps[0]["runs"][0]["by_app"][1]["app"], "Flipboard");
}

#[test]
fn a_scenario_is_swept_and_the_same_on_any_number_of_threads() {
    let world = World::new();
    world.file("phone.toml", SMALL);
    let run = |threads: &str| {
        let sim = ["page", "sim", "phone.toml", "--json", "--threads", threads];
        let sweep = ["--sweep", "policy=fifo,clock,scan", "--sweep", "swap_mib=0,128"];
        let files = ["--out", "rows.csv", "--svg", "lines.svg"];
        result(world.memweir().args(sim).args(sweep).args(files), 0)
    };
    let report = run("1");
    let points = report["points"].as_array().expect("an array");
    assert_eq!(points.len(), 6);
    assert_eq!(
        (&points[5]["at"]["policy"], &points[5]["policy"]),
        (&"scan".into(), &"scan".into())
    );
    let rows = world.read("rows.csv");
    let runs: usize = points.iter().map(|p| p["swaps"][0]["runs"].as_array().unwrap().len()).sum();
    let swaps = points[0]["swaps"].as_array().expect("an array").len();
    assert_eq!(rows.lines().count(), 1 + runs * swaps);
    assert!(rows.starts_with("policy,swap_mib,swap,repetition,"), "{rows}");
    let figure = world.read("lines.svg");
    assert!(figure.contains("swap_mib = 128") && figure.contains("processes killed"));
    // Without a swap area processes are killed.
    assert!(points[0]["swaps"][0]["mean"]["killed"].as_f64() > Some(0.0));
    assert_eq!(report, run("3"));
}

#[test]
fn the_example_and_the_list_can_be_used() {
    let world = World::new();
    let printed = |args: &[&str]| stdout_of(world.memweir().args(["page", "sim"]).args(args), 0);
    world.file("phone.toml", &printed(&["--example"]));
    let few = ["--set", "repetitions=1", "--set", "assumed.references=20000"];
    let text = printed(&[&["phone.toml", "--svg", "bars.svg"][..], &few[..]].concat());
    let figure = world.read("bars.svg");
    assert!(figure.contains("read in place, never written"), "{figure}");
    assert!(text.contains("nvm-copy") && text.contains("were not written afterwards"), "{text}");
    let list = printed(&["--list"]);
    for name in ["fifo", "mix2", "Angry Birds", "nvm-copy"] {
        assert!(list.contains(name), "{name} is missing in {list}");
    }
}

#[test]
fn wrong_scenarios_are_refused() {
    let world = World::new();
    world.file("phone.toml", &SMALL.replace("news", "nesw"));
    let refused =
        |more: &[&str]| refusal(world.memweir().args(["page", "sim", "phone.toml"]).args(more), 2);
    let message = refused(&[]);
    assert!(message.contains("phone.toml:4: group: unknown group `nesw`"), "{message}");
    assert!(message.contains("did you mean `news`?"), "{message}");
    let message = refused(&["--set", "group=news", "--set", "dram_mib=8", "--set", "swap_mib=0"]);
    assert!(message.contains("would be killed in the foreground"), "{message}");
}

#[test]
fn what_a_program_did_to_its_pages_is_simulated() {
    let world = World::new();
    // Three pages, the second of which is written: its line goes back later.
    let lines = "0x1000 R\n0x2000 W\n0x3000 R\n0x1000 R\n";
    world.file("program.txt", lines);
    let refs = ["page", "refs", "program.txt", "program.mwt", "--json", "-"];
    let sums = json(world.memweir().args(refs), 0);
    assert_eq!((&sums["pages"], &sums["written_pages"]), (&3.into(), &1.into()));
    world
        .file("program.toml", "swaps = \"nvm\"\ndram_mib = 1\n[[apps]]\ntrace = \"program.mwt\"\n");
    let report = json(world.memweir().args(["page", "sim", "program.toml", "--json"]), 0);
    let point = &report["points"][0];
    assert_eq!((&point["apps"][0], &point["footprint"]), (&"program".into(), &12288.into()));
}
