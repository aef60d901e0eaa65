//! Shortage of pages of the requested colors: by a limit, and because there are none.

use assert_cmd::Command;
use serde_json::Value;

use super::{compile, deliveries, exists, mapped, placing, possible};
use crate::support::{MEMWEIR, SmallGroup, World, refusal, root};

/// `memweir color run` with these arguments, and its report.
fn run(world: &World, command: &mut Command) -> (std::process::Output, Value) {
    let output = command.output().unwrap();
    let report = serde_json::from_str(&world.read("run.json"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, report.unwrap_or_else(|e| panic!("{e}: {said}")))
}

fn count(report: &Value, counter: &str) -> u64 {
    report["counters"][counter].as_u64().unwrap_or_else(|| panic!("{counter}: {report}"))
}

/// Returns true if SIGBUS ended the program itself, or one that a shell had started for it.
fn ended_by_sigbus(report: &Value) -> bool {
    report["signal"] == 7 || report["exit_code"] == 128 + 7
}

#[test]
fn at_the_limit_pages_spill_or_are_refused() {
    if !(possible() && exists("python3")) {
        return;
    }
    deliveries().into_iter().for_each(spill_or_refused);
}

fn spill_or_refused(way: &str) {
    let world = mapped();
    let fill = "x = bytearray(b'1') * (64 << 20); print(len(x))";
    let run = |how: &str| {
        let options = ["--limit", "16M", "--on-shortage", how, "--json", "run.json"];
        let mut command = world.memweir();
        command.args(["color", "run", "--map", "map.toml", "--colors", "0-3"]).args(options);
        command.args(["--delivery", way]);
        run(&world, command.args(["--", "python3", "-c", fill]))
    };
    let (output, report) = run("spill");
    assert_eq!(output.stdout, b"67108864\n");
    assert!(count(&report, "spilled") > 1000, "{report}");
    let (output, report) = run("refuse");
    assert_eq!(output.status.code(), Some(128 + 7));
    assert!(ended_by_sigbus(&report), "{report}");
    assert!(count(&report, "refused") > 0, "{report}");
}

#[test]
fn who_waits_goes_on_when_others_give_memory_back() {
    let Some(world) = placing(&[]) else { return };
    let Some(program) = compile(&world, include_str!("waits.c"), "waits", &["-pthread"]) else {
        return;
    };
    let mut command = world.memweir();
    command.args(["color", "run", "--map", "map.toml", "--colors", "0-7", "--json", "run.json"]);
    let options = ["--limit", "64M", "--on-shortage", "wait", "--", &program];
    let (output, report) = run(&world, command.args(options));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "stood still: 1\nfilled: 1\n",
        "{said} {report}"
    );
    assert!(count(&report, "waited") > 0 && count(&report, "wait_us") > 1_000_000, "{report}");
    assert_eq!((count(&report, "spilled"), count(&report, "refused")), (0, 0), "{report}");
}

#[test]
fn in_a_small_group_the_search_leaves_room_and_shortage_is_real() {
    if !(possible() && exists("python3")) {
        return;
    }
    let Some(group) = SmallGroup::of_memory(256 << 20) else { return };
    let world = mapped();
    let enter = format!("echo $$ > {}; exec \"$@\"", group.entrance().display());
    let fill = "x = bytearray(b'1') * (100 << 20); print(len(x))";
    let run = |how: &str| {
        let mut command = Command::new("sh");
        command.current_dir(world.path()).timeout(std::time::Duration::from_secs(120));
        command.args(["-c", &enter, "sh", MEMWEIR, "color", "run", "--map", "map.toml"]);
        command.args(["--colors", "0-1", "--on-shortage", how, "--json", "run.json"]);
        run(&world, command.args(["--", "python3", "-c", fill]))
    };
    // The whole group would be ended (signal 9) if the search took its memory.
    let (output, report) = run("spill");
    assert_eq!(output.stdout, b"104857600\n", "{report}");
    assert!(count(&report, "spilled") > 1000 && count(&report, "placed") > 100, "{report}");
    let (_, report) = run("refuse");
    assert!(ended_by_sigbus(&report), "{report}");
    assert!(count(&report, "refused") > 0 && count(&report, "spilled") == 0, "{report}");
}

#[test]
fn without_the_capability_nothing_starts() {
    if !(root("dropping a capability") && exists("setpriv")) {
        return;
    }
    let world = mapped();
    let refused = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.current_dir(world.path());
        command.args(["--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", MEMWEIR]);
        let said = refusal(command.args(arguments), 3);
        assert!(said.contains("CAP_SYS_ADMIN") && said.contains("run as root"), "{said}");
    };
    refused(&["color", "run", "--map", "map.toml", "--colors", "0", "--", "touch", "started"]);
    assert!(!world.has("started"));
    let own = std::process::id().to_string();
    refused(&["color", "audit", "--map", "map.toml", &own]);
}
