//! `--kernel`: the settings for kernels with our patches, and the refusals of others. The commands
//! are seen at work in the guests of `kernel/test`.

use crate::support::{World, json, refusal};

const MAP: &str = r#"
name = "two colors"
bits = 33
function = [{ role = "bank", bits = [14, 18] }]
"#;

#[test]
fn a_kernel_is_told_masks() {
    let world = World::new();
    world.file("map.toml", MAP);
    let told =
        json(world.memweir().args(["map", "kernel", "map.toml", "--cache", "1M:16", "--json"]), 0);
    let lines: Vec<&str> =
        told["lines"].as_array().unwrap().iter().filter_map(|l| l.as_str()).collect();
    // 1,024 sets of 64 bytes: bits 6 to 15, of which four lie above a page.
    let expected = [
        "offset 0x0",
        "bank 0x44000",
        "cache 0x1000",
        "cache 0x2000",
        "cache 0x4000",
        "cache 0x8000",
    ];
    assert_eq!(lines, expected);
    assert_eq!(told["loaded"], false);
}

#[test]
fn maps_that_kernels_cannot_take_are_refused() {
    let world = World::new();
    world.file("odd.toml", &MAP.replace("bits = 33", "bits = 33\noffset = 0x1000"));
    let wrong = refusal(world.memweir().args(["map", "kernel", "odd.toml"]), 2);
    assert!(wrong.contains("multiple of 4 MiB") && wrong.contains("odd.toml"), "{wrong}");
    world.file("one.toml", &MAP.replace("[14, 18]", "[7, 18]"));
    let wrong = refusal(world.memweir().args(["map", "kernel", "one.toml"]), 2);
    assert!(wrong.contains("one color only"), "{wrong}");
}

#[test]
fn kernels_without_page_colors_say_so() {
    if std::path::Path::new("/sys/kernel/mm/page_color/map").exists() {
        return memweir_test_support::skip!(Present, "this kernel colors pages");
    }
    let world = World::new();
    world.file("map.toml", MAP);
    for arguments in [
        &["map", "kernel", "map.toml", "--load"][..],
        &["color", "run", "--kernel", "--map", "map.toml", "--colors", "0", "--", "true"],
    ] {
        let wrong = refusal(world.memweir().args(arguments), 3);
        assert!(wrong.contains("kernel/bank-color"), "{arguments:?}: {wrong}");
    }
    let run = |how: &'static [&'static str]| {
        let mut command = world.memweir();
        command
            .args(["color", "run", "--map", "map.toml", "--colors", "0"])
            .args(how)
            .args(["--", "true"]);
        refusal(&mut command, 2)
    };
    let waits = run(&["--kernel", "--on-shortage", "wait"]);
    assert!(waits.contains("`refuse`, `spill` or `reclaim`"), "{waits}");
    let reclaims = run(&["--on-shortage", "reclaim"]);
    assert!(reclaims.contains("--kernel"), "{reclaims}");
    assert!(run(&["--kernel", "--pool", "2M"]).contains("cannot be used with"));
}

#[test]
fn kernels_that_copy_from_swap_say_so() {
    let vmstat = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    if vmstat.contains("swpin_direct") {
        return memweir_test_support::skip!(Present, "this kernel reads swap in place");
    }
    let world = World::new();
    let run = |how: &'static [&'static str], code| {
        let mut command = world.memweir();
        command.args(["page", "run", "--dram", "64M"]).args(how).args(["--", "true"]);
        refusal(&mut command, code)
    };
    assert!(run(&["--kernel"], 3).contains("kernel/direct-read-swap"));
    assert!(run(&["--kernel", "--nvm", "memfd:1G"], 2).contains("cannot be used with"));
    assert!(run(&["--kernel", "--victims", "clock"], 2).contains("cannot be used with"));
    assert!(run(&["--swap", "/dev/null"], 2).contains("--kernel"));
    assert!(run(&[], 2).contains("--nvm"));
    let copies = run(&["--kernel", "--no-direct-read", "--swap", "/dev/null"], 3);
    assert!(copies.contains("/dev/null"), "{copies}");
}
