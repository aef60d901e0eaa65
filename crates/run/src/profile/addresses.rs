//! `memweir profile --addresses`: the lines that a program moves between memory and its last-level
//! cache, as a trace.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use memweir_abi::softpmu::{LineAccess, LineBatch};
use memweir_core::{Direction, LINE_BYTES};
use memweir_trace::{Access, AddressSpace, Format, Header, ThreadId, Totals, Writer};

use super::types::ProfileError;
use crate::files;
use crate::report::LostOutput;

/// A trace that is being recorded.
pub(super) struct Recorder {
    path: PathBuf,
    writer: Writer<BufWriter<File>>,
    /// The first error of the file; nothing is written after it.
    error: Option<io::Error>,
}

impl Recorder {
    /// Starts the file. `command` is the name of the trace.
    pub(super) fn create(path: &Path, command: &str) -> Result<Self, ProfileError> {
        let header = Header {
            name: command.to_owned(),
            addresses: AddressSpace::Virtual,
            ..Header::default()
        };
        let writer = File::create(path)
            .and_then(|file| Writer::start(BufWriter::new(file), Format::Memweir, &header));
        let path = path.to_owned();
        match writer {
            Ok(writer) => Ok(Self { path, writer, error: None }),
            Err(source) => Err(ProfileError::Output { path, source }),
        }
    }

    /// Appends the accesses of a thread.
    pub(super) fn append(&mut self, batch: &LineBatch) {
        if self.error.is_some() {
            return;
        }
        let own = batch.accesses.iter().find(|access| !access.write).map(|access| access.space);
        for access in &batch.accesses {
            // A modified line of another process leaves the cache: the write-back belongs to that
            // process, and to none of its threads in particular.
            let foreign = own.is_some_and(|own| own != access.space);
            let thread = if foreign { 0 } else { batch.thread };
            if let Err(error) = self.writer.push(&accessed(access, thread)) {
                self.error = Some(error);
                return;
            }
        }
    }

    /// Ends the file. One that could not be written is removed: a trace without its end is none.
    pub(super) fn finish(self) -> Result<(PathBuf, Totals), LostOutput> {
        let ended = match self.error {
            Some(error) => Err(error),
            None => self.writer.finish(),
        };
        match ended {
            Ok((_, totals)) => Ok((self.path, totals)),
            Err(error) => {
                files::remove_unfinished(&self.path);
                Err(LostOutput::new(&self.path, error.to_string()))
            }
        }
    }
}

fn accessed(access: &LineAccess, thread: u32) -> Access {
    Access {
        address: access.line * LINE_BYTES,
        gap: access.gap,
        thread: ThreadId { process: access.space, thread },
        direction: if access.write { Direction::Write } else { Direction::Read },
    }
}
