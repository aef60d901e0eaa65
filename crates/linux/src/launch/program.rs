//! Finding a job's program, and explaining to users why it cannot be executed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use memweir_core::input::Refusal;
use memweir_core::names::nearest;
use object::elf::ELFMAG;

use crate::image;

/// Returns the file that `name` stands for, as an absolute path: itself if it contains a slash
/// (relative to memweir's directory), else the first executable of that name in the directories of
/// `path_env` (the value of `PATH`).
///
/// # Errors
///
/// A missing program, with the nearest name on the path; a directory; a file that may not be
/// executed.
pub fn resolve_program(name: &OsStr, path_env: &OsStr) -> Result<PathBuf, Refusal> {
    if name.is_empty() {
        return Err(Refusal::plain("the program's name is empty"));
    }
    if name.as_bytes().contains(&b'/') {
        let path = std::path::absolute(name).unwrap_or_else(|_| PathBuf::from(name));
        return check(&path)
            .map(|()| path)
            .map_err(|error| near_in_directory(error, Path::new(name)));
    }
    let mut refused = None;
    for directory in std::env::split_paths(path_env) {
        // An empty entry of PATH means the current directory.
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { &directory };
        let path = directory.join(name);
        let path = std::path::absolute(&path).unwrap_or(path);
        match check(&path) {
            Ok(()) => return Ok(path),
            Err(_) if !path.exists() => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| not_on_path(name, path_env)))
}

/// Checks that `path` is a file that this user may execute.
fn check(path: &Path) -> Result<(), Refusal> {
    let shown = path.display();
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Refusal::plain(format!("{shown} does not exist")),
        _ => Refusal::plain(format!("{shown}: {error}")),
    })?;
    if metadata.is_dir() {
        return Err(Refusal::plain(format!("{shown} is a directory, not a program")));
    }
    if !metadata.is_file() {
        return Err(Refusal::plain(format!("{shown} is not a regular file")));
    }
    let allowed = nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok();
    if !allowed || metadata.permissions().mode() & 0o111 == 0 {
        let error = Refusal::plain(format!("{shown} may not be executed"));
        return Err(error.help(format!("chmod +x {shown}, or name its interpreter first")));
    }
    Ok(())
}

fn not_on_path(name: &OsStr, path_env: &OsStr) -> Refusal {
    let name = name.to_string_lossy();
    let names: Vec<String> =
        std::env::split_paths(path_env).flat_map(|directory| executables(&directory)).collect();
    let error = Refusal::plain(format!("no program `{name}` in the directories of PATH"));
    if Path::new(&*name).is_file() {
        return error.help(format!("write `./{name}` for the file in this directory"));
    }
    match nearest(&name, names.iter().map(String::as_str)) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error,
    }
}

fn near_in_directory(error: Refusal, path: &Path) -> Refusal {
    if error.help.is_some() || path.exists() {
        return error;
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return error };
    let names = executables(directory);
    match nearest(&name.to_string_lossy(), names.iter().map(String::as_str)) {
        Some(near) => {
            let near = directory.join(near);
            error.help(format!("did you mean `{}`?", near.display()))
        }
        None => error,
    }
}

/// Returns the names of the programs in a directory; none if it cannot be read.
fn executables(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| check(&entry.path()).is_ok())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Explains why execve of `program` has failed with `errno`, with help where there is any.
pub(super) fn explain_exec_failure(program: &Path, errno: i32) -> Option<String> {
    let shown = program.display();
    match errno {
        libc::ENOENT if program.exists() => Some(match interpreter(program) {
            Some(interpreter) => format!(
                "{shown} asks for the interpreter {}, which does not exist",
                Path::new(&interpreter).display()
            ),
            None => format!("the interpreter that {shown} asks for does not exist"),
        }),
        libc::ENOENT => Some(format!("{shown} does not exist")),
        libc::EACCES => check(program).err().map_or_else(
            || {
                Some(format!(
                    "{shown} or its interpreter may not be executed; is its file system mounted noexec?"
                ))
            },
            |error| Some(error.help.unwrap_or(error.reason)),
        ),
        libc::ENOEXEC => Some(unknown_format(program)),
        libc::ETXTBSY => Some(format!("somebody is still writing to {shown}")),
        libc::E2BIG => Some("the arguments and the environment are too long together".to_owned()),
        _ => None,
    }
}

fn unknown_format(program: &Path) -> String {
    let shown = program.display();
    // An unreadable program has no help to give; the errno is reported all the same.
    let start = image::head(program).unwrap_or_default();
    if start.starts_with(&ELFMAG) {
        format!("{shown} was built for another kind of processor")
    } else if start.is_empty() {
        format!("{shown} is empty")
    } else {
        format!("{shown} is no binary; if it is a script, its first line must be like #!/bin/sh")
    }
}

/// Returns the interpreter that a script or a dynamic binary names.
fn interpreter(program: &Path) -> Option<OsString> {
    let head = image::head(program).ok()?;
    let Some(line) = head.strip_prefix(b"#!") else { return image::loader(program) };
    let line = line.split(|b| *b == b'\n').next()?;
    let name = line.split(|b| b" \t".contains(b)).find(|word| !word.is_empty())?;
    Some(OsStr::from_bytes(name).to_owned())
}
