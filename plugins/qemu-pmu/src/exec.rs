//! Programs that the job executes: they must run in the emulator, too, which would start them
//! natively.
//!
//! Before the emulator performs `execve`, this replaces the process by another emulator with the
//! same plugin, provided that the target can run there. Otherwise nothing happens here and the
//! program's own system call continues, with its own result. This includes targets that get rights
//! by their file (set-user-ID, set-group-ID, capabilities), because an emulator would not get them,
//! and programs that could not open the job's counters.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memweir_abi::kernel::image::{HEAD, Image, SCRIPT_DEPTH, changes_user};
use memweir_abi::softpmu::program::{EmulatorCommand, GateOption, script_argv};

use crate::memory::{read, read_part};

/// Longest argument list that is copied: the kernel's own limit for one string times many.
const MAX_STRINGS: usize = 1 << 20;

/// The command line that starts this emulator again.
pub(crate) struct Emulator {
    command: EmulatorCommand,
    /// Working directory at the start, against which the emulator resolves the program's path.
    origin: PathBuf,
}

impl Emulator {
    /// Returns the running emulator and the library that contains this code.
    pub(crate) fn this(page: &CStr, llc: &CStr, gate: Option<GateOption>) -> io::Result<Self> {
        let emulator = std::fs::read_link("/proc/self/exe")?;
        Ok(Self {
            command: EmulatorCommand {
                emulator: emulator.into_os_string().as_bytes().to_vec(),
                plugin: own_path()?,
                page: page.to_bytes().to_vec(),
                llc: llc.to_bytes().to_vec(),
                gate,
            },
            origin: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
        })
    }

    /// Replaces the process. Returns only if that was not possible: the call will fail on its own,
    /// or the target will run natively.
    ///
    /// The addresses are the program's own and need not be valid.
    pub(crate) fn execute(
        &self,
        directory: c_int,
        path: u64,
        argv: u64,
        env: u64,
        flags: c_int,
        program: impl Fn() -> Option<Vec<u8>>,
    ) {
        let found = || {
            let path = self.resolve(directory, string(path)?, flags, program)?;
            let (path, argv) = target(path, strings(argv)?)?;
            Some((path, argv, strings(env)?))
        };
        if let Some((path, argv, env)) = found()
            && self.can_count()
        {
            self.replace(&path, &argv, env);
        }
    }

    /// Returns true if another emulator can open the job's counters. It cannot in a PID or user
    /// namespace of its own, as another user, or once memweir has ended.
    fn can_count(&self) -> bool {
        let Ok(page) = CString::new(&self.command.page[..]) else { return false };
        let (here, both) = (libc::AT_FDCWD, libc::R_OK | libc::W_OK);
        // SAFETY: a C string, and a call that changes nothing.
        unsafe { libc::faccessat(here, page.as_ptr(), both, libc::AT_EACCESS) == 0 }
    }

    /// Returns the path that another process would use for the same file.
    fn resolve(
        &self,
        directory: c_int,
        path: Vec<u8>,
        flags: c_int,
        program: impl Fn() -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        if path.is_empty() {
            return (flags & libc::AT_EMPTY_PATH != 0).then(|| open_file(directory)).flatten();
        }
        let name = String::from_utf8_lossy(&path).into_owned();
        let own = format!("/proc/{}/exe", std::process::id());
        if name == "/proc/self/exe" || name == "/proc/thread-self/exe" || name == own {
            // For the program this is its own file, not the emulator.
            let program = program()?;
            let absolute = self.origin.join(OsStr::from_bytes(&program));
            return Some(absolute.into_os_string().as_bytes().to_vec());
        }
        let descriptor = name.strip_prefix("/proc/self/fd/").or(name.strip_prefix("/dev/fd/"));
        if let Some(number) = descriptor.and_then(|number| number.parse().ok()) {
            return open_file(number);
        }
        if path.starts_with(b"/") || directory == libc::AT_FDCWD {
            return Some(path);
        }
        let base = std::fs::read_link(format!("/proc/self/fd/{directory}")).ok()?;
        Some(base.join(OsStr::from_bytes(&path)).into_os_string().as_bytes().to_vec())
    }

