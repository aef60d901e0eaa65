//! `memweir page run`: real programs with a quarter of their memory give the same output,
//! impossible requests are refused before anything starts, and nothing stays behind.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    MEMWEIR, Rows, SmallDisk, World, both_of, compile, exists, refusal, send, stderr_of, wait_until,
};

/// Returns true if programs can be paged here; reports a skip if not.
pub(crate) fn possible() -> bool {
    let tried = memweir_linux::paging::try_memfd();
    if let Err(obstacle) = &tried {
        memweir_test_support::skip!(Privilege, "paging needs root and Linux 6.4: {obstacle}");
    }
    tried.is_ok()
}

/// A world for a test that pages these programs; `None`, and a report of a skip, if it cannot.
fn paging(programs: &[&str]) -> Option<World> {
    possible().then(|| World::with(programs)).flatten()
}

fn number(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("{key} in {report}"))
}

/// Runs a program with `dram` bytes of DRAM; returns its status, its output, and the report.
fn paged(
    world: &World,
    dram: u64,
    more: &[&str],
    command: &[&str],
) -> (Option<i32>, Vec<u8>, Value) {
    let output = run(world, dram, more, command).output().expect("memweir starts");
    results(world, output)
}

fn run(world: &World, dram: u64, more: &[&str], command: &[&str]) -> Command {
    let mut run = Command::new(MEMWEIR);
    run.args(["page", "run", "--nvm", "memfd:1G", "--json", "run.json", "--dram"]);
    run.arg(dram.to_string()).args(more).arg("--").args(command).current_dir(world.path());
    run
}

fn results(world: &World, output: Output) -> (Option<i32>, Vec<u8>, Value) {
    let report: Value = serde_json::from_str(&world.read("run.json"))
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    (report["exit_code"].as_i64().map(|code| code as i32), output.stdout, report)
}

/// Does the same with a program that makes the file `ready` and waits for the end of its input,
/// which comes once memweir has looked at it, and walked through all processes, since then.
fn looked_at(world: &World, dram: u64, command: &[&str]) -> (Option<i32>, Vec<u8>, Value) {
    let _ = std::fs::remove_file(world.path().join("ready"));
    let mut run = run(world, dram, &["--timeline", "t.csv", "--every", "20ms"], command);
    run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.spawn().expect("memweir starts");
    // Each look writes a row, of which a part may be there.
    let last_look = || {
        let text = std::fs::read_to_string(world.path().join("t.csv")).unwrap_or_default();
        let whole = text.rsplit_once('\n').map(|(whole, _)| whole);
        whole.and_then(|whole| Rows::of(whole).numbers("t_s").last()).unwrap_or_default()
    };
    let mut ready = None;
    wait_until("memweir has looked at the program", || {
        if ready.is_none() && world.has("ready") {
            ready = Some(last_look());
        }
        // Walks are 0.1 s apart.
        let looked = ready.is_some_and(|ready| last_look() > ready + 0.3);
        looked || run.try_wait().expect("a child").is_some()
    });
    results(world, run.wait_with_output().expect("memweir ends"))
}

#[test]
fn a_timeline_and_a_report_are_both_written_or_named() {
    let Some(world) = paging(&[]) else { return };
    let run = |files: [&str; 2]| {
        let mut run = world.memweir();
        run.args(["page", "run", "--nvm", "memfd:64M", "--dram", "8M", "--timeline", files[0]]);
        stderr_of(run.args(["--json", files[1], "--", "true"]), 4)
    };
    let said = run(["t.svg", "/dev/full"]);
    assert!(said.contains("cannot write /dev/full"), "{said}");
    assert!(world.has("t.svg") && !world.has("t.svg.partial.csv"), "{said}");
    let full = world.path().join("full.csv");
    std::os::unix::fs::symlink("/dev/full", &full).expect("a link");
    let said = run(["full.csv", "/dev/full"]);
    assert!(said.contains("cannot write /dev/full") && said.contains("write full.csv"), "{said}");
}

/// The least DRAM that a test gives a program.
const LEAST: u64 = 2 << 20;

