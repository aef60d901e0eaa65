//! A tree of ordinary files that behaves like control groups, with faults to order.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{Files, KernelFiles};

/// Files of a v2 and of a v1 group in one, as the kernel makes them.
const FILES: [(&str, &str); 8] = [
    ("cgroup.freeze", "0\n"),
    ("cgroup.kill", ""),
    ("cgroup.procs", ""),
    ("cgroup.events", "populated 0\nfrozen 0\n"),
    ("cpu.stat", "usage_usec 0\nuser_usec 0\n"),
    ("freezer.state", "THAWED\n"),
    ("freezer.self_freezing", "0\n"),
    ("memory.stat", ""),
];

#[derive(Debug, Default)]
struct Log {
    faults: Vec<Fault>,
    writes: Vec<(String, String)>,
    signals: Vec<(i32, i32)>,
    vanished: BTreeSet<i32>,
}

#[derive(Debug)]
struct Fault {
    operation: String,
    path: String,
    errno: i32,
    times: usize,
}

/// The tree. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct FakeTree {
    root: Arc<tempfile::TempDir>,
    log: Arc<Mutex<Log>>,
}

impl FakeTree {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { root: Arc::new(root), log: Arc::default() }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Makes a group at `path` below the root.
    pub(crate) fn group(&self, path: &str) -> PathBuf {
        let group = self.root().join(path);
        self.create(&group).unwrap();
        group
    }

    /// Makes the next `times` uses of `operation` on paths that end with `path` fail.
    pub(crate) fn fail(&self, operation: &str, path: &str, errno: i32, times: usize) {
        let fault = Fault { operation: operation.into(), path: path.into(), errno, times };
        self.log.lock().unwrap().faults.push(fault);
    }

    /// Puts processes into a group.
    pub(crate) fn populate(&self, group: &Path, pids: &[i32]) {
        let text: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        fs::write(group.join("cgroup.procs"), text).unwrap();
        let populated = u8::from(!pids.is_empty());
        fs::write(group.join("cgroup.events"), format!("populated {populated}\nfrozen 0\n"))
            .unwrap();
    }

    /// Makes signals to `pid` fail as if it had ended.
    pub(crate) fn vanish(&self, pid: i32) {
        self.log.lock().unwrap().vanished.insert(pid);
    }

    /// Returns every path, relative to the root, to which `value` was written.
    pub(crate) fn writes_of(&self, value: &str) -> Vec<String> {
        let log = self.log.lock().unwrap();
        log.writes.iter().filter(|(_, v)| v == value).map(|(path, _)| path.clone()).collect()
    }

    /// Returns every write so far: path relative to the root, and value.
    pub(crate) fn writes(&self) -> Vec<(String, String)> {
        self.log.lock().unwrap().writes.clone()
    }

    pub(crate) fn forget_writes(&self) {
        self.log.lock().unwrap().writes.clear();
    }

    pub(crate) fn signals(&self) -> Vec<(i32, i32)> {
        self.log.lock().unwrap().signals.clone()
    }

    pub(crate) fn value(&self, file: &str) -> String {
        fs::read_to_string(self.root().join(file)).unwrap().trim().to_owned()
    }

    fn check(&self, operation: &str, path: &Path) -> io::Result<()> {
        let mut log = self.log.lock().unwrap();
        let hit = log.faults.iter_mut().find(|fault| {
            fault.times > 0 && fault.operation == operation && path.ends_with(&fault.path)
        });
        match hit {
            Some(fault) => {
                fault.times -= 1;
                Err(io::Error::from_raw_os_error(fault.errno))
            }
            None => Ok(()),
        }
    }
}

impl Files for FakeTree {
    fn create(&self, group: &Path) -> io::Result<()> {
        self.check("create", group)?;
        fs::create_dir(group)?;
        for (name, content) in FILES {
            fs::write(group.join(name), content)?;
        }
        Ok(())
    }

    fn remove(&self, group: &Path) -> io::Result<()> {
        self.check("remove", group)?;
        let busy = !KernelFiles.children(group)?.is_empty()
            || !fs::read_to_string(group.join("cgroup.procs"))?.trim().is_empty();
        if busy {
            Err(io::Error::from_raw_os_error(libc::EBUSY))
        } else {
            fs::remove_dir_all(group)
        }
    }

    fn children(&self, group: &Path) -> io::Result<Vec<PathBuf>> {
        self.check("children", group)?;
        KernelFiles.children(group)
    }

    fn read(&self, file: &Path) -> io::Result<String> {
        self.check("read", file)?;
        KernelFiles.read(file)
    }

    fn write(&self, file: &Path, value: &str) -> io::Result<()> {
        self.write_open(&self.open(file)?, file, value)
    }

    fn open(&self, file: &Path) -> io::Result<File> {
        self.check("open", file)?;
        KernelFiles.open(file)
    }

    fn write_open(&self, handle: &File, file: &Path, value: &str) -> io::Result<()> {
        self.check("write", file)?;
        handle.set_len(0)?;
        handle.write_all_at(format!("{value}\n").as_bytes(), 0)?;
        if file.ends_with("freezer.state") {
            let frozen = u8::from(value == "FROZEN");
            fs::write(file.with_file_name("freezer.self_freezing"), format!("{frozen}\n"))?;
        }
        let name = file.strip_prefix(self.root()).unwrap_or(file).display().to_string();
        self.log.lock().unwrap().writes.push((name, value.to_owned()));
        Ok(())
    }

    fn target(&self, group: &Path) -> io::Result<OwnedFd> {
        self.check("target", group)?;
        KernelFiles.target(group)
    }

    fn signal(&self, pid: i32, signal: i32) -> io::Result<()> {
        let mut log = self.log.lock().unwrap();
        if log.vanished.contains(&pid) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        log.signals.push((pid, signal));
        Ok(())
    }
}
