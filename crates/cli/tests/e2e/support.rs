//! Shared support of the tests: a command in surroundings of its own, and queries to the system.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use memweir_test_support::heed_signals;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// The command under test.
pub(crate) const MEMWEIR: &str = env!("CARGO_BIN_EXE_memweir");

/// The emulator of programs.
pub(crate) const EMULATOR: &str = "qemu-x86_64";

/// A shell command that uses the CPU for some tenths of a second and does nothing else.
pub(crate) const SPIN: &str = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";

/// The beginning of a calibration, behind which a test puts the tables that it needs.
const CALIBRATION: &str = r#"
format = 1
date = "2026-01-01T00:00:00Z"
effort = "quick"
kernel = "copy"
[machine]
cpu = "A Processor"
cores = 2
memory = 8589934592
"#;

/// Timeout for events that must happen soon on a machine without other work. Only a broken memweir
/// makes a test wait so long.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(300);

/// The rows of a CSV file with a head.
pub(crate) struct Rows {
    names: csv::StringRecord,
    rows: Vec<csv::StringRecord>,
}

impl Rows {
    pub(crate) fn of(text: &str) -> Self {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().expect("a head").clone();
        Self { names, rows: reader.records().map(|row| row.expect("a row")).collect() }
    }

    /// A column of numbers.
    pub(crate) fn numbers(&self, name: &str) -> impl Iterator<Item = f64> {
        let place = self.names.iter().position(|other| other == name);
        let place = place.unwrap_or_else(|| panic!("no column {name} in {:?}", self.names));
        self.rows.iter().map(move |row| row[place].parse().expect("a number"))
    }

    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.numbers(name).sum()
    }
}

/// The variable by which processes of a test are found, whatever became of their parents.
pub(crate) const MARK: &str = "MEMWEIR_E2E_WORLD";

/// A directory for one test, in which memweir finds no store and no calibration of the user.
pub(crate) struct World {
    directory: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        heed_signals();
        Self { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    /// A world for a test that needs these programs; `None`, and a report of a skip, without one.
    pub(crate) fn with(programs: &[&str]) -> Option<Self> {
        programs.iter().all(|program| exists(program)).then(Self::new)
    }

    /// A world for a test that needs root to do this; `None`, and a report of a skip, without.
    pub(crate) fn of_root(what: &str) -> Option<Self> {
        root(what).then(Self::new)
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A file with this content.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).expect("a file in the temporary directory");
        path
    }

    /// Writes a calibration with these tables to `platform.toml`.
    pub(crate) fn calibrated(&self, tables: &str) {
        self.file("platform.toml", &format!("{CALIBRATION}{tables}"));
    }

    /// The content of a file.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// The JSON of a file.
    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path().join(name).exists()
    }

    /// memweir, run inside this world.
    pub(crate) fn memweir(&self) -> Command {
        let mut command = Command::from_std(self.plain());
        command.timeout(COMMAND_TIMEOUT);
        command
    }

    /// memweir without input: a program that runs twice cannot read a pipe.
    pub(crate) fn without_input(&self) -> std::process::Command {
        let mut command = self.plain();
        command.stdin(Stdio::null());
        command
    }

    /// memweir in the background, with its output in `stdout` and `stderr`.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let create = |name: &str| {
            Stdio::from(std::fs::File::create(self.path().join(name)).expect("an output file"))
        };
        self.plain()
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(create("stdout"))
            .stderr(create("stderr"))
            .spawn()
            .expect("memweir starts")
    }

    pub(crate) fn plain(&self) -> std::process::Command {
        self.surrounded(std::process::Command::new(MEMWEIR))
    }

    /// This command inside this world: its directory, its store, and found by its mark.
    pub(crate) fn surrounded(&self, mut command: std::process::Command) -> std::process::Command {
        command
            .current_dir(self.path())
            .env("XDG_DATA_HOME", self.path().join("data"))
            .env(MARK, self.path());
        command
    }

    /// Processes that descend from a command of this world, memweir's own included.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let mark = format!("{MARK}={}", self.path().display());
        let of_this_world = |pid: &i32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
        };
        all_processes().into_iter().filter(of_this_world).collect()
    }
}

impl Drop for World {
    /// Leaves nothing behind when a test fails in the middle.
    fn drop(&mut self) {
        for pid in self.processes() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

fn all_processes() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Waits until `so` is true, and fails if it never is.
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < COMMAND_TIMEOUT, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to memweir itself.
pub(crate) fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).expect("memweir is there to be signaled");
}

/// Standard error of a command that must fail with this code and print no result.
pub(crate) fn refusal(command: &mut Command, code: i32) -> String {
    let output = command.assert().code(code).get_output().clone();
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).expect("messages are UTF-8")
}

/// Standard output and standard error of a command that must end with this code.
pub(crate) fn both_of(command: &mut Command, code: i32) -> (String, String) {
    let output = command.assert().code(code).get_output().clone();
    let [stdout, stderr] = [output.stdout, output.stderr]
        .map(|text| String::from_utf8(text).expect("results and messages are UTF-8"));
    (stdout, stderr)
}

/// Standard output of such a command.
pub(crate) fn stdout_of(command: &mut Command, code: i32) -> String {
    both_of(command, code).0
}

