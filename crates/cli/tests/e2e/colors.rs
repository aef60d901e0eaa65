//! Programs in pages of chosen colors. The map is that of the paper, whose colors are bits of the
//! page frame; in a virtual machine they are the guest's, which is all that these tests need.

mod drift;
mod foreign;
mod left;
mod programs;
mod shortage;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::{PoisonError, RwLock};

use memweir_abi::preload::Delivery;
use memweir_core::names::Named;
use serde_json::Value;

use crate::support::{World, both_of, compile, exists, refusal, wait_until};

pub(crate) const MAP: &str = include_str!("../../../core/data/maps/i7-860.toml");

/// Held for reading by tests whose programs must be in their colors at one moment, and for writing
/// by the one that lets the kernel move the pages of all programs.
static COMPACTION: RwLock<()> = RwLock::new(());

/// The ways in which this kernel can deliver pages.
fn deliveries() -> Vec<&'static str> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let works = Delivery::ALL.iter().filter(|way| way.works_on(&release));
    works.map(|way| way.name()).collect()
}

/// Returns true if pages can be placed here; reports a skip if not.
pub(crate) fn possible() -> bool {
    let possible = nix::unistd::geteuid().is_root() && !deliveries().is_empty();
    if !possible {
        memweir_test_support::skip!(Privilege, "placing pages needs root and Linux 6.1");
    }
    possible
}

/// A world with the map; `None`, and a report of a skip, where pages cannot be placed or one of
/// these programs is missing.
fn placing(programs: &[&str]) -> Option<World> {
    (possible() && programs.iter().all(|program| exists(program))).then(mapped)
}

/// A world with the map.
fn mapped() -> World {
    let world = World::new();
    world.file("map.toml", MAP);
    world
}

/// Runs a program plainly and in colors 0 to 3, with every delivery; its output must be the same.
fn same(world: &World, command: &[&str]) {
    if exists(command[0]) {
        let _unmoved = COMPACTION.read().unwrap_or_else(PoisonError::into_inner);
        for way in deliveries() {
            // On a busy machine, other tests may take frames that are recycled.
            let is_colored = (0..10).any(|_| same_delivered(world, way, command));
            assert!(is_colored, "{command:?}: {}", world.read("run.json"));
        }
    }
}

/// Returns true if its pages have these colors, all but a few.
fn same_delivered(world: &World, way: &str, command: &[&str]) -> bool {
    let run = |mut to_run: Command| {
        let output = to_run.current_dir(world.path()).output().expect("the program starts");
        (output.status.code(), output.stdout, output.stderr)
    };
    let mut plain = Command::new(command[0]);
    plain.args(&command[1..]);
    let mut colored = Command::new(crate::support::MEMWEIR);
    colored.args(["color", "run", "--map", "map.toml", "--colors", "0-3", "--delivery", way]);
    colored.args(["--json", "run.json", "--"]).args(command);
    let (plain, colored) = (run(plain), run(colored));
    let stderr = String::from_utf8_lossy(&colored.2).into_owned();
    assert!(plain.1 == colored.1, "{command:?}: {stderr}");
    let report = world.json("run.json");
    assert_eq!(report["exit_code"].as_i64(), plain.0.map(i64::from), "{command:?}: {stderr}");
    assert_eq!(report["delivery"], way);
    assert_eq!(stderr.contains("were recycled into place"), way == "recycle", "{stderr}");
    let pages = &report["pages"];
    let (inside, outside) = (pages["inside"].as_u64().unwrap(), pages["outside"].as_u64().unwrap());
    // Colors are read from the page table, where the program may have another page by then. Of a
    // program as small as sqlite3 that can be one whose frame was missed, as the counters say.
    let missed = report["counters"]["missed"].as_u64().unwrap();
    let is_colored = inside > 0 && outside <= inside / 200 + missed.min(1);
    assert!(is_colored || way == "recycle" && outside <= missed, "{report}");
    let colors = pages["by_color"].as_object().expect("colors");
    let of_asked = ["0", "1", "2", "3"].map(|color| colors[color].as_u64().unwrap());
    assert_eq!(of_asked.iter().sum::<u64>(), inside, "{pages}");
    assert!(stderr.contains("pages in colors 0-3 ("), "{stderr}");
    // Pages of many colors are summed up.
    assert!(!is_colored || stderr.contains("pages by color: 0: "), "{stderr}");
    let counters = &report["counters"];
    assert!(counters["placed"].as_u64().unwrap() + counters["adopted"].as_u64().unwrap() > 0);
    for none in ["spilled", "waited", "refused", "uncolored", "failed"] {
        assert_eq!(counters[none], 0, "{none}: {report}");
    }
    is_colored
}

