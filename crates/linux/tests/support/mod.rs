//! A test program that runs itself again: as the guardian, and as jobs whose progress shows in a
//! shared file. The standard test harness cannot do that, so this is a small one.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its part")]

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use memmap2::MmapRaw;
use memweir_core::JobId;
use memweir_linux::blocker::{Blocker, Mechanism};
use memweir_linux::launch::{Launch, Process, launch};
use memweir_linux::{blocker, guardian, leftovers};

/// Room in a counter file.
pub const COUNTERS: usize = 1024;
/// Longest time that anything may take on a busy machine.
const EVENT_TIMEOUT: Duration = Duration::from_secs(300);

/// Counters that jobs in other processes increase.
pub struct Counters {
    path: PathBuf,
    map: MmapRaw,
    /// Removes the file at the end, in the process that made it.
    _file: Option<tempfile::NamedTempFile>,
}

impl Counters {
    pub fn new() -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len((COUNTERS * 8) as u64).unwrap();
        let map = MmapRaw::map_raw(file.as_file()).unwrap();
        Self { path: file.path().to_owned(), map, _file: Some(file) }
    }

    /// Opens the counters of another process.
    pub fn open(at: &str) -> Self {
        let file = File::options().read(true).write(true).open(at).unwrap();
        Self { path: at.into(), map: MmapRaw::map_raw(&file).unwrap(), _file: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn get(&self, index: usize) -> u64 {
        counter(&self.map, index).load(Ordering::Relaxed)
    }

    /// Waits until a counter moves.
    pub fn assert_runs(&self, index: usize) {
        let before = self.get(index);
        let runs = eventually(|| self.get(index) != before);
        assert!(runs, "job with counter {index} does not run");
    }

    /// Waits until none of these counters moves any more, then sees that they stay where they are.
    pub fn assert_stand(&self, indices: &[usize]) {
        let values = || indices.iter().map(|index| self.get(*index)).collect::<Vec<_>>();
        let stand = eventually(|| {
            let before = values();
            std::thread::sleep(Duration::from_millis(100));
            before == values()
        });
        assert!(stand, "some of {indices:?} do not stop");
        let before = values();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(values(), before, "stopped jobs ran on");
    }
}

fn counter(map: &MmapRaw, index: usize) -> &AtomicU64 {
    assert!(index < COUNTERS);
    // SAFETY: the mapping is page-aligned, COUNTERS words long, lives as long as the borrow, and
    // everybody uses it through atomics.
    unsafe { &*map.as_mut_ptr().cast::<AtomicU64>().add(index) }
}

/// Returns true if `condition` comes true in time.
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + EVENT_TIMEOUT;
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// This program as a command with `args`.
pub fn this(args: &[&str]) -> (PathBuf, Vec<OsString>) {
    let program = std::env::current_exe().unwrap();
    let argv = [program.clone().into_os_string()].into_iter();
    (program, argv.chain(args.iter().map(OsString::from)).collect())
}

/// This program as a job.
pub fn job(args: &[&str]) -> Launch {
    let (program, argv) = this(args);
    let stderr = File::from(nix::unistd::dup(std::io::stderr()).unwrap());
    Launch { stderr, ..Launch::silent(program, argv).unwrap() }
}

pub fn guardian_command() -> guardian::Command {
    guardian::Command::this_program(["guardian"])
}

/// Opens a blocker of this mechanism; `None`, with a message, where the machine has none.
///
/// `MEMWEIR_TEST_MECHANISM` names the only one that is wanted, as in a guest that has been made for
/// it; there, it must not be missing.
pub fn open(mechanism: Mechanism) -> Option<Box<dyn Blocker>> {
    if let Ok(wanted) = std::env::var("MEMWEIR_TEST_MECHANISM") {
        if wanted != mechanism.name() {
            return None;
        }
        return Some(blocker::open(Some(mechanism), "test", &guardian_command()).unwrap().blocker);
    }
    match blocker::open(Some(mechanism), "test", &guardian_command()) {
        Ok(opened) => {
            assert_eq!(opened.blocker.mechanism(), mechanism);
            Some(opened.blocker)
        }
        // `make nightly` runs them where it is there.
        Err(error) if mechanism == Mechanism::SchedExt => {
            memweir_test_support::skip!(Kernel, "{error}");
            None
        }
        Err(error) => {
            memweir_test_support::skip!(Privilege, "{error}");
            None
        }
    }
}

/// Starts a job through a blocker.
pub fn start(blocker: &mut dyn Blocker, id: JobId, what: &Launch) -> Process {
    let place = blocker.prepare(id).unwrap();
    let newborn = launch(what, &place).unwrap();
    blocker.spawned(id, newborn.pid()).unwrap();
    newborn.exec().unwrap()
}

/// Starts a job that increases `count` counters from `first` on, with one thread each.
pub fn spin(
    blocker: &mut dyn Blocker,
    id: JobId,
    at: &Path,
    first: usize,
    count: usize,
) -> Process {
    let at = at.to_str().unwrap();
    start(blocker, id, &job(&["spin", at, &first.to_string(), &count.to_string()]))
}

/// Ends a job and gives its place back.
pub fn end(blocker: &mut dyn Blocker, id: JobId, mut process: Process) {
    blocker.signal(id, libc::SIGKILL).unwrap();
    // The v1 freezer lets it die at the next run.
    blocker.run_all().unwrap();
    process.wait().unwrap();
    assert!(eventually(|| !blocker.populated(id).unwrap()), "processes of job {id} are left");
    blocker.retire(id).unwrap();
}

/// Returns the directories of memweir's groups whose name contains `text`.
pub fn groups(text: &str) -> Vec<PathBuf> {
    let mut groups = leftovers::groups();
    groups.retain(|path| path.file_name().unwrap().to_string_lossy().contains(text));
    groups
}

/// Returns the directory of this process's group in the unified hierarchy, which must be mounted.
pub fn own_group() -> PathBuf {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let top = mounts.lines().find(|line| line.contains(" cgroup2 ")).unwrap();
    Path::new(top.split(' ').nth(1).unwrap()).join(own)
}

/// Returns the processes of this program with their arguments, which are empty for a moment in
/// exec.
pub fn own_processes() -> Vec<(i32, Vec<String>)> {
    let program = std::env::current_exe().unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else { continue };
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        // Asked after the arguments: a process that ends in between is left out.
        if std::fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == program) {
            let command = String::from_utf8_lossy(&command);
            found.push((pid, command.split_terminator('\0').map(ToOwned::to_owned).collect()));
        }
    }
    found
}

