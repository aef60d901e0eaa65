//! Checks, by its file, that a program can run in the emulator.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memweir_abi::kernel::image::{Image, SCRIPT_DEPTH, changes_user};
use memweir_abi::softpmu::program::script_argv;
use object::elf::{FileHeader64, GNU_PROPERTY_X86_ISA_1_NEEDED, GNU_PROPERTY_X86_ISA_1_V4};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, ReadCache};

use super::QemuError;
use crate::image;

/// A program for the emulator: the file itself, or the interpreter of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Path of the ELF file.
    pub path: Vec<u8>,
    /// Its arguments, the name included.
    pub argv: Vec<Vec<u8>>,
}

impl Program {
    /// Inspects the program `path`, which is to be started with `argv`. Refuses programs for other
    /// machines, 32-bit ones, those that need AVX-512 by their ISA property (programs that ask the
    /// CPU do not), those that would change user, and scripts with such an interpreter.
    pub fn inspect(path: &Path, argv: &[Vec<u8>]) -> Result<Self, QemuError> {
        let refuse = |reason: String| {
            Err(QemuError::Refused { program: path.display().to_string(), reason })
        };
        let mut at: PathBuf = path.to_owned();
        let mut argv = argv.to_vec();
        for _ in 0..SCRIPT_DEPTH {
            let of_interpreter = |reason: String| match at == path {
                true => reason,
                false => format!("its interpreter {}: {reason}", at.display()),
            };
            let head = match head(&at) {
                Ok(head) => head,
                Err(reason) => return refuse(of_interpreter(reason)),
            };
            match Image::of(&head) {
                Image::X86_64 => {
                    return match has_our_rights(&at).and_then(|()| fits(&at)) {
                        Ok(()) => Ok(Self { path: at.as_os_str().as_bytes().to_vec(), argv }),
                        Err(reason) => refuse(of_interpreter(reason)),
                    };
                }
                Image::Foreign(reason) | Image::Unfit(reason) => {
                    return refuse(of_interpreter(format!("it is {reason}")));
                }
                Image::Script { interpreter, argument } => {
                    argv = script_argv(interpreter, argument, at.as_os_str().as_bytes(), &argv);
                    at = Path::new(std::ffi::OsStr::from_bytes(interpreter)).to_owned();
                }
            }
        }
        refuse("its interpreters are scripts too many times".to_owned())
    }
}

fn head(path: &Path) -> Result<Vec<u8>, String> {
    if !path.metadata().map_err(|e| e.to_string())?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    image::head(path).map_err(|e| e.to_string())
}

/// Checks that the kernel would start the program with the rights of this process.
fn has_our_rights(path: &Path) -> Result<(), String> {
    let status = path.metadata().map_err(|e| e.to_string())?;
    let user = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    if changes_user(status.mode(), (status.uid(), status.gid()), user) {
        return Err("it is set-user-ID or set-group-ID, which an emulator cannot honor".to_owned());
    }
    if user.0 != 0 && has_capabilities(path) {
        return Err("its file has capabilities, which an emulator cannot honor".to_owned());
    }
    Ok(())
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let (name, nothing) = (c"security.capability".as_ptr(), std::ptr::null_mut());
    // SAFETY: both are C strings, and of the value only the length is asked for.
    unsafe { libc::getxattr(path.as_ptr(), name, nothing, 0) > 0 }
}

/// Checks that an x86-64 file asks for nothing that the emulator lacks.
fn fits(path: &Path) -> Result<(), String> {
    let file = File::open(path).map_err(|e| e.to_string())?;
    let data = &ReadCache::new(file);
    let damaged = |e: object::Error| format!("it is damaged: {e}");
    let header = FileHeader64::<LittleEndian>::parse(data).map_err(damaged)?;
    for segment in header.program_headers(LittleEndian, data).map_err(damaged)? {
        if let Some(loader) = segment.interpreter(LittleEndian, data).map_err(damaged)? {
            let loader = Path::new(std::ffi::OsStr::from_bytes(loader));
            if !loader.exists() {
                return Err(format!("its loader {} does not exist", loader.display()));
            }
        }
        let Some(mut notes) = segment.notes(LittleEndian, data).map_err(damaged)? else { continue };
        while let Some(note) = notes.next().map_err(damaged)? {
            let Some(mut properties) = note.gnu_properties(LittleEndian) else { continue };
            while let Some(property) = properties.next().map_err(damaged)? {
                if property.pr_type() == GNU_PROPERTY_X86_ISA_1_NEEDED
                    && property
                        .data_u32(LittleEndian)
                        .is_ok_and(|isa| isa & GNU_PROPERTY_X86_ISA_1_V4 != 0)
                {
                    return Err("it is compiled for AVX-512 (x86-64-v4), which the emulator \
                                does not have"
                        .to_owned());
                }
            }
        }
    }
    Ok(())
}