    fn replace(&self, path: &[u8], argv: &[Vec<u8>], env: Vec<Vec<u8>>) {
        let line = self.command.line(path, argv, env);
        let (Some(argv), Some(env)) = (c_strings(line.argv), c_strings(line.env)) else { return };
        let pointers = |strings: &[CString]| -> Vec<*const c_char> {
            strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (argv_pointers, env_pointers) = (pointers(&argv), pointers(&env));
        // SAFETY: both arrays end with null and their strings outlive the call, which does not
        // return if it succeeds.
        unsafe { libc::execve(argv[0].as_ptr(), argv_pointers.as_ptr(), env_pointers.as_ptr()) };
    }
}

/// Returns a path for an open file that still works after exec. A file without a name is kept open.
fn open_file(number: c_int) -> Option<Vec<u8>> {
    let link = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    if link.is_absolute() && link.is_file() {
        return Some(link.into_os_string().as_bytes().to_vec());
    }
    // SAFETY: duplicates a descriptor (exec inherits the copy); a wrong number is an error.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD, 3) };
    (copy >= 0).then(|| format!("/proc/self/fd/{copy}").into_bytes())
}

/// Follows scripts to the program that finally runs; `None` if it cannot run in the emulator.
fn target(mut path: Vec<u8>, mut argv: Vec<Vec<u8>>) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    for _ in 0..SCRIPT_DEPTH {
        let file = Path::new(OsStr::from_bytes(&path));
        let head = head(file)?;
        match Image::of(&head) {
            Image::X86_64 => return (!gains_rights(file)).then_some((path, argv)),
            Image::Script { interpreter, argument } => {
                argv = script_argv(interpreter, argument, &path, &argv);
                path = interpreter.to_vec();
            }
            Image::Foreign(_) | Image::Unfit(_) => return None,
        }
    }
    None
}

/// Returns the first bytes of a program that this process may execute in the emulator.
fn head(path: &Path) -> Option<Vec<u8>> {
    let c_path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: a C string, and a call that changes nothing.
    let allowed =
        unsafe { libc::faccessat(libc::AT_FDCWD, c_path.as_ptr(), libc::X_OK, libc::AT_EACCESS) };
    if allowed != 0 || !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    // A program that may be executed but not read cannot be emulated either.
    let mut head = Vec::with_capacity(HEAD);
    File::open(path).ok()?.take(HEAD as u64).read_to_end(&mut head).ok()?;
    Some(head)
}

/// Returns true if the program has other rights than this process once the kernel has started it.
fn gains_rights(program: &Path) -> bool {
    let Ok(status) = std::fs::metadata(program) else { return false };
    // SAFETY: both always succeed.
    let effective = unsafe { (libc::geteuid(), libc::getegid()) };
    changes_user(status.mode(), (status.uid(), status.gid()), effective)
        || effective.0 != 0 && has_capabilities(program)
}

fn has_capabilities(program: &Path) -> bool {
    let Ok(path) = CString::new(program.as_os_str().as_bytes()) else { return false };
    let (name, nothing) = (c"security.capability".as_ptr(), std::ptr::null_mut());
    // SAFETY: both are C strings, and of the value only the length is asked for.
    unsafe { libc::getxattr(path.as_ptr(), name, nothing, 0) > 0 }
}

fn c_strings(strings: Vec<Vec<u8>>) -> Option<Vec<CString>> {
    strings.into_iter().map(|s| CString::new(s).ok()).collect()
}

/// Returns the path of this library's file.
fn own_path() -> io::Result<Vec<u8>> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address is that of a function here, and `info` is large enough.
    let info = unsafe {
        let here = own_path as fn() -> io::Result<Vec<u8>> as *const libc::c_void;
        if libc::dladdr(here, info.as_mut_ptr()) == 0 {
            return Err(io::Error::other("the plugin does not know its own file"));
        }
        info.assume_init()
    };
    // SAFETY: dladdr succeeded, so the name is a C string.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    let path = std::fs::canonicalize(OsStr::from_bytes(name.to_bytes()))?;
    Ok(path.into_os_string().as_bytes().to_vec())
}