/// Returns those of them that have `at`, the path of a counter file, among their arguments.
pub fn jobs_of(at: &str) -> Vec<(i32, Vec<String>)> {
    let mut found = own_processes();
    found.retain(|(_, args)| args.iter().any(|arg| arg == at));
    found
}

/// Kills those processes and no others, and waits until they are gone.
pub fn kill_jobs(at: &str) {
    assert!(eventually(|| {
        let left = jobs_of(at);
        for (pid, _) in &left {
            let pid = nix::unistd::Pid::from_raw(*pid);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL);
        }
        left.is_empty()
    }));
}

/// Runs a part of the program that is not a test; `None` if `args` asks for none of them.
fn role(args: &[String]) -> Option<ExitCode> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["guardian"] => guardian::main().unwrap(),
        ["spin", at, first, count] => spin_for_ever(at, number(first), number(count)),
        // A child in a session of its own, with the parent waiting for it.
        ["spin-apart", at, index] => {
            let mut child = child(at, index);
            child.wait().unwrap();
        }
        // A daemon: its parent is gone at once.
        ["spin-daemon", at, index] => drop(child(at, index)),
        ["fork", count] => {
            let children: Vec<_> = (0..number(count))
                .map(|_| Command::new("/bin/sleep").arg("1000").spawn().unwrap())
                .collect();
            children.into_iter().for_each(|mut child| drop(child.wait()));
        }
        ["nap", millis] => std::thread::sleep(Duration::from_millis(number(millis) as u64)),
        ["wait-for-no-event", millis] => {
            if is_interrupted_within(number(millis)) {
                return Some(ExitCode::from(INTERRUPTED));
            }
        }
        ["stubborn", at, index] => {
            // SAFETY: SIG_IGN installs no handler.
            unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
            spin_for_ever(at, number(index), 1);
        }
        _ => return None,
    }
    Some(ExitCode::SUCCESS)
}

/// Exit code of a job whose system call was interrupted.
pub const INTERRUPTED: u8 = 9;

/// Waits for that long in `epoll_wait`, which the kernel does not resume after a stop.
fn is_interrupted_within(millis: usize) -> bool {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: the kernel writes one event at most, into `event`.
    let ready = unsafe {
        let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        libc::epoll_wait(epoll, &raw mut event, 1, millis as i32)
    };
    let error = std::io::Error::last_os_error();
    assert!(ready == 0 || error.kind() == std::io::ErrorKind::Interrupted, "{error}");
    ready != 0
}

fn child(at: &str, index: &str) -> std::process::Child {
    let (program, argv) = this(&["spin", at, index, "1"]);
    let mut command = Command::new(program);
    command.args(&argv[1..]);
    // SAFETY: setsid is async-signal-safe.
    unsafe { command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(Into::into)) };
    command.spawn().unwrap()
}

fn number(text: &str) -> usize {
    text.parse().unwrap()
}

fn spin_for_ever(at: &str, first: usize, count: usize) {
    let counters = Counters::open(at);
    std::thread::scope(|scope| {
        for index in first..first + count {
            let counter = counter(&counters.map, index);
            scope.spawn(move || {
                loop {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
}

/// A test, by the name of its function.
pub struct Test {
    name: &'static str,
    run: Box<dyn Fn()>,
}

/// Makes a test of a function.
pub fn test<F: Fn() + 'static>(run: F) -> Test {
    let path = std::any::type_name::<F>();
    let name = path.rsplit("::").next().unwrap_or(path);
    Test { name, run: Box::new(run) }
}

/// Runs one of the roles, or the tests whose names contain the first argument.
pub fn main(tests: &[Test], roles: impl Fn(&[String]) -> Option<ExitCode>) -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = role(&args).or_else(|| roles(&args)) {
        return code;
    }
    let filter = args.iter().find(|arg| !arg.starts_with('-'));
    let chosen: Vec<&Test> = tests
        .iter()
        .filter(|test| filter.is_none_or(|filter| test.name.contains(filter)))
        .collect();
    if args.iter().any(|arg| arg == "--list") {
        chosen.iter().for_each(|test| println!("{}: test", test.name));
        return ExitCode::SUCCESS;
    }
    let mut failed = Vec::new();
    for Test { name, run } in &chosen {
        let passed = catch_unwind(AssertUnwindSafe(run)).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        if !passed {
            failed.push(*name);
        }
    }
    println!("\n{} tests, {} failed {failed:?}", chosen.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
