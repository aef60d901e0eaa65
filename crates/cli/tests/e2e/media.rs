//! Batches on machines with several memory media, and records of what their scheduler decided.

use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{
    EMULATOR, SPIN, World, both_of, exists, json, refusal, send, stdout_of, wait_until,
};

/// Reads, or with a third argument writes, one word of every line of 8 MiB, as often as its first
/// argument says.
const STREAM: &str = r"
#include <stdlib.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
    size_t size = 8 << 20;
    volatile long *a = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long sum = 0;
    for (long t = 0; t < atol(argv[1]); t++)
        for (size_t i = 0; i < size / 8; i += 8)
            if (argc > 2) a[i] = t; else sum += a[i];
    return 0;
}
";

/// Lines of that array.
const LINES: u64 = 8 << 14;

/// A last level of 1 MiB, into which the array does not fit.
const CACHES: &str = "l1d = { size = 32768, ways = 8, line = 64 }
l2 = { size = 262144, ways = 8, line = 64 }
llc = { size = 1048576, ways = 16, line = 64 }
";

fn world_with_stream() -> World {
    let world = World::new();
    let source = world.file("stream.c", STREAM);
    let mut compiler = Command::new("cc");
    compiler.arg("-O1").arg("-o").arg(world.path().join("stream")).arg(source);
    assert!(compiler.status().expect("cc is needed to build Rust programs too").success());
    world.file("caches.toml", CACHES);
    world
}

/// Four streams and a job that computes, with the placements of the streams.
fn placed_jobs() -> String {
    let stream = |name: &str, arguments: &str, placement: &str| {
        format!(
            "[[jobs]]\nname = \"{name}\"\ncommand = [\"./stream\", {arguments}]\n\
             placement = \"{placement}\"\n"
        )
    };
    let jobs = [
        stream("in-dram", "\"20\"", "dram"),
        stream("in-pram", "\"20\"", "pram"),
        stream("half", "\"20\", \"write\"", "pram=50%"),
        stream("hot", "\"20\"", "hot=4MiB,every=50000"),
        format!("[[jobs]]\nname = \"spin\"\ncommand = [\"sh\", \"-c\", \"{SPIN}\"]\n"),
    ];
    "policy = \"hmmsched\"\nmeter = \"software\"\nmedia = \"pram\"\nquantum_ms = 20\n".to_owned()
        + &jobs.concat()
}

/// Reads and writes of one medium by name.
fn lines_of(media: &Value, name: &str) -> (u64, u64) {
    let of = |medium: &Value| {
        let lines = |short: &str, long: &str| {
            medium[short].as_u64().or(medium[long].as_u64()).expect("a number of lines")
        };
        (lines("reads", "memory_reads"), lines("writes", "memory_writes"))
    };
    let media = media.as_array().expect("media were told apart");
    media.iter().find(|medium| medium["name"] == name).map(of).expect("a medium of this name")
}

#[test]
fn hmmsched_runs_real_programs_on_pram_and_its_record_replays() {
    if !exists(EMULATOR) {
        return;
    }
    let world = world_with_stream();
    let file = world.file("jobs.toml", &placed_jobs());
    let mut run = world.memweir();
    run.args(["run", "--caches", "caches.toml", "--json", "-"]).arg(file);
    let report = json(run.args(["--timeline", "t.csv", "--record", "decisions.jsonl"]), 0);
    assert_eq!((&report["policy"], &report["meter"]), (&"hmmsched".into(), &"software".into()));
    let pram = &report["media"][1];
    assert_eq!((&pram["name"], &pram["kind"]), (&"pram".into(), &"nvm".into()));
    assert_eq!((pram["gamma"].as_f64(), pram["delta"].as_f64()), (Some(2.7), Some(8.6)));

    let jobs = report["jobs"].as_array().expect("jobs");
    let of = |job: usize, medium| lines_of(&jobs[job]["media"], medium);
    // A job may have to write back the lines of another, which go to their own medium.
    assert_eq!((of(0, "pram").0, of(1, "dram").0), (0, 0));
    assert!(of(1, "pram").0 >= 19 * LINES, "{:?}", of(1, "pram"));
    let (reads, writes) = of(2, "pram");
    let share = |part: u64, whole: &str| part as f64 / jobs[2][whole].as_f64().expect("counted");
    assert!((0.4..0.6).contains(&share(reads, "memory_reads")), "{}", jobs[2]);
    assert!((0.4..0.6).contains(&share(writes, "memory_writes")), "{}", jobs[2]);
    assert!(of(3, "dram").0 > 0 && of(3, "pram").0 > 0, "{}", jobs[3]);
    for medium in ["dram", "pram"] {
        let sum = (0..jobs.len()).map(|job| of(job, medium));
        let sum = sum.fold((0, 0), |sum, lines| (sum.0 + lines.0, sum.1 + lines.1));
        assert_eq!(lines_of(&report["media"], medium), sum, "{medium}");
    }
    explained(&world.read("t.csv"));
    replays(&world);
}

