//! Shared support for the tests of real batches.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use memweir_linux::guardian;
use memweir_run::jobs::Batch;
use memweir_run::options::{GUARDIAN_ARGUMENT, RunOptions};
use memweir_run::report::BatchReport;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A shell line that uses some CPU time.
pub(crate) const SPIN: &str = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";

/// Timeout for events that must happen, however busy the machine is.
const EVENT_TIMEOUT: Duration = Duration::from_secs(300);

/// Options with which tests run: 20 ms, round robin, files below `directory`.
pub(crate) fn options(directory: &Path) -> RunOptions {
    // An empty file is an empty store.
    let store = directory.join("store.sqlite");
    std::fs::File::options().append(true).create(true).open(&store).expect("a file");
    RunOptions {
        policy: "round-robin".to_owned(),
        quantum: memweir_core::Nanos::from_millis(20),
        logs: directory.join("logs"),
        store: Some(store),
        guardian: guardian::Command {
            program: example(),
            args: vec![OsString::from(GUARDIAN_ARGUMENT)],
        },
        ..RunOptions::default()
    }
}

/// The example of this crate, which cargo builds with its tests.
pub(crate) fn example() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a program");
    let target = test.parent().and_then(Path::parent).expect("target/debug/deps/test");
    let example = target.join("examples/run_batch");
    assert!(
        example.exists(),
        "{} is missing: run all tests of the package, or `cargo build --examples` first",
        example.display()
    );
    example
}

/// A job per shell line.
pub(crate) fn shell(lines: &[&str]) -> Batch {
    let mut arguments = Vec::new();
    for line in lines {
        if !arguments.is_empty() {
            arguments.push(":::");
        }
        arguments.extend(["sh", "-c", line]);
    }
    from(&arguments)
}

/// One job from words.
pub(crate) fn commands(line: &str) -> Batch {
    from(&line.split(' ').collect::<Vec<_>>())
}

fn from(arguments: &[&str]) -> Batch {
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    Batch::from_arguments(&arguments).expect("commands")
}

/// Waits until `happened`.
pub(crate) fn until(what: &str, happened: impl Fn() -> bool) {
    let deadline = Instant::now() + EVENT_TIMEOUT;
    while !happened() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Marks a file as a program.
pub(crate) fn make_executable(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own file");
}

/// The cgroups that belong to batches of the process `pid`.
pub(crate) fn groups_of(pid: u32) -> BTreeSet<PathBuf> {
    let pid = pid.to_string();
    let mut groups = BTreeSet::new();
    let mounts = fs::read_to_string("/proc/self/mounts").expect("procfs");
    let mut pending: Vec<PathBuf> = mounts
        .lines()
        .filter(|line| line.contains(" cgroup2 ") || line.contains("freezer"))
        .filter_map(|line| line.split(' ').nth(1).map(PathBuf::from))
        .collect();
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let ours = name.starts_with("memweir")
                && name.split(|c: char| !c.is_ascii_digit()).any(|number| number == pid);
            if ours {
                groups.insert(entry.path());
            }
            pending.push(entry.path());
        }
    }
    groups
}

/// A disk of 256 KiB.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts it at `path`, where that is possible.
    pub(crate) fn mount(path: &Path) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
            .arg(path)
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(path.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let status = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(status.is_ok_and(|status| status.success()), "we have mounted it");
    }
}

/// A process that runs a batch.
pub(crate) struct Runner {
    child: Child,
    logs: PathBuf,
}

impl Runner {
    /// Starts one for shell lines. `--quantum MS` may come first among the options.
    pub(crate) fn start(directory: &Path, options: &[&str], lines: &[&str]) -> Self {
        memweir_test_support::heed_signals();
        let (quantum, options) = match options {
            ["--quantum", quantum, rest @ ..] => (*quantum, rest),
            rest => ("20", rest),
        };
        let logs = directory.join("logs");
        let mut command = Command::new(example());
        command.args(["round-robin", quantum]).arg(&logs).args(options).arg("--");
        for (index, line) in lines.iter().enumerate() {
            if index > 0 {
                command.arg(":::");
            }
            command.args(["sh", "-c", &format!("echo started; {line}")]);
        }
        let child = command
            .current_dir(directory)
            .env("XDG_DATA_HOME", directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the example");
        Self { child, logs }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the output of a job.
    pub(crate) fn log(&self, job: &str) -> Option<String> {
        fs::read_to_string(self.logs.join(format!("{job}.out"))).ok()
    }

    /// Returns true if a job has written a line.
    pub(crate) fn said(&self, job: &str, line: &str) -> bool {
        self.log(job).is_some_and(|log| log.lines().any(|written| written == line))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("our own child");
    }

    /// Returns its report once it is over.
    pub(crate) fn report(&mut self) -> BatchReport {
        let mut text = String::new();
        let stdout = self.child.stdout.as_mut().expect("piped");
        stdout.read_to_string(&mut text).expect("text");
        self.wait();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    pub(crate) fn wait(&mut self) {
        self.child.wait().expect("our own child");
    }
}
