//! `memweir map detect`: on simulated machines with published maps, and here.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{World, refusal, stdout_of};

fn published() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../map/data/published_maps.json")
}

fn detect(world: &World, entry: &str, more: &[&str]) -> (Option<i32>, Value) {
    let oracle = format!("map:{}#{entry}", published().display());
    let mut command = world.memweir();
    command.args(["map", "detect", "--json", "-", "--oracle", &oracle]).args(more);
    let output = command.output().expect("memweir runs");
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[test]
fn the_map_of_a_simulated_machine_is_found_and_can_be_used() {
    let world = World::new();
    let map = world.path().join("map.toml");
    let output = map.to_str().expect("a path of text");
    let (code, found) = detect(&world, "bpm-i7-860", &["--noise", "vm", "--output", output]);
    assert_eq!(code, Some(0), "{found}");
    assert_eq!(found["verdict"], "found");
    assert_eq!(found["functions"], json!([[13], [14], [15], [21], [22]]));
    assert_eq!(found["banks"], 32);
    assert_eq!(found["colors"]["4096"], 32);
    assert_eq!(found["reason"], Value::Null);
    assert!(found["precision"].as_f64() > Some(0.98) && found["recall"].as_f64() > Some(0.9));
    assert!(found["measurements"].as_u64() > Some(10_000) && found["seconds"].as_f64() > Some(0.1));
    let again = stdout_of(world.memweir().args(["map", "show", output]), 0);
    assert!(again.contains("32 over all channels"), "{again}");
}

#[test]
fn algorithm_1_finds_what_it_assumes_and_is_refused_elsewhere() {
    let world = World::new();
    let bpm = ["--algorithm", "bpm", "--noise", "quiet"];
    let (code, found) = detect(&world, "palloc-e3-1230", &bpm);
    assert_eq!((code, &found["verdict"]), (Some(0), &"found".into()), "{found}");
    let map = world.path().join("none.toml");
    let output = ["--output", map.to_str().expect("a path of text")];
    let (code, refused) = detect(&world, "dramapp-9900x", &[bpm.as_slice(), &output].concat());
    assert_eq!((code, &refused["verdict"]), (Some(1), &"refused".into()), "{refused}");
    assert_eq!(refused["functions"], json!([]));
    assert!(refused["reason"].is_string());
    assert!(!map.exists(), "a map that was not found is not written");
}

#[test]
fn wrong_oracles_are_refused_with_a_way_out() {
    let world = World::new();
    let refused =
        |oracle: &str| refusal(world.memweir().args(["map", "detect", "--oracle", oracle]), 2);
    let path = published().display().to_string();
    assert!(refused(&format!("map:{path}")).contains("one of: zenhammer"));
    assert!(refused(&format!("map:{path}#bpm-i7-680")).contains("did you mean `bpm-i7-860`"));
    assert!(refused("map:/nonexistent.toml").contains("No such file"));
    assert!(refused("map").contains("map:FILE"));
    let broken = world.file("broken.json", "{\"entries\": [{\"id\": \"x\"}]}");
    assert!(refused(&format!("map:{}", broken.display())).contains("broken.json:1"));
}

/// A virtual machine has no map of its own; whatever is printed must be verified, or refused.
#[test]
fn live_memory_ends_with_a_verdict_within_its_budget() {
    let world = World::new();
    let pool = || std::fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap_or_default();
    let before = pool();
    let mut command = world.memweir();
    let output = command.args(["map", "detect", "--budget", "5s", "--json"]).output();
    let output = output.expect("memweir runs");
    let verdict: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let said = String::from_utf8_lossy(&output.stderr).contains("this is a virtual machine");
    let virtual_machine = memweir_linux::topology::is_virtual();
    assert_eq!(said, virtual_machine && output.status.code() == Some(1), "{output:?}");
    match output.status.code() {
        Some(0) => assert!(verdict["precision"].as_f64() > Some(0.98), "{verdict}"),
        Some(1 | 3) => assert!(verdict["reason"].is_string(), "{verdict}"),
        code => panic!("{code:?}: {verdict}"),
    }
    assert_eq!(pool(), before, "the pool of huge pages is put back");
    let spent = verdict["reason"].as_str().is_some_and(|reason| reason.contains("budget"));
    assert!(!spent || verdict["measurements"].as_u64() > Some(0), "spent on memory: {verdict}");
}