#[test]
fn programs_say_the_same() {
    let Some(world) = placing(&[]) else { return };
    let lines: String = (0..100_000u64).map(|i| format!("{}\n", i * 7_919 % 100_003)).collect();
    world.file("lines", &lines);
    world.file("m.c", "int main(void) { return 0; }\n");
    same(&world, &["sort", "lines"]);
    same(&world, &["sort", "--parallel=4", "lines"]);
    same(&world, &["xz", "-T2", "-c", "lines"]);
    same(&world, &["gcc", "-O1", "-S", "-o", "-", "m.c"]);
    same(&world, &["sh", "-c", "for i in 1 2 3; do echo $i | cat; done; exit 3"]);
    let sum = "with recursive c(x) as (select 1 union all select x + 1 from c where x < 50000) \
               select sum(x), count(distinct x % 1000) from c;";
    same(&world, &["sqlite3", ":memory:", sum]);
    let forks = "import os\nx = list(range(50000))\np = os.fork()\n\
                 if p == 0:\n    x[0] = 5; print(sum(x), flush=True); os._exit(3)\n\
                 print(os.waitpid(p, 0)[1], sum(x))";
    same(&world, &["python3", "-c", forks]);
    let mappings = "import mmap\nm = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE)\n\
                    m[0:3] = b'abc'; m.madvise(mmap.MADV_DONTNEED); print(m[0:3])\n\
                    m[4096:4099] = b'xyz'; m.resize(1 << 22); print(m[4096:4099], m[1 << 21]); m.close()";
    same(&world, &["python3", "-c", mappings]);
}

#[test]
fn every_page_is_inside() {
    if possible() && exists("python3") {
        let program = "import os, sys, threading, time\n\
            done = threading.Event()\n\
            work = lambda: (list(range(20000)), done.wait())\n\
            ts = [threading.Thread(target=work) for _ in range(3)]\n\
            [t.start() for t in ts]\n\
            x = [str(i) for i in range(50000)]\n\
            time.sleep(0.5); open('pid', 'w').write(str(os.getpid())); os.rename('pid', 'ready')\n\
            sys.stdin.read(); done.set()";
        all_inside(&World::new(), &["python3", "-c", program]);
    }
}

