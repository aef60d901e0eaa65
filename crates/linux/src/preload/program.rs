//! Checks, by a program's file, that the loader will load the preload library into it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use memweir_abi::kernel::image::{Image, SCRIPT_DEPTH};
use memweir_core::input::Refusal;

use crate::image;
use crate::launch::resolve_program;

/// Refuses programs that the loader would start without the library: static ones, those that
/// change user, those for other machines, and scripts with such an interpreter.
///
/// # Errors
/// The reason, and help.
pub fn check_program(program: &OsStr) -> Result<(), Refusal> {
    let mut at = locate(program)?;
    for _ in 0..SCRIPT_DEPTH {
        let refuse = |reason: &str, help: &str| {
            Err(Refusal::new(format!("{}: {reason}", at.display()), help))
        };
        let unreadable = |error: std::io::Error| {
            Refusal::new(format!("{}: {error}", at.display()), "name a program that can be read")
        };
        let mode = at.metadata().map_err(unreadable)?.permissions().mode();
        if mode & 0o6000 != 0 {
            return refuse(
                "it is set-user-ID or set-group-ID, and the loader preloads nothing into such programs",
                "run a copy without that bit, as the user that it would change to",
            );
        }
        match Image::of(&image::head(&at).map_err(unreadable)?) {
            Image::X86_64 if image::loader(&at).is_some() => return Ok(()),
            Image::X86_64 => {
                return refuse(
                    "it is a static program: it has no loader that could preload anything",
                    "build it dynamically linked, or run the original program",
                );
            }
            Image::Foreign(reason) | Image::Unfit(reason) => {
                return refuse(
                    &format!("it is {reason}"),
                    "only dynamic x86-64 programs can have a library preloaded",
                );
            }
            Image::Script { interpreter, .. } => {
                at = Path::new(OsStr::from_bytes(interpreter)).to_owned();
            }
        }
    }
    Err(Refusal::new(
        format!("{}: its interpreters are scripts too many times", program.display()),
        "name the interpreter itself",
    ))
}

/// Returns the file that `execvp` would start.
fn locate(program: &OsStr) -> Result<PathBuf, Refusal> {
    if program.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    resolve_program(program, &path).map_err(|_| {
        Refusal::new(
            format!("{}: no such program in PATH", program.display()),
            "name the file of the program",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_can_be_preloaded() {
        assert_eq!(check_program(OsStr::new("sh")), Ok(()));
        assert!(
            check_program(OsStr::new("no-such-program"))
                .unwrap_err()
                .reason
                .contains("no such program")
        );
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("sh");
        std::fs::copy("/bin/sh", &copy).unwrap();
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o4755)).unwrap();
        assert!(check_program(copy.as_os_str()).unwrap_err().reason.contains("set-user-ID"));
        let script = folder.path().join("script");
        std::fs::write(&script, format!("#!{}\n", copy.display())).unwrap();
        assert!(check_program(script.as_os_str()).unwrap_err().reason.contains("set-user-ID"));
        std::fs::write(&script, "no program").unwrap();
        assert!(check_program(script.as_os_str()).unwrap_err().reason.contains("neither an ELF"));
    }
}
