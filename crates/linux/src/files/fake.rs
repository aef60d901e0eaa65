//! A tree of ordinary files that behaves like the kernel's, with faults to order.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{Files, KernelFiles};

/// Files of a v2 and of a v1 control group in one, as the kernel makes them.
const CONTROL_GROUP: [(&str, &str); 8] = [
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
    /// Files that a new directory gets, and their content.
    template: Arc<[(String, &'static str)]>,
    log: Arc<Mutex<Log>>,
}

impl FakeTree {
    /// Makes a tree of control groups.
    pub(crate) fn new() -> Self {
        Self::with_template(CONTROL_GROUP.map(|(file, content)| (file.to_owned(), content)))
    }

    /// Makes a tree whose new directories get these files, below directories or not.
    pub(crate) fn with_template(files: impl IntoIterator<Item = (String, &'static str)>) -> Self {
        Self {
            root: Arc::new(tempfile::tempdir().unwrap()),
            template: files.into_iter().collect(),
            log: Arc::default(),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Makes a group at `path` below the root.
    pub(crate) fn group(&self, path: &str) -> PathBuf {
        let group = self.root().join(path);
        self.create_dir(&group).unwrap();
        group
    }

    /// Makes a file with the directories above it, or changes it.
    pub(crate) fn file(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Makes a symbolic link with the directories above it.
    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
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
    fn create_dir(&self, directory: &Path) -> io::Result<()> {
        self.check("create_dir", directory)?;
        fs::create_dir(directory)?;
        for (name, content) in &*self.template {
            let file = directory.join(name);
            fs::create_dir_all(file.parent().unwrap())?;
            fs::write(file, content)?;
        }
        Ok(())
    }

    fn remove_dir(&self, directory: &Path) -> io::Result<()> {
        self.check("remove_dir", directory)?;
        let is_own = |child: &PathBuf| {
            self.template.iter().any(|(file, _)| directory.join(file).starts_with(child))
        };
        let processes = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        if KernelFiles.children(directory)?.iter().all(is_own) && processes.trim().is_empty() {
            fs::remove_dir_all(directory)
        } else {
            Err(io::Error::from_raw_os_error(libc::EBUSY))
        }
    }

    fn children(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.check("children", directory)?;
        KernelFiles.children(directory)
    }

    fn open_dir(&self, directory: &Path) -> io::Result<OwnedFd> {
        self.check("open_dir", directory)?;
        KernelFiles.open_dir(directory)
    }

    fn writable(&self, directory: &Path) -> io::Result<()> {
        self.check("writable", directory)?;
        KernelFiles.writable(directory)
    }

    fn read(&self, file: &Path) -> io::Result<String> {
        self.check("read", file)?;
        KernelFiles.read(file)
    }

    fn read_link(&self, link: &Path) -> io::Result<PathBuf> {
        self.check("read_link", link)?;
        KernelFiles.read_link(link)
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

    fn signal(&self, pid: i32, signal: i32) -> io::Result<()> {
        let mut log = self.log.lock().unwrap();
        if log.vanished.contains(&pid) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        log.signals.push((pid, signal));
        Ok(())
    }
}
