//! Identity of a program's behavior: its invocation and its file.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A way to run a program, which identifies its behavior.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The program, resolved against `PATH` already.
    pub program: PathBuf,
    /// Its arguments, `argv[0]` included. Of that one only the file name counts: programs behave
    /// by the name they are called, not by its spelling.
    pub argv: Vec<OsString>,
    /// Its working directory, against which its arguments are read.
    pub directory: PathBuf,
    /// Variables set for it on top of memweir's own.
    pub env: BTreeMap<OsString, OsString>,
    /// The file on its standard input, if there is one.
    pub stdin: Option<PathBuf>,
}

/// The identity of an [`Invocation`] in a store, and the state of the program's file when this was
/// made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProgramKey {
    digest: String,
    #[serde(with = "crate::text::path")]
    program: PathBuf,
    /// Its [`fingerprint`].
    file: (i64, i64),
}

impl ProgramKey {
    /// The key of an invocation: SHA-256 over the program's real path, its arguments, its
    /// directory, the file on its standard input and the variables set for it.
    pub fn of(invocation: &Invocation) -> io::Result<Self> {
        let program = fs::canonicalize(&invocation.program)?;
        let mut hash = Sha256::new();
        let mut field = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        field(program.as_os_str().as_bytes());
        field(fs::canonicalize(&invocation.directory)?.as_os_str().as_bytes());
        let stdin = match &invocation.stdin {
            Some(path) => fs::canonicalize(path)?,
            None => PathBuf::new(),
        };
        field(stdin.as_os_str().as_bytes());
        let name = invocation.argv.first().and_then(|name| Path::new(name).file_name());
        field(name.unwrap_or(OsStr::new("")).as_bytes());
        for argument in invocation.argv.iter().skip(1) {
            field(argument.as_bytes());
        }
        for (name, value) in &invocation.env {
            // No argument is marked so.
            field(b"\0variable");
            field(name.as_bytes());
            field(value.as_bytes());
        }
        let digest = hash.finalize().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        Ok(Self { digest, file: fingerprint(&program)?, program })
    }

    /// The program's real path.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// The size and modification time (nanoseconds) that the program's file had.
    pub(super) fn file(&self) -> (i64, i64) {
        self.file
    }

    /// The key in hexadecimal, as lists show it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.digest
    }
}

/// Size and modification time (nanoseconds) of a program file. A rebuilt program differs in its
/// time at least; hashing the file would cost a read of it per job and batch.
pub(super) fn fingerprint(program: &Path) -> io::Result<(i64, i64)> {
    let metadata = fs::metadata(program)?;
    let mtime =
        metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
    Ok((metadata.size().cast_signed(), mtime))
}