/// Reads a C string of the program; `None` where it is not readable, as the system call would find
/// too.
fn string(mut address: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut page = [0; 4096];
    while text.len() < MAX_STRINGS {
        // Never across a page boundary: the next page may not exist.
        let room = 4096 - (address % 4096) as usize;
        let got = read_part(address, &mut page[..room]);
        if got == 0 {
            return None;
        }
        match page[..got].iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend_from_slice(&page[..end]);
                return Some(text);
            }
            None => text.extend_from_slice(&page[..got]),
        }
        address += got as u64;
    }
    None
}

/// Reads an array of C strings of the program; a null array is an empty one, as in Linux.
fn strings(mut address: u64) -> Option<Vec<Vec<u8>>> {
    let mut list = Vec::new();
    while address != 0 && list.len() < MAX_STRINGS {
        let mut pointer = [0; 8];
        if !read(address, &mut pointer) {
            return None;
        }
        match u64::from_le_bytes(pointer) {
            0 => break,
            pointer => list.push(string(pointer)?),
        }
        address += 8;
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};

    #[test]
    fn strings_are_copied_and_wild_pointers_refused() {
        let text = [b'x'; 9000];
        let long = CString::new(&text[..]).unwrap();
        assert_eq!(string(long.as_ptr() as u64).unwrap(), text);
        let list = [long.as_ptr(), std::ptr::null()];
        assert_eq!(strings(list.as_ptr() as u64).unwrap().len(), 1);
        assert_eq!(strings(0), Some(Vec::new()));
        assert_eq!(string(8), None);
        assert_eq!(strings(8), None);
    }

    #[test]
    fn scripts_lead_to_their_interpreter() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o755).open(&script).unwrap();
        std::io::Write::write_all(&mut file, b"#!/bin/sh -e\ntrue\n").unwrap();
        drop(file);
        let path = script.as_os_str().as_bytes().to_vec();
        let found = target(path.clone(), vec![b"script".to_vec(), b"1".to_vec()]);
        let expected = [b"/bin/sh".to_vec(), b"-e".to_vec(), path.clone(), b"1".to_vec()];
        assert_eq!(found, Some((b"/bin/sh".to_vec(), expected.to_vec())));
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(target(path, Vec::new()), None, "not executable");
        assert_eq!(target(b"/nonexistent".to_vec(), Vec::new()), None);
    }

    /// The kernel starts a script with the rights of its interpreter.
    #[test]
    fn only_a_program_gets_rights_by_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32, owner: (u32, u32)| {
            let path = directory.path().join(name);
            match name {
                "script" => std::fs::write(&path, "#!/bin/sh\n").unwrap(),
                _ => std::fs::copy("/bin/sh", &path).map(drop).unwrap(),
            }
            chown(&path, Some(owner.0), Some(owner.1))?;
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
            Ok::<_, io::Error>(target(path.as_os_str().as_bytes().to_vec(), Vec::new()))
        };
        // SAFETY: both always succeed.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        let Ok(script) = file("script", 0o6755, (user + 1, group + 1)) else {
            return memweir_test_support::skip!(Privilege, "only root gives files away");
        };
        assert!(script.is_some());
        let is_emulated = |mode, owner| file("sh", mode, owner).unwrap().is_some();
        assert!(!is_emulated(0o4755, (user + 1, group)));
        assert!(!is_emulated(0o2755, (user, group + 1)));
        assert!(is_emulated(0o4755, (user, group + 1)) && is_emulated(0o2755, (user + 1, group)));
    }

    #[test]
    fn five_scripts_may_interpret_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let mut interpreter = b"/bin/sh".to_vec();
        let found = (1..=6).map(|number| {
            let script = directory.path().join(number.to_string());
            std::fs::write(&script, [&b"#!"[..], &interpreter[..], &b"\n"[..]].concat()).unwrap();
            std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
            interpreter = script.as_os_str().as_bytes().to_vec();
            target(interpreter.clone(), Vec::new()).map(|(path, _)| path)
        });
        let sh = || Some(b"/bin/sh".to_vec());
        let expected = [sh(), sh(), sh(), sh(), sh(), None];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