/// Standard error of such a command, whatever it prints.
pub(crate) fn stderr_of(command: &mut Command, code: i32) -> String {
    both_of(command, code).1
}

/// The JSON that a command prints, which must end with this code.
pub(crate) fn json(command: &mut Command, code: i32) -> Value {
    let output = command.assert().code(code).get_output().clone();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error} in {}", String::from_utf8_lossy(&output.stdout));
    })
}

/// The same without the arguments that gave it, which may differ where results must not.
pub(crate) fn result(command: &mut Command, code: i32) -> Value {
    let mut value = json(command, code);
    value.as_object_mut().expect("an object").remove("memweir").expect("the run's arguments");
    value
}

/// Returns true if a program is installed; reports a skip if not.
pub(crate) fn exists(program: &str) -> bool {
    let mut shell = Command::new("sh");
    let found = shell.args(["-c", &format!("command -v {program}")]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        memweir_test_support::skip!(Program, "{program} is not installed");
    }
    found
}

/// The path of the compiled program; `None` without a compiler.
pub(crate) fn compile(world: &World, source: &str, name: &str, options: &[&str]) -> Option<String> {
    if !exists("gcc") {
        return None;
    }
    let file = world.file(&format!("{name}.c"), source);
    let program = world.path().join(name);
    let mut gcc = std::process::Command::new("gcc");
    let status = gcc.args(options).arg("-o").arg(&program).arg(file).status();
    let compiled = status.is_ok_and(|status| status.success()) && Path::new(&program).exists();
    if !compiled {
        memweir_test_support::skip!(Program, "gcc {options:?} does not work here");
    }
    compiled.then(|| program.display().to_string())
}

/// A tmpfs of a limited size in a world, as long as this lives.
pub(crate) struct SmallDisk(pub(crate) PathBuf);

impl SmallDisk {
    /// Mounts it at `name`; reports a skip where that is not possible.
    pub(crate) fn mount(world: &World, name: &str, options: &str) -> Option<Self> {
        let path = world.path().join(name);
        std::fs::create_dir(&path).expect("a directory");
        let (tmpfs, flags) = (Some("tmpfs"), MsFlags::empty());
        if let Err(error) = mount(tmpfs, &path, tmpfs, flags, Some(options)) {
            memweir_test_support::skip!(
                Privilege,
                "a small file system cannot be mounted here: {error}"
            );
            return None;
        }
        Some(Self(path))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        umount2(&self.0, MntFlags::MNT_DETACH).expect("it is mounted");
    }
}

/// Returns true if this process is root, as making cgroups requires; reports a skip if not.
pub(crate) fn root(what: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        memweir_test_support::skip!(Privilege, "{what} needs root");
    }
    root
}

/// A group of processes that has little room, removed in the end.
pub(crate) struct SmallGroup {
    directory: PathBuf,
    /// The file of its limit.
    limit: &'static str,
}

impl SmallGroup {
    /// Makes one with so many bytes of memory; returns `None` and reports a skip where that is not
    /// possible.
    pub(crate) fn of_memory(bytes: u64) -> Option<Self> {
        let (first, second) = ("memory.limit_in_bytes", "memory.max");
        Self::make(bytes, [("/sys/fs/cgroup/memory", first), ("/sys/fs/cgroup", second)])
    }

    /// The same with so many threads.
    pub(crate) fn of_threads(count: u64) -> Option<Self> {
        let limit = "pids.max";
        Self::make(count, [("/sys/fs/cgroup/pids", limit), ("/sys/fs/cgroup", limit)])
    }

    /// The same with the time of one processor.
    pub(crate) fn of_one_processor() -> Option<Self> {
        // Of a period of 100 ms, the kernel's default.
        let (first, second) = ("cpu.cfs_quota_us", "cpu.max");
        Self::make(100_000, [("/sys/fs/cgroup/cpu", first), ("/sys/fs/cgroup", second)])
    }

    fn make(limit: u64, hierarchies: [(&str, &'static str); 2]) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("memweir-e2e-{}-{number}", std::process::id());
        let made = hierarchies.into_iter().find_map(|(hierarchy, file)| {
            let group = Self { directory: Path::new(hierarchy).join(&name), limit: file };
            std::fs::create_dir(&group.directory).ok()?;
            std::fs::write(group.directory.join(file), limit.to_string()).ok().map(|()| group)
        });
        if made.is_none() {
            let why = format!("no control group with `{}` can be made", hierarchies[1].1);
            memweir_test_support::skip!(Privilege, "{why}");
        }
        made
    }

    /// Returns its threads.
    pub(crate) fn threads(&self) -> u64 {
        let count = std::fs::read_to_string(self.directory.join("pids.current"));
        count.expect("a group of threads").trim().parse().expect("a number")
    }

    /// Sets another limit.
    pub(crate) fn set(&self, limit: u64) {
        let file = self.directory.join(self.limit);
        std::fs::write(file, limit.to_string()).expect("root may");
    }

    /// File to which a process writes its pid to enter.
    pub(crate) fn entrance(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }
}

impl Drop for SmallGroup {
    fn drop(&mut self) {
        // The last process may take a moment to be gone for good.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