/// Runs a program plainly, with all the DRAM that it wants, and with a quarter of that; its output
/// must be the same.
fn same(world: &World, command: &[&str]) {
    if !exists(command[0]) {
        return;
    }
    let plain =
        Command::new(command[0]).args(&command[1..]).current_dir(world.path()).output().unwrap();
    let (_, output, report) = paged(world, 8 << 30, &[], command);
    assert!(output == plain.stdout, "{command:?} with all it wants: {report}");
    assert_eq!(number(&report, "evictions"), 0, "{command:?} fits: {report}");
    let quarter = (number(&report, "dram_peak_bytes") / 4).max(LEAST);
    let (code, output, report) = paged(world, quarter, &[], command);
    assert!(output == plain.stdout, "{command:?} with a quarter: {report}");
    assert_eq!(code, plain.status.code(), "{command:?}: {report}");
    for counted in ["evictions", "direct_reads", "copies_in"] {
        assert!(number(&report, counted) > 0, "{counted} of {command:?}: {report}");
    }
    assert_eq!(number(&report["counters"], "unpaged"), 0, "{command:?}: {report}");
}

fn lines(world: &World, count: u64) {
    let lines: String = (0..count).map(|i| format!("{} line\n", i * 7_919 % 100_003)).collect();
    world.file("lines", &lines);
}

#[test]
fn python_says_the_same_with_a_quarter() {
    if possible() {
        let program = "x = [str(i) for i in range(100000)]\nprint(len(x), sum(map(len, x)))\n\
                       d = {k: i for i, k in enumerate(x)}\nprint(sum(d[k] for k in x[::7]))";
        same(&World::new(), &["python3", "-c", program]);
    }
}

#[test]
fn copying_on_every_read_says_the_same_and_copies_more() {
    let Some(world) = paging(&["python3"]) else { return };
    let program = "x = bytearray(b'1') * (16 << 20)\nprint(sum(x[::4096]) + sum(x[::4096]))";
    let run = |more: &[&str]| {
        let (code, output, report) = paged(&world, 8 << 20, more, &["python3", "-c", program]);
        assert_eq!((code, output.as_slice()), (Some(0), &b"401408\n"[..]), "{report}");
        report
    };
    let (in_place, copying) = (run(&[]), run(&["--no-direct-read", "--victims", "clock"]));
    assert!(number(&in_place, "direct_reads") > 0 && number(&in_place, "copies_avoided") > 0);
    assert_eq!(number(&copying, "direct_reads"), 0, "{copying}");
    assert_eq!(copying["direct_read"], "copy");
    assert!(number(&copying, "copies_in") > number(&in_place, "copies_in"), "{copying} {in_place}");
}

#[test]
fn sqlite_says_the_same_with_a_quarter() {
    if possible() {
        let sql = "create table t as with recursive c(x) as (select 1 union all select x + 1 from c \
                   where x < 30000) select x, hex(x * 7919 % 100003) y from c; create index i on t(y); \
                   select sum(x), count(distinct y), max(y) from t; \
                   select x from t where y > '39' order by y, x limit 50;";
        same(&World::new(), &["sqlite3", ":memory:", sql]);
    }
}

#[test]
fn sort_and_xz_say_the_same_with_a_quarter() {
    if possible() {
        let world = World::new();
        lines(&world, 40_000);
        same(&world, &["sort", "--parallel=4", "lines"]);
        same(&world, &["xz", "-1", "-c", "lines"]);
    }
}

#[test]
fn compilers_say_the_same_with_a_quarter() {
    if possible() {
        let world = World::new();
        let function = |i: u32| {
            format!(
                "int f{i}(int a, int b) {{ int s = {i}; while (a--) s += b * a ^ s; return s; }}\n"
            )
        };
        world.file("m.c", &(0..120).map(function).collect::<String>());
        same(&world, &["gcc", "-O1", "-S", "-o", "-", "m.c"]);
    }
}

#[test]
fn perl_and_git_say_the_same_with_a_quarter() {
    if possible() {
        let world = World::new();
        lines(&world, 40_000);
        let other: String = (0..40_000u64)
            .map(|i| format!("{} line{}\n", i * 7_919 % 100_003, if i % 7 == 0 { "!" } else { "" }))
            .collect();
        world.file("other", &other);
        same(&world, &["git", "diff", "--no-index", "lines", "other"]);
        let program = "my %h; $h{$_ % 20000} .= \"$_ \" for 1..100000; my $s = 0; \
                       for my $k (sort { $a <=> $b } keys %h) { $s += length $h{$k} } print \"$s\\n\"";
        same(&world, &["perl", "-e", program]);
    }
}