/// Checks that every job that ran in the timeline has a reason.
fn explained(timeline: &str) {
    let header: Vec<&str> = timeline.lines().next().expect("a header").split(',').collect();
    let column = |name: &str| header.iter().position(|column| *column == name).expect("a column");
    let rows: Vec<Vec<&str>> =
        timeline.lines().skip(1).map(|row| row.splitn(header.len(), ',').collect()).collect();
    let chosen = rows.iter().filter(|row| row[column("chosen")] == "true");
    let reasons: Vec<&str> = chosen.map(|row| row[column("reason")].trim_matches('"')).collect();
    assert!(!reasons.contains(&""), "{timeline}");
    assert!(reasons.contains(&"head of the run queue"), "{reasons:?}");
    let by_policy = reasons.iter().filter(|reason| reason.contains("effective bandwidth"));
    assert!(by_policy.count() > 0, "{reasons:?}");
    let pram: u64 = rows.iter().filter_map(|row| row[column("reads_1")].parse::<u64>().ok()).sum();
    assert!(pram > 0 && rows.iter().all(|row| row[column("reads_2")].is_empty()));
}

/// Checks that the record decides the same again, and differs under another policy.
fn replays(world: &World) {
    let same = json(world.memweir().args(["replay", "decisions.jsonl", "--json", "-"]), 0);
    assert_eq!(same["differences"].as_array().map(Vec::len), Some(0), "{same}");
    assert!(same["decisions"].as_u64() > Some(5), "{same}");
    let other = ["replay", "decisions.jsonl", "--policy", "round-robin", "--json", "-"];
    let other = json(world.memweir().args(other), 0);
    assert_eq!(other["policy"], "round-robin");
    let differences = other["differences"].as_array().expect("a list");
    assert!(!differences.is_empty());
    assert!(differences[0]["replayed"]["reasons"][0]["reason"].is_string(), "{}", differences[0]);

    let text = world.read("decisions.jsonl");
    let tampered = text.replacen(
        "\"select\":{\"running\":{\"only\":[",
        "\"select\":{\"running\":{\"only\":[77,",
        1,
    );
    world.file("tampered.jsonl", &tampered);
    let shown = stdout_of(world.memweir().args(["replay", "tampered.jsonl"]), 1);
    assert!(shown.contains("1 differs under hmmsched"), "{shown}");

    world.file("cut.jsonl", &text[..text.len() - 10]);
    let (shown, said) = both_of(world.memweir().args(["replay", "cut.jsonl"]), 1);
    assert!(said.contains("the record breaks off here"), "{said}");
    assert!(shown.contains("decides the same in all of them"), "{shown}");

    world.file("damaged.jsonl", &text.replacen("\"admit\"", "\"admt\"", 1));
    let message = refusal(world.memweir().args(["replay", "damaged.jsonl"]), 2);
    assert!(message.contains("damaged.jsonl:2: no call to a scheduler"), "{message}");
    let message = refusal(world.memweir().args(["replay", "caches.toml"]), 2);
    assert!(message.contains("memweir run --record"), "{message}");
}

#[test]
fn a_killed_memweir_leaves_a_record_that_replays() {
    let world = World::new();
    let endless = "while [ ! -e stop ]; do :; done";
    let run = ["run", "--policy", "random", "--quantum", "10ms", "--record", "d.jsonl"];
    let jobs = ["--cores", "1", "--each", "3", "--", "sh", "-c", endless];
    let mut memweir = world.start(&[&run[..], &jobs].concat());
    wait_until("decisions are recorded", || {
        world.has("d.jsonl") && world.read("d.jsonl").matches("\"select\"").count() > 5
    });
    send(&memweir, Signal::SIGKILL);
    memweir.wait().expect("memweir is over");
    world.file("stop", "");
    let replayed = json(world.memweir().args(["replay", "d.jsonl", "--json", "-"]), 1);
    assert!(replayed["decisions"].as_u64() > Some(4), "{replayed}");
    assert!(replayed["truncated"].is_string(), "{replayed}");
    assert_eq!(replayed["differences"], Value::Array(Vec::new()));
    wait_until("every job ends", || world.processes().is_empty());
}

