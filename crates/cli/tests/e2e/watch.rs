//! `memweir watch` on real control groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::slice::from_ref;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{SPIN, SmallDisk, World, refusal, send, stdout_of, wait_until};

/// Events that exist on every machine: page faults in the place of reads.
pub(crate) const SOFTWARE_EVENTS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../linux/tests/data/software-events.toml");

/// A control group of one test, with the processes that a test puts there.
pub(crate) struct Group(PathBuf);

impl Group {
    /// The directory where the cgroup v2 tree is mounted.
    fn top() -> PathBuf {
        let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
        let mount = mounts.lines().find(|line| line.contains(" cgroup2 ")).expect("a v2 tree");
        PathBuf::from(mount.split(' ').nth(1).expect("a mount point"))
    }

    /// Makes a group whose name ends with `name`.
    pub(crate) fn new(name: &str) -> Self {
        let path = Self::top().join(format!("memweir-e2e-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("root makes groups");
        Self(path)
    }

    /// The path for `--cgroup`.
    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("a path of ASCII")
    }

    /// The path in the tree.
    pub(crate) fn jobid(&self) -> String {
        format!("/{}", self.0.file_name().expect("a name").to_string_lossy())
    }

    /// A watch of the group every 100 ms.
    fn watched(&self, world: &World, options: &[&str]) -> Child {
        let watch = ["watch", "--cgroup", self.path(), "--interval", "100ms"];
        world.start(&[&watch, options].concat())
    }

    /// Blocks its processes.
    pub(crate) fn freeze(&self) {
        fs::write(self.0.join("cgroup.freeze"), "1").expect("a v2 group");
    }

    /// A shell that runs `script` in the group.
    pub(crate) fn start(&self, script: &str) -> Child {
        let script = format!("echo $$ > {}/cgroup.procs; {script}", self.0.display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).stdin(Stdio::null()).spawn().expect("a shell")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        wait_until("the group is empty", || {
            remove(&self.0);
            !self.0.exists()
        });
    }
}

/// Removes a group and those below it, as far as they are empty.
fn remove(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}

/// Objects of the lines that are complete.
fn lines(text: &str) -> Vec<Value> {
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_group_is_found_measured_and_missed() {
    let Some(world) = World::of_root("making a control group") else { return };
    let pattern = format!("memweir-e2e-{}-comes*", std::process::id());
    let mut watch = world.start(&["watch", "--cgroup", &pattern, "--interval", "100ms"]);
    wait_until("the watch runs", || world.read("stderr").contains("memweir: "));
    let group = Group::new("comes");
    let jobid = group.jobid();
    let mut busy = group.start(&format!("while :; do {SPIN}; done"));
    let seen = |state: &str| lines(&world.read("stdout")).iter().any(|line| line["state"] == state);
    wait_until("its CPU time is seen", || {
        let lines = lines(&world.read("stdout"));
        lines.iter().any(|line| line["cpu_s"].as_f64().is_some_and(|cpu| cpu > 0.0))
    });
    assert!(seen("running"));
    group.freeze();
    wait_until("it is frozen", || seen("blocked"));
    busy.kill().expect("a child");
    busy.wait().expect("a child");
    drop(group);
    wait_until("its end is seen", || seen("ended"));
    send(&watch, Signal::SIGINT);
    assert_eq!(watch.wait().expect("a child").code(), Some(0));
    let lines = lines(&world.read("stdout"));
    let first = &lines[0];
    assert_eq!((&first["jobid"], &first["kind"]), (&jobid.into(), &"cgroup".into()));
    assert!(first["unix_s"].as_f64().is_some_and(|time| time > 1.7e9));
}

#[test]
fn traffic_is_counted_where_there_are_events() {
    let Some(world) = World::of_root("making a control group") else { return };
    let group = Group::new("events");
    let mut busy =
        group.start("while :; do head -c 1000000 /dev/zero | tail -c 1 > /dev/null; done");
    let options = ["--events", SOFTWARE_EVENTS, "--record", "watch.parquet"];
    let mut watch = group.watched(&world, &options);
    let counted = |line: &Value| line["read_bytes"].as_u64().is_some_and(|bytes| bytes > 0);
    wait_until("page faults are counted or refused", || {
        world.read("stderr").contains("CPU time alone")
            || lines(&world.read("stdout")).iter().any(counted)
    });
    if world.read("stderr").contains("CPU time alone") {
        memweir_test_support::skip!(Kernel, "{}", world.read("stderr"));
    }
    // The rows so far are on disk.
    assert!(world.read("watch.parquet.partial.csv").lines().count() > 1);
    send(&watch, Signal::SIGTERM);
    assert_eq!(watch.wait().expect("a child").code(), Some(0));
    assert!(world.has("watch.parquet") && !world.has("watch.parquet.partial.csv"));
    let start = fs::read(world.path().join("watch.parquet")).expect("a file");
    assert_eq!(&start[..4], b"PAR1");
    busy.kill().expect("a child");
    busy.wait().expect("a child");
}

#[test]
fn units_steps_and_containers_are_named() {
    let Some(world) = World::of_root("making a control group") else { return };
    let group = Group::new("slurm.slice");
    let container = format!("docker-{}.scope", "0123456789abcdef".repeat(4));
    for below in ["job_4711/step_batch", "a.service", &container] {
        fs::create_dir_all(Path::new(group.path()).join(below)).expect("root makes groups");
    }
    let watched = |options: &[&str]| {
        let mut watch = world.memweir();
        watch.args(["watch", "--interval", "100ms", "--for", "100ms"]).args(options);
        let jobid = group.jobid();
        let is_own = |line: &Value| line["jobid"].as_str().unwrap_or_default().starts_with(&jobid);
        let lines = lines(&stdout_of(&mut watch, 0)).into_iter().filter(is_own);
        let named = lines.map(|line| {
            (line["name"].to_string(), line["kind"].clone(), line["slurm_jobid"].clone())
        });
        let mut found: Vec<(String, Value, Value)> = named.collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    };
    let step = ("\"4711.batch\"".to_owned(), "slurm".into(), "4711".into());
    let unit = ("\"a.service\"".to_owned(), "unit".into(), Value::Null);
    let container = ("\"docker-0123456789ab\"".to_owned(), "container".into(), Value::Null);
    assert_eq!(watched(&["--slurm"]), from_ref(&step));
    assert_eq!(watched(&["--unit", "a"]), from_ref(&unit));
    assert_eq!(watched(&[]), [step, unit, container]);
}

#[test]
fn a_killed_watch_keeps_its_rows() {
    let Some(world) = World::of_root("making a control group") else { return };
    let group = Group::new("killed");
    let mut watch = group.watched(&world, &["--record", "w.parquet"]);
    wait_until("there are rows", || {
        world.has("w.parquet.partial.csv")
            && world.read("w.parquet.partial.csv").lines().count() > 2
    });
    watch.kill().expect("a child");
    watch.wait().expect("a child");
    let rows = world.read("w.parquet.partial.csv");
    assert!(rows.starts_with("unix_s,t_s,span_s,jobid,"), "{rows}");
    let fields: Vec<&str> = rows.lines().nth(1).expect("a row").split(',').collect();
    assert_eq!((fields[3], fields[5], fields[7]), (&*group.jobid(), "cgroup", "empty"));
}

#[test]
fn a_watch_whose_disk_gets_full_keeps_whole_rows_and_names_what_it_lost() {
    let Some(world) = World::of_root("making a control group") else { return };
    // A page for the metrics, and one for rows.
    let Some(_disk) = SmallDisk::mount(&world, "full", "size=8k") else { return };
    let group = Group::new("full");
    let files = ["--metrics-textfile", "full/w.prom", "--record", "full/w.csv"];
    let mut watch = group.watched(&world, &files);
    assert_eq!(watch.wait().expect("a child").code(), Some(4));
    let said = world.read("stderr");
    for lost in ["full/w.prom: ", "full/w.csv: "] {
        assert_eq!(said.matches(&format!("cannot write {lost}")).count(), 1, "{said}");
    }
    assert!(said.contains("; the rows so far are in full/w.csv.partial.csv"), "{said}");
    assert!(!world.has("full/w.csv"), "a file appears whole or not at all");
    let rows = world.read("full/w.csv.partial.csv");
    assert!(rows.lines().count() > 2 && rows.ends_with('\n'), "{rows}");
}

#[test]
fn the_watch_ends_with_its_reader() {
    let Some(world) = World::of_root("making a control group") else { return };
    let group = Group::new("reader");
    let mut command = world.plain();
    command.args(["watch", "--cgroup", group.path(), "--interval", "100ms"]);
    let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("memweir");
    drop(watch.stdout.take());
    assert_eq!(watch.wait().expect("a child").code(), Some(0));
}

#[test]
fn wrong_options_are_refused_before_anything_is_watched() {
    let world = World::new();
    for (arguments, expected) in [
        (&["--cgroup", "a["][..], "--cgroup"),
        (&["--unit", "a***"], "--unit"),
        (&["--interval", "1ms"], "100 ms"),
        (&["--meter", "software"], "perf or resctrl"),
        (&["--top", "0"], "--top"),
        (&["--record", "x.txt", "--for", "1s"], "csv"),
        (&["--events", "none.toml"], "none.toml"),
    ] {
        let error = refusal(world.memweir().arg("watch").args(arguments), 2);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn a_meter_that_was_named_must_serve() {
    if Path::new("/sys/fs/resctrl/mon_groups").exists() {
        return memweir_test_support::skip!(Present, "resctrl is mounted");
    }
    let world = World::new();
    let mut watch = world.memweir();
    let error = refusal(watch.args(["watch", "--for", "1s", "--meter", "resctrl"]), 3);
    assert!(error.contains("resctrl: "), "{error}");
}