/// Commands that fill a database, in the protocol of redis.
fn filling(keys: u32) -> String {
    let word = |word: &str| format!("${}\r\n{word}\r\n", word.len());
    let set = |key: u32| {
        let value = format!("{key:0>200}");
        format!("*3\r\n{}{}{}", word("SET"), word(&format!("key{key}")), word(&value))
    };
    (0..keys).map(set).collect()
}

/// Fills a server, reads under load while it saves to disk (a fork), and returns its digest.
fn served(world: &World, name: &str, prefix: &[&str]) -> String {
    let socket = world.path().join(format!("{name}.sock")).display().to_string();
    let arguments = ["redis-server", "--port", "0", "--save", "", "--enable-debug-command", "yes"];
    let mut words: Vec<&str> = prefix.iter().copied().chain(arguments).collect();
    words.extend(["--unixsocket", &socket]);
    let mut server = Command::new(words[0])
        .args(&words[1..])
        .current_dir(world.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("the server starts");
    let ask = |arguments: &[&str], input: Stdio| {
        let mut client = Command::new("redis-cli");
        let output =
            client.args(["-s", &socket]).args(arguments).stdin(input).output().expect("redis-cli");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    wait_until("the server answers", || ask(&["ping"], Stdio::null()).starts_with("PONG"));
    let commands = std::fs::File::open(world.path().join("commands")).unwrap();
    let piped = ask(&["--pipe"], commands.into());
    assert!(piped.contains("errors: 0, replies: 20000"), "{piped}");
    assert!(ask(&["bgsave"], Stdio::null()).contains("started"));
    let commands = std::fs::File::open(world.path().join("commands")).unwrap();
    let again = ask(&["--pipe"], commands.into());
    assert!(again.contains("errors: 0"), "{again}");
    wait_until("it has saved", || {
        ask(&["info", "persistence"], Stdio::null()).contains("rdb_bgsave_in_progress:0")
    });
    let digest = ask(&["debug", "digest"], Stdio::null());
    ask(&["shutdown", "nosave"], Stdio::null());
    server.wait().expect("the server ends");
    digest
}

#[test]
fn a_database_under_load_keeps_what_it_was_given() {
    let Some(world) = paging(&["redis-server", "redis-cli"]) else { return };
    world.file("commands", &filling(20_000));
    let plain = served(&world, "plain", &[]);
    let prefix =
        [MEMWEIR, "page", "run", "--dram", "4M", "--nvm", "memfd:1G", "--json", "run.json", "--"];
    let paged = served(&world, "paged", &prefix);
    assert_eq!(plain.trim().len(), 40, "{plain}");
    assert_eq!(plain, paged);
    let report = world.json("run.json");
    assert!(number(&report, "evictions") > 0, "{report}");
    assert!(number(&report["counters"], "fork_pauses") > 0, "{report}");
}

/// The child lives until its parent ends, so that the pause of evictions has no end of its own.
#[test]
fn a_child_that_stays_to_the_end_is_named() {
    if !(possible() && exists("python3")) {
        return;
    }
    let program = "import os\nheld = bytearray(b'1') * (16 << 20)\nto_read, to_write = os.pipe()\n\
                   if os.fork() == 0:\n    os.close(to_write)\n    os.read(to_read, 1)\n    \
                   os._exit(0)\nmore = bytearray(b'2') * (32 << 20)\nprint(held[-1] + more[-1])";
    let (code, output, report) = paged(&World::new(), 8 << 20, &[], &["python3", "-c", program]);
    assert_eq!((code, output.as_slice()), (Some(0), &b"99\n"[..]), "{report}");
    let causes = report["dram_overshoot_causes"].as_array().expect("a list");
    assert!(causes.contains(&json!("forked-children")), "{report}");
}

#[test]
fn refuses_before_anything_starts() {
    let world = World::new();
    let refused = |code: i32, arguments: &[&str], parts: &[&str]| {
        let trace = world.path().join("started").display().to_string();
        let mut run = world.memweir();
        run.args(["page", "run"]).args(arguments).args(["--", "touch", &trace]);
        let said = refusal(&mut run, code);
        for part in parts {
            assert!(said.contains(part), "`{part}` is missing: {said}");
        }
        assert!(!world.has("started"), "{said}");
    };
    let memfd = ["--nvm", "memfd:64M"];
    refused(2, &["--dram", "64K", memfd[0], memfd[1]], &["64 KiB of DRAM", "`--dram 1M`"]);
    refused(2, &["--dram", "64M", "--nvm", "mem:64M"], &["did you mean `memfd`"]);
    refused(
        2,
        &["--dram", "64M", memfd[0], memfd[1], "--victims", "fif"],
        &["did you mean `fifo`"],
    );
    refused(2, &["--dram", "64M", memfd[0], memfd[1], "--victims", "scan"], &["fifo, clock"]);
    refused(2, &["--dram", "64M", memfd[0], memfd[1], "--delay", "read=0.5x"], &["at least 1"]);
    refused(2, &["--dram", "64M", memfd[0], memfd[1], "--timeline", "t.png"], &["csv, svg"]);
    refused(
        2,
        &["--dram", "64M", memfd[0], memfd[1], "--energy", "emmc-flash,lpddr2-pcm"],
        &["is flash"],
    );
    if !possible() {
        return;
    }
    refused(2, &["--dram", "64M", "--nvm", "dax:dax7.7"], &["/dev/dax7.7"]);
    refused(2, &["--dram", "64M", "--nvm", "node:999"], &["no memory on a NUMA node 999"]);
    refused(2, &["--dram", "64M", "--nvm", "memfd:9999G"], &["are asked for", "is the most"]);
    refused(2, &["--dram", "64M", "--nvm", "memfd:64K"], &["64 KiB of NVM", "2 MiB"]);
    refused(2, &["--dram", "64M", "--nvm", "file:/sys"], &["/sys", "tmpfs"]);
    refused(2, &["--dram", "64M", "--nvm", "file:/nowhere/at/all"], &["/nowhere/at", "tmpfs"]);
    world.file("data", "x");
    let direct = File::options()
        .read(true)
        .custom_flags(nix::libc::O_DIRECT)
        .open(world.path().join("data"));
    // Some file systems have no direct I/O.
    if let Ok(direct) = direct {
        let mut run = Command::new(MEMWEIR);
        run.args(["page", "run", "--dram", "64M", memfd[0], memfd[1], "--", "touch", "started"]);
        run.current_dir(world.path()).stdin(direct);
        let output = run.output().expect("memweir starts");
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("descriptor 0 is a file open with O_DIRECT"), "{said}");
        assert!(!world.has("started"), "{said}");
    }
    // A device that maps nothing stands in for one that refuses private mappings.
    refused(
        2,
        &["--dram", "64M", "--nvm", "dax:/dev/null"],
        &["refuses private mappings", "daxctl"],
    );
}

#[test]
fn programs_that_cannot_be_paged_are_refused() {
    let world = World::new();
    let run = |program: &str| {
        let mut run = world.memweir();
        run.args(["page", "run", "--dram", "64M", "--nvm", "memfd:64M", "--", program]);
        refusal(&mut run, 2)
    };
    assert!(run("no-such-program").contains("no such program in PATH"));
    let copy = world.path().join("true");
    std::fs::copy("/bin/true", &copy).unwrap();
    std::fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
    assert!(run(copy.to_str().unwrap()).contains("set-user-ID"));
    if let Some(program) = compile(&world, "int main(void) { return 0; }", "static", &["-static"]) {
        assert!(run(&program).contains("it is a static program"));
    }
    let mut colored = world.memweir();
    colored.env("MEMWEIR_COLOR", "x");
    colored.args(["page", "run", "--dram", "64M", "--nvm", "memfd:64M", "--", "true"]);
    assert!(refusal(&mut colored, 2).contains("a colored program cannot be paged"));
    let mut paged = world.memweir();
    paged.env("MEMWEIR_PAGE", "x");
    paged.args(["page", "run", "--dram", "64M", "--nvm", "memfd:64M", "--", "true"]);
    assert!(refusal(&mut paged, 2).contains("a paged program cannot be paged again"));
    if !possible() {
        return;
    }
    let mut lost = world.memweir();
    lost.env("MEMWEIR_PRELOAD", "/no/library.so");
    lost.args(["page", "run", "--dram", "64M", "--nvm", "memfd:64M", "--", "true"]);
    assert!(refusal(&mut lost, 3).contains("/no/library.so"));
}

#[test]
fn without_the_capability_it_is_refused() {
    let Some(world) = paging(&["setpriv"]) else { return };
    let output = Command::new("setpriv")
        .args(["--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace", MEMWEIR])
        .args(["page", "run", "--dram", "64M", "--nvm", "memfd:64M", "--", "true"])
        .current_dir(world.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("CAP_SYS_PTRACE"), "{said}");
}

#[test]
fn results_are_written_and_the_status_is_the_programs() {
    let Some(world) = paging(&["python3"]) else { return };
    let program = "import sys\nx = bytearray(b'1') * (24 << 20)\n\
                   print(sum(x[::4096]) + sum(x[::4096]))\nsys.exit(3)";
    let timelines = [("t.csv", "csv"), ("t.svg", "svg")];
    for (name, kind) in timelines {
        let more = ["--timeline", name, "--every", "20ms", "--delay", "read=2x,write=12x"];
        let (code, output, report) = paged(&world, 8 << 20, &more, &["python3", "-c", program]);
        assert_eq!((code, output.as_slice()), (Some(3), &b"602112\n"[..]), "{report}");
        assert_eq!(report["delay"]["write"], 12.0);
        assert!(number(&report["counters"], "delay_ns") > 0, "{report}");
        assert!(report["energy"]["nvm_j"].as_f64().unwrap() > 0.0, "{report}");
        assert!(!report["times"]["eviction"]["buckets"].as_array().unwrap().is_empty());
        let text = world.read(name);
        match kind {
            "csv" => {
                let last = text.lines().last().unwrap().split(',').collect::<Vec<_>>();
                assert_eq!(text.lines().next().unwrap().split(',').count(), last.len());
                assert_eq!(last[1].parse::<u64>().unwrap(), number(&report, "evictions"));
            }
            _ => {
                assert!(text.starts_with("<svg") && text.contains("DRAM allowed"));
                assert!(!world.has("t.svg.partial.csv"));
            }
        }
    }
    let mut run = world.memweir();
    run.args(["page", "run", "--dram", "8M", "--nvm", "memfd:64M", "--", "sh", "-c", "exit 7"]);
    run.assert().code(7);
}

#[test]
fn a_signal_to_memweir_reaches_the_program() {
    if !possible() {
        return;
    }
    let script = "trap 'echo got usr1' USR1; echo $$ > started; \
                  while :; do sleep 0.02; done";
    for (signal, status) in [(Signal::SIGINT, 130), (Signal::SIGQUIT, 131), (Signal::SIGHUP, 129)] {
        let world = World::new();
        let run = ["page", "run", "--dram", "8M", "--nvm", "memfd:64M", "--", "sh", "-c", script];
        let mut run = world.start(&run);
        wait_until("the program runs", || world.has("started"));
        send(&run, Signal::SIGUSR1);
        wait_until("the handler ran", || world.read("stdout").contains("got usr1"));
        send(&run, signal);
        assert_eq!(run.wait().unwrap().code(), Some(status), "{}", world.read("stderr"));
        all_gone(&world);
    }
}

#[test]
fn a_full_nvm_ends_the_largest() {
    let Some(world) = paging(&["python3"]) else { return };
    // Random bytes: a machine that merges pages would have an easy time with others.
    let program = "import os, subprocess, sys\n\
                   child = 'import os, time; x = [os.urandom(1 << 20) for _ in range(400)]; '\n\
                   child += 'time.sleep(600)'\n\
                   p = subprocess.run([sys.executable, '-c', child])\n\
                   print('child', p.returncode)";
    let mut run = Command::new(MEMWEIR);
    run.args(["page", "run", "--dram", "24M", "--nvm", "memfd:16M", "--when-full", "end-largest"]);
    run.args(["--json", "run.json", "--", "python3", "-c", program]).current_dir(world.path());
    let output = run.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "child -9\n", "{said}");
    assert!(said.contains("ended process"), "{said}");
    let report = world.json("run.json");
    assert_eq!(report["ended_processes"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(report["exit_code"], 0, "{report}");
}

/// A static program that fills 100 MiB, and the program that starts it.
fn static_program(world: &World) -> bool {
    let source = "#include <fcntl.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
                  #include <string.h>\n\
                  int main(void) { char *p = malloc(100 << 20); memset(p, 1, 100 << 20); \
                  creat(\"ready\", 0600); getchar(); return p[12345] - 1; }\n";
    compile(world, source, "static", &["-static"]).is_some()
}

#[test]
fn programs_that_are_not_paged_are_counted_or_refused() {
    let world = World::new();
    if !possible() || !static_program(&world) {
        return;
    }
    let shell = ["sh", "-c", "./static; echo $?"];
    let (code, output, report) = looked_at(&world, 16 << 20, &shell);
    assert_eq!((code, output.as_slice()), (Some(0), &b"0\n"[..]), "{report}");
    assert_eq!(number(&report["unpaged"], "processes"), 1, "{report}");
    assert_eq!(number(&report["counters"], "unpaged"), 1, "{report}");
    let program = &report["unpaged"]["programs"][0];
    assert!(program["program"].as_str().unwrap().ends_with("/static"), "{report}");
    // The kernel's count may miss 32 pages per CPU.
    assert!(number(program, "dram_peak_bytes") > 90 << 20, "{report}");
    assert!(number(&report, "dram_peak_bytes") > 90 << 20, "{report}");
    assert_eq!(report["dram_overshoot_causes"][0], "unpaged-programs", "{report}");

    let refuse = ["--unpaged", "refuse"];
    let (code, output, report) = paged(&world, 16 << 20, &refuse, &shell);
    assert_eq!((code, output.as_slice()), (Some(0), &b"126\n"[..]), "{report}");
    assert_eq!(number(&report["unpaged"], "refused"), 1, "{report}");
    assert_eq!(number(&report["unpaged"], "processes"), 0, "{report}");
    // Without the order in its environment a program is not paged either.
    let (_, output, report) =
        paged(&world, 16 << 20, &refuse, &["env", "-i", "/bin/echo", "started"]);
    assert_eq!(output, b"", "{report}");
    assert_eq!(report["exit_code"], 126, "{report}");
    // A start past libc is found while the program runs.
    if exists("python3") {
        let past_libc = "import ctypes; c = ctypes.CDLL(None); \
                         a = (ctypes.c_char_p * 2)(b'./static', None); \
                         c.syscall(59, a[0], a, None)";
        // Its input does not end before it is.
        let (input, held) = std::io::pipe().expect("a pipe");
        let mut run = run(&world, 64 << 20, &refuse, &["python3", "-c", past_libc]);
        let (_, _, report) = results(&world, run.stdin(input).output().expect("memweir starts"));
        drop(held);
        assert_eq!(report["signal"], 9, "{report}");
        assert_eq!(number(&report["unpaged"]["programs"][0], "ended"), 1, "{report}");
    }
}

#[test]
fn memory_that_children_do_not_get_is_paged() {
    if !(possible() && exists("node")) {
        return;
    }
    // The heap of V8 is such memory (MADV_DONTFORK).
    let program = "const m = new Map(); \
                   for (let i = 0; i < 300000; i++) m.set('key' + i, { v: i }); \
                   let s = 0; for (const [k, o] of m) s += o.v + k.length; console.log(s)";
    let world = World::new();
    let command = ["node", "-e", program];
    let plain = Command::new("node").args(&command[1..]).output().expect("node");
    let (code, output, report) = paged(&world, 48 << 20, &[], &command);
    assert_eq!((code, output), (Some(0), plain.stdout), "{report}");
    assert_eq!(number(&report["counters"], "unpageable_bytes"), 0, "{report}");
    // Of a hundred MiB most would stay if the heap did.
    assert!(number(&report, "nvm_peak_bytes") > 32 << 20, "{report}");
}

/// Programs in Fortran keep their arrays in such variables.
#[test]
fn static_variables_are_paged() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        enum { PAGES = 12 << 10, WORDS = 512 };
        static unsigned long memory[PAGES][WORDS];
        int main(void) {
            unsigned long sum = 0;
            for (unsigned round = 1; round < 4; round++)
                for (unsigned at = 0; at < PAGES; at++) {
                    sum += memory[at][at % WORDS] * round;
                    if (at % 8 < 2 * round)
                        memory[at][at % WORDS] += at;
                }
            printf("%lu\n", sum);
        }
    "#;
    let world = World::new();
    if !possible() || compile(&world, SOURCE, "statics", &[]).is_none() {
        return;
    }
    let plain = Command::new(world.path().join("statics")).output().expect("it runs");
    let (code, output, report) = paged(&world, 12 << 20, &[], &["./statics"]);
    assert_eq!((code, output), (Some(0), plain.stdout), "{report}");
    // Of 36 MiB that are written, most would stay in DRAM if they were not paged.
    assert!(number(&report, "nvm_peak_bytes") > 20 << 20, "{report}");
}

/// No late helper and no other cause is named for what the helper cannot see.
#[test]
fn memory_that_libc_did_not_map_is_named() {
    const SOURCE: &str = r#"
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        enum { LENGTH = 32 << 20 };
        int main(void) {
            int both = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS;
            memset((void *)syscall(SYS_mmap, 0, LENGTH, both, own, -1, 0), 1, LENGTH);
            /* The helper looks for it twenty times a second, or later after a long look. */
            sleep(3);
        }
    "#;
    let world = World::new();
    if !possible() || compile(&world, SOURCE, "own-calls", &[]).is_none() {
        return;
    }
    let (code, _, report) = paged(&world, 8 << 20, &[], &["./own-calls"]);
    assert_eq!(code, Some(0), "{report}");
    let unseen = number(&report["counters"], "unseen_bytes");
    assert!((32 << 20..33 << 20).contains(&unseen), "{report}");
    assert_eq!(report["dram_overshoot_causes"], json!(["unseen-memory"]), "{report}");
}

/// They load the library, which can neither count nor identify them: the first does not see the
/// `/proc` of memweir, the second sees it and has another number there.
#[test]
fn programs_in_a_pid_namespace_are_named() {
    if !(possible() && exists("python3") && exists("unshare")) {
        return;
    }
    let program = "import sys\nx = bytearray(b'1') * (32 << 20)\nprint(x[-1])\n\
                   open('ready', 'w').close()\nsys.stdin.read()";
    for namespace in [&["-p", "-f", "--mount-proc"][..], &["-p", "-f"]] {
        let command = [&["unshare"], namespace, &["python3", "-c", program]].concat();
        let (code, output, report) = looked_at(&World::new(), 8 << 20, &command);
        assert_eq!((code, output.as_slice()), (Some(0), &b"49\n"[..]), "{report}");
        let largest = &report["unpaged"]["programs"][0];
        assert!(largest["program"].as_str().unwrap().contains("python"), "{report}");
        assert!(number(largest, "dram_peak_bytes") > 32 << 20, "{report}");
        assert_eq!(report["dram_overshoot_causes"][0], "unpaged-programs", "{report}");
    }
}

/// Its pages in NVM are shared memory for the kernel, and are subtracted whether they are mapped or
/// not. The kernel's count may miss 32 pages per CPU.
#[test]
fn shared_memory_is_named() {
    if !(possible() && exists("python3")) {
        return;
    }
    let program = |mapped: &str| {
        format!(
            "import mmap, sys\nx = bytearray(b'1') * (16 << 20)\n\
             y = mmap.mmap(-1, 32 << 20, mmap.{mapped} | mmap.MAP_ANONYMOUS)\n\
             for i in range(0, 32 << 20, 4096): y[i] = 1\n\
             print(sum(x[::4096]))\nopen('ready', 'w').close()\nsys.stdin.read()"
        )
    };
    let shared_by = |mapped: &str| {
        let command = ["python3", "-c", &program(mapped)];
        let (code, output, report) = looked_at(&World::new(), 8 << 20, &command);
        assert_eq!((code, output.as_slice()), (Some(0), &b"200704\n"[..]), "{report}");
        number(&report, "shared_peak_bytes")
    };
    let shared = shared_by("MAP_SHARED");
    assert!((16 << 20..33 << 20).contains(&shared), "{shared}");
    let private = shared_by("MAP_PRIVATE");
    assert!(private < 4 << 20, "{private}");
}

#[test]
fn a_full_nvm_holds_no_writers() {
    let Some(world) = paging(&["python3"]) else { return };
    let program = "x = [bytes([i & 255]) * 1000 for i in range(100000)]\n\
                   for r in range(3):\n for i in range(0, len(x), 7): x[i] = bytes([r]) * 1000\n\
                   print(sum(b[0] for b in x))";
    let mut run = world.memweir();
    run.args(["page", "run", "--dram", "16M", "--nvm", "memfd:32M", "--json", "run.json", "--"]);
    let said = stderr_of(run.args(["python3", "-c", program]), 0);
    assert!(said.contains("the NVM of 32 MiB was full"), "{said}");
    assert!(said.contains("above the budget of 16 MiB: the NVM was full"), "{said}");
    // Only requested tables stand beside the result.
    assert!(!said.contains("estimated") && !said.contains("half of"), "{said}");
    let report = world.json("run.json");
    let counters = &report["counters"];
    assert!(number(counters, "nvm_full") > 0, "{report}");
    let held = number(counters, "hold_ns") as f64 / 1e9;
    assert!(held < 0.1 * report["seconds"].as_f64().unwrap(), "held for {held} s: {report}");
    assert_eq!(report["dram_overshoot_causes"][0], "nvm-full", "{report}");
    assert!(report["energy"].is_object() && report["times"].is_object(), "{report}");
}

/// Between the pages that leave, it touches others for the first time, for which the kernel puts
/// pages into NVM.
#[test]
fn a_full_tmpfs_ends_no_program() {
    let Some(world) = paging(&["python3"]) else { return };
    let Some(_disk) = SmallDisk::mount(&world, "nvm", "size=16m") else { return };
    let program = "x = bytearray(64 << 20)\n\
                   for first in (0, 4096):\n for i in range(first, len(x), 8192): x[i] = 1\n\
                   print(sum(x[::4096]))";
    let mut run = world.memweir();
    run.args(["page", "run", "--dram", "16M", "--nvm", "file:nvm", "--", "python3", "-c", program]);
    let (shown, said) = both_of(&mut run, 0);
    assert_eq!(shown, "16384\n");
    assert!(said.contains("the NVM of 16 MiB was full"), "{said}");
}

/// A program that fills memory and then waits for a word that never comes.
const WAITER: &str = "import sys\nx = [str(i) for i in range(400000)]\n\
                      open('ready', 'w').close()\nsys.stdin.read()";

/// Waits until the processes of this world, and the helpers that share their memory, are gone.
fn all_gone(world: &World) {
    wait_until("nothing stays behind", || world.processes().is_empty());
}

#[test]
fn nothing_stays_behind_when_somebody_is_killed() {
    if !(possible() && exists("python3")) {
        return;
    }
    for whom in ["memweir", "program", "both"] {
        let world = World::new();
        let mut run = Command::new(MEMWEIR);
        run.args(["page", "run", "--dram", "8M", "--nvm", "memfd:256M", "--timeline", "t.csv"]);
        run.args(["--", "python3", "-c", WAITER]).current_dir(world.path());
        run.env(crate::support::MARK, world.path()).stdin(Stdio::piped()).stderr(Stdio::null());
        let mut run = run.spawn().expect("memweir starts");
        // Held open, or the program would end by itself during the wait.
        let input = run.stdin.take();
        wait_until("the program has its memory", || world.has("ready"));
        wait_until("a row is written", || world.read("t.csv").lines().count() > 1);
        let me = run.id() as i32;
        let children = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children")).unwrap();
        let program =
            children.split_whitespace().next().expect("a program").parse::<i32>().unwrap();
        match whom {
            "memweir" => {
                send(&run, Signal::SIGKILL);
                run.wait().unwrap();
            }
            "program" => {
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(program), Signal::SIGKILL)
                    .unwrap();
                assert_eq!(run.wait().unwrap().code(), Some(137));
            }
            _ => {
                send(&run, Signal::SIGTERM);
                assert_eq!(run.wait().unwrap().code(), Some(143), "the program has got the signal");
            }
        }
        // A program whose memweir was killed goes on until its standard input is closed.
        drop(input);
        all_gone(&world);
        assert!(world.read("t.csv").lines().count() > 1, "{whom}: rows are kept");
        let kept = std::fs::read_dir("/dev/shm").unwrap().flatten();
        let ours = |name: &str| name.contains("memweir-page") || name.contains("memweir-nvm");
        assert!(!kept.into_iter().any(|entry| ours(&entry.file_name().to_string_lossy())));
    }
}

#[test]
fn a_process_whose_helper_died_is_named() {
    if !(possible() && exists("python3")) {
        return;
    }
    let world = World::new();
    let mut run = Command::new(MEMWEIR);
    run.args(["page", "run", "--dram", "8M", "--nvm", "memfd:256M", "--json", "run.json"]);
    run.args(["--", "python3", "-c", WAITER]).current_dir(world.path());
    run.env(crate::support::MARK, world.path()).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.spawn().expect("memweir starts");
    wait_until("the program has its memory", || world.has("ready"));
    let is_helper = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|comm| comm == "memweir-page\n")
    };
    let helper = world.processes().into_iter().find(is_helper).expect("a helper");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(helper), Signal::SIGKILL).unwrap();
    // The program goes on, and ends with its input.
    drop(run.stdin.take());
    let output = run.wait_with_output().expect("memweir ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("ended before it; memory stayed where it was"), "{said}");
    let report = world.json("run.json");
    assert_eq!(report["uncounted_processes"].as_array().map(Vec::len), Some(1), "{report}");
}