/// Two jobs with declared figures.
const DECLARED: &str = "quantum_ms = 20
[[jobs]]
command = [\"true\"]
instances = 2
expected_time_s = 0.2
read_bandwidth = 2e9
";

#[test]
fn a_policy_that_decides_by_media_is_refused_where_nothing_tells_them_apart() {
    let world = World::new();
    let file = world.file("jobs.toml", DECLARED);
    let mut refused = world.memweir();
    refused.args(["run", "--policy", "hmmsched", "--media", "pram", "--meter", "declared"]);
    let message = refusal(refused.arg(&file), 3);
    assert!(message.contains("declared: cannot tell media apart: only a `placement`"), "{message}");
    // A policy that needs none goes on, with a notice.
    let mut told = world.memweir();
    told.args(["run", "--policy", "round-robin", "--media", "pram", "--meter", "declared"]);
    let report = json(told.args(["--json", "-"]).arg(&file), 0);
    assert!(report.get("media").is_none(), "{report}");
    let notices = report["notices"].to_string();
    assert!(notices.contains("all traffic counts as local DRAM's"), "{notices}");
}

#[test]
fn declared_traffic_is_divided_by_a_placement_by_share() {
    let world = World::new();
    let spin = DECLARED.replace("[\"true\"]", &format!("[\"sh\", \"-c\", \"{SPIN}\"]"));
    let file = world.file("jobs.toml", &spin);
    for policy in ["hmmsched:alpha=0.2", "available-bandwidth"] {
        let mut run = world.memweir();
        run.args(["run", "--policy", policy, "--media", "stt-ram,cxl"]);
        run.args(["--meter", "declared", "--placement", "cxl=75%", "--json", "-"]);
        let report = json(run.arg(&file), 0);
        let [dram, stt, cxl] =
            ["dram", "stt-ram", "cxl"].map(|name| lines_of(&report["media"], name).0);
        assert_eq!(stt, 0);
        let share = cxl as f64 / (dram + cxl) as f64;
        assert!((0.74..0.76).contains(&share), "{policy}: {share}");
    }
}

#[test]
fn perf_events_of_media_drive_hmmsched() {
    let Some(world) = World::of_root("counting what the kernel does for a job") else { return };
    let events: PathBuf =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../linux/tests/data/software-media.toml").into();
    let mut run = world.memweir();
    run.args(["run", "--policy", "hmmsched", "--meter", "perf", "--media", "cxl", "--events"]);
    run.arg(events).args(["--quantum", "20ms", "--json", "-", "--each", "3", "--"]);
    let report = json(run.args(["sh", "-c", SPIN]), 0);
    // The file counts page faults as lines of DRAM and context switches as lines of other memory;
    // a job that waits for its turn is switched away from.
    assert!(lines_of(&report["media"], "dram").0 > 0, "{report}");
    assert!(lines_of(&report["media"], "cxl").0 > 0, "{report}");
    assert!(report["notices"].to_string().contains("Writes are divided among the media"));
}

#[test]
fn profiles_tell_media_apart_and_runs_follow_them() {
    if !exists(EMULATOR) {
        return;
    }
    let world = world_with_stream();
    // In the background, because standard input must be nothing: the program runs twice.
    let metered = ["profile", "--meter", "software", "--caches", "caches.toml", "--json", "-"];
    let placed = ["--media", "pram", "--placement", "pram=40%", "--", "./stream", "10", "write"];
    let mut profile = world.start(&[&metered[..], &placed].concat());
    assert!(profile.wait().expect("it ends").success(), "{}", world.read("stderr"));
    let profiled = world.json("stdout");
    assert!(profiled["notices"].to_string().contains("the caches of caches.toml"), "{profiled}");
    let (reads, writes) = lines_of(&profiled["media"], "pram");
    for (part, whole) in [(reads, "memory_reads"), (writes, "memory_writes")] {
        let share = part as f64 / profiled[whole].as_f64().expect("counted");
        assert!((0.3..0.5).contains(&share), "{whole}: {share}");
    }
    let listed = json(world.memweir().args(["store", "list", "--json", "-"]), 0);
    assert_eq!(lines_of(&listed["profiles"][0]["media"], "pram"), (reads, writes));
    // The batch has the media in another order and knows them by name.
    let mut run = world.memweir();
    run.args(["run", "--policy", "hmmsched", "--media", "cxl,pram", "--meter", "declared"]);
    let report = json(run.args(["--json", "-", "--", "./stream", "10", "write"]), 0);
    assert_eq!(lines_of(&report["media"], "cxl"), (0, 0));
    assert!(lines_of(&report["media"], "pram").0 > 0, "{report}");
}

#[test]
fn wrong_media_and_placements_are_refused() {
    let cases: [(&[&str], &str); 7] = [
        (&["--media", "prm"], "did you mean `pram`?"),
        (&["--media", "absent.toml"], "absent.toml: cannot be read"),
        (&["--media", "pram,pram"], "two media are called `pram`"),
        (&["--placement", "pram=70"], "pram=70%"),
        (&["--placement", "pram"], "name the machine's media with `--media`"),
        (&["--media", "pram", "--placement", "cxl"], "there is no medium `cxl`"),
        (&["--record", "/nonexistent/d"], "/nonexistent/d"),
    ];
    for (options, help) in cases {
        let world = World::new();
        let trace = world.path().join("started");
        let code = if options[0] == "--record" { 4 } else { 2 };
        let mut command = world.memweir();
        command.args(["run", "--policy", "round-robin"]).args(options).args(["--", "touch"]);
        let message = refusal(command.arg(&trace), code);
        assert!(message.contains(help), "{help} is missing in {message}");
        assert!(!trace.exists(), "a job was started in spite of: {message}");
    }
    let world = World::new();
    let file = world.file(
        "jobs.toml",
        "media = \"pram\"\n[[jobs]]\ncommand = [\"true\"]\nplacement = \"hot=1\"\n",
    );
    let message = refusal(world.memweir().arg("run").arg(file), 2);
    assert!(message.contains("jobs.toml:4: jobs[0].placement: `1` of DRAM"), "{message}");
}
