//! Colored programs whose pages the kernel moves.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::PoisonError;

use super::{COMPACTION, deliveries, exists, inside, mapped, possible};
use crate::support::{MEMWEIR, wait_until};

/// A setting of the machine, restored in the end.
struct Setting {
    path: &'static str,
    before: String,
}

impl Setting {
    /// Sets it; returns `None` and reports a skip where that is not possible.
    fn set(path: &'static str, value: &str) -> Option<Self> {
        let before = std::fs::read_to_string(path).ok();
        let set = before.filter(|_| std::fs::write(path, value).is_ok());
        if set.is_none() {
            memweir_test_support::skip!(Privilege, "{path} cannot be set");
        }
        set.map(|before| Self { path, before })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = std::fs::write(self.path, &self.before);
    }
}

/// Leaves every other page of 1 GiB free, so that compaction has something to do.
const FRAGMENT: &str = "import mmap, sys\n\
    m = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE)\n\
    m.madvise(mmap.MADV_NOHUGEPAGE)\n\
    for i in range(0, 1 << 30, 4096): m[i] = 1\n\
    for i in range(0, 1 << 30, 8192): m.madvise(mmap.MADV_DONTNEED, i, 4096)\n\
    print('fragmented', flush=True); sys.stdin.read()";

#[test]
fn pages_that_compaction_moved_are_moved_back() {
    if possible() && exists("python3") && Path::new(COMPACT).exists() {
        deliveries().into_iter().for_each(moved_back);
    }
}

const COMPACT: &str = "/proc/sys/vm/compact_memory";

fn moved_back(way: &str) {
    let world = mapped();
    let mut fragmented = Command::new("python3")
        .args(["-c", FRAGMENT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut line = String::new();
    let mut said = BufReader::new(fragmented.stdout.take().expect("a pipe"));
    said.read_line(&mut line).expect("it says so");
    assert_eq!(line, "fragmented\n");

    let fill = "import os, sys\nx = bytearray(b'1') * (64 << 20)\n\
        open('p', 'w').write(str(os.getpid())); os.rename('p', 'pid'); sys.stdin.read()\n\
        print(x.count(b'1'))";
    let mut run = Command::new(MEMWEIR)
        .args(["color", "run", "--map", "map.toml", "--colors", "0-3", "--json", "run.json"])
        .args(["--delivery", way, "--", "python3", "-c", fill])
        .current_dir(world.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("memweir starts");
    wait_until("the program has filled its memory", || world.has("pid"));
    let pid = world.read("pid");

    // Lets the kernel move locked pages after all, as if another program had changed memweir's
    // setting.
    let moved = COMPACTION.write().unwrap_or_else(PoisonError::into_inner);
    let setting = Setting::set("/proc/sys/vm/compact_unevictable_allowed", "1");
    if setting.is_some() {
        std::fs::write(COMPACT, "1").expect("root may compact memory");
        // The helper must notice it before the audit.
        std::thread::sleep(std::time::Duration::from_secs(1));
        let audit = inside(&world, &pid);
        assert!(audit["own"]["pages"].as_u64() > Some(16_000), "{audit}");
        // Python has about a hundred; thousands of pages were moved.
        let mappings = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
        assert!(mappings.lines().count() < 400, "{mappings}");
    }
    drop((setting, moved));
    drop(fragmented.stdin.take());
    fragmented.wait().expect("it ends");
    drop(run.stdin.take());
    let output = run.wait_with_output().expect("memweir ends");
    assert_eq!(output.stdout, b"67108864\n");
    let report = world.json("run.json");
    let moved = report["counters"]["mended_drift"].as_u64().expect("a count");
    if moved == 0 {
        memweir_test_support::skip!(
            Elusive,
            "compaction moved none of the program's pages here: {}",
            report["counters"]
        );
    }
}
