//! `memweir page energy`: the figures of the paper and of one's own numbers.

use crate::support::{World, json, refusal};

#[test]
fn the_mended_equations_give_the_claims_of_the_paper() {
    let world = World::new();
    let mut energy = world.memweir();
    let report = json(energy.args(["page", "energy", "--reading", "mended", "--json", "-"]), 0);
    let areas = report["areas"].as_array().expect("an array");
    assert_eq!(areas.len(), 3);
    for area in areas {
        let number = |key: &str| area[key].as_f64().expect("a number");
        assert!(number("less_percent") > number("paper_percent"), "{area}");
    }
    assert_eq!(report["break_even_lines"].as_f64().expect("a number").round(), 73.0);
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