/// A system call that is not made by libc is not seen, and mapping memory in the place of other
/// memory changes no size.
#[test]
fn memory_mapped_in_place_of_other_memory_gets_inside() {
    const SOURCE: &str = r#"
        #define _GNU_SOURCE
        #include <stdio.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        enum { LENGTH = 4 << 20 };
        static char *map(void *at, int flags) {
            return (char *)syscall(SYS_mmap, at, LENGTH, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
        }
        int main(void) {
            char *memory = map(NULL, 0);
            memset(memory, 1, LENGTH);
            usleep(500000);
            map(memory, MAP_FIXED);
            /* The frames that were just freed, which have the right colors. */
            int frames = memfd_create("frames", 0);
            for (int i = 0; i < 8192; i++) write(frames, "x", 1), lseek(frames, 4095, SEEK_CUR);
            memset(memory, 2, LENGTH);
            FILE *file = fopen("pid", "w");
            fprintf(file, "%d", getpid());
            fclose(file);
            rename("pid", "ready");
            getchar();
        }
    "#;
    let world = World::new();
    if possible() && compile(&world, SOURCE, "remap", &["-O1"]).is_some() {
        all_inside(&world, &["./remap"]);
    }
}

/// Runs the program, which writes its process to the file `ready` and ends with its input.
fn all_inside(world: &World, program: &[&str]) {
    world.file("map.toml", MAP);
    for way in deliveries() {
        let mut run = Command::new(crate::support::MEMWEIR)
            .args(["color", "run", "--map", "map.toml", "--colors", "4-7", "--delivery", way])
            .arg("--")
            .args(program)
            .current_dir(world.path())
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("memweir starts");
        wait_until("the program has its memory", || world.has("ready"));
        let audited = inside(world, &world.read("ready"));
        drop(run.stdin.take());
        assert!(run.wait().unwrap().success());
        assert_eq!(audited["asked"], "4-7");
        assert!(audited["own"]["pages"].as_u64().unwrap() > 500, "{audited}");
        std::fs::remove_file(world.path().join("ready")).unwrap();
    }
}

/// The audit of a process once all of its pages are inside: those of a fork, and those that came
/// out wrong or that another test's compaction moved, are exchanged soon.
fn inside(world: &World, pid: &str) -> Value {
    let mut audit = Value::Null;
    wait_until("all pages are inside", || {
        let output = world.memweir().args(["color", "audit", pid, "--json"]).output().unwrap();
        audit = serde_json::from_slice(&output.stdout).expect("JSON");
        // Shown if the wait is in vain.
        eprintln!("inside: {} of {}", audit["own"]["inside"], audit["own"]["pages"]);
        audit["inside_share"] == 1.0
    });
    audit
}

/// A static program that a colored one starts, and one that may not use userfaultfd.
#[test]
fn programs_that_run_uncolored_are_named() {
    const SOURCE: &str = r#"
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        int main(int count, char **words) {
            char *memory = malloc(20 << 20);
            memset(memory, count, 20 << 20);
            sleep(5);
            return memory[1 << 20] != count;
        }
    "#;
    let world = mapped();
    let compiled = [("static", &["-static"][..]), ("dynamic", &[])]
        .map(|(name, flags)| compile(&world, SOURCE, name, flags).is_some());
    if !(possible() && exists("setpriv")) || compiled != [true, true] {
        return;
    }
    let both = "./static & setpriv --reuid=65534 --regid=65534 --clear-groups ./dynamic & wait";
    std::fs::set_permissions(world.path(), Permissions::from_mode(0o755)).unwrap();
    let mut run = world.memweir();
    run.args(["color", "run", "--map", "map.toml", "--colors", "0-3", "--json", "run.json"]);
    let output = run.args(["--", "sh", "-c", both]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("2 processes could not be placed and ran as ever ("), "{said}");
    let report = world.json("run.json");
    let uncolored = report["uncolored"].as_array().expect("a list");
    let is_named = |name: &str| {
        uncolored.iter().any(|program| {
            program["program"].as_str().unwrap().ends_with(name)
                && program["processes"] == 1
                // The kernel's count may miss 32 pages per CPU.
                && program["dram_peak_bytes"].as_u64().unwrap() > 18 << 20
        })
    };
    assert!(is_named("/static") && is_named("/dynamic") && uncolored.len() == 2, "{report}");
}

#[test]
fn refuses_before_anything_starts() {
    let world = mapped();
    let refused = |arguments: &[&str], reason: &str| {
        let said = refusal(world.memweir().args(["color", "run", "--map"]).args(arguments), 2);
        assert!(said.contains(reason), "{said}");
    };
    refused(&["map.toml", "--colors", "32", "--", "echo", "x"], "color 32 is outside the map");
    refused(&["map.toml", "--colors", "0", "--", "no-such-program"], "no such program in PATH");
    world.file(
        "one.toml",
        "name = \"one\"\nbits = 33\nfunction = [{ bits = [6] }, { bits = [7, 13] }]\n",
    );
    refused(&["one.toml", "--colors", "0", "--", "echo", "x"], "allows one color only");
    let cached =
        ["map.toml", "--colors", "0", "--cache", "8M:16", "--cache-colors", "2", "--", "echo", "x"];
    refused(&cached, "no page has one of the bank colors 0");
    if let Some(program) = compile(&world, "int main(void) { return 0; }", "static", &["-static"]) {
        refused(&["map.toml", "--colors", "0", "--", &program], "it is a static program");
    }
    let mut paged = world.memweir();
    paged.env("MEMWEIR_PAGE", "x");
    paged.args(["color", "run", "--map", "map.toml", "--colors", "0", "--", "true"]);
    assert!(refusal(&mut paged, 2).contains("a paged program cannot be colored"));
}

#[test]
fn a_program_chooses_colors_for_its_own_data() {
    let Some(world) = placing(&[]) else { return };
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../plugins/preload/include");
    let source = include_str!("../../../../plugins/preload/examples/colors.c");
    let Some(program) = compile(&world, source, "colors", &[include, "-pthread"]) else { return };
    let said = |way: &str| {
        let arguments = ["color", "run", "--map", "map.toml", "--colors", "0-7", "--delivery", way];
        let output = world.memweir().args(arguments).args(["--", &program]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let expected = "colors 32\nrange: 1\nthread: 1\nbeyond: refused\n";
    let _unmoved = COMPACTION.read().unwrap_or_else(PoisonError::into_inner);
    for way in deliveries() {
        match way {
            // A frame that came out wrong may be exchanged only after the program has looked.
            "recycle" => wait_until("every frame comes out right", || said(way) == expected),
            _ => assert_eq!(said(way), expected),
        }
    }
    let alone = Command::new(&program).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&alone.stdout), "not placed\n");
}

#[test]
fn jobs_of_a_batch_have_colors_of_their_own() {
    let world = mapped();
    let job = |name: &str, colors: &str| {
        format!(
            "[[jobs]]\nname = \"{name}\"\ncommand = \"seq 200000 | sort -R | md5sum\"\n{colors}\n"
        )
    };
    let a = "[[jobs]]\nname = \"a\"\ncommand = \"./s; true\"\ncolors = \"0-3\"\n";
    let jobs = [a, &job("b", "colors = \"4-7\""), &job("c", "")].concat();
    let jobs = world.file("jobs.toml", &jobs);
    let run = |more: &[&str]| {
        let mut run = world.memweir();
        run.arg("run").args(more).args(["--policy", "round-robin"]).arg(&jobs);
        run
    };
    let unnamed = refusal(&mut run(&[]), 2);
    assert!(unnamed.contains("job `a`: has colors") && unnamed.contains("--map"), "{unnamed}");
    if !possible() {
        return;
    }
    // A walk is half a second away; what it finds must still run then.
    let slow = "#include <unistd.h>\nint main(void) { sleep(5); return 0; }";
    if compile(&world, slow, "s", &["-static"]).is_none() {
        return;
    }
    let (report, told) = both_of(&mut run(&["--map", "map.toml", "--json"]), 0);
    assert!(told.contains("job `b`: ") && told.contains(" in colors 4-7 ("), "{told}");
    assert!(told.contains("1 process could not be placed and ran as ever"), "{told}");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let coloring = &report["coloring"];
    assert!(coloring["jobs"][1]["pages"]["inside"].as_u64() > Some(0), "{coloring}");
    let uncolored = coloring["uncolored"].as_array().expect("a list");
    assert_eq!(uncolored.len(), 1, "{coloring}");
    assert!(uncolored[0]["program"].as_str().expect("a file").ends_with("/s"), "{coloring}");
    let metered = refusal(&mut run(&["--map", "map.toml", "--meter", "software"]), 2);
    assert!(metered.contains("emulator"), "{metered}");
}
