//! Standard inputs of a program that runs twice.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use memweir_core::input::InputError;

/// A standard input that can be read more than once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// The file; nothing to read if absent.
    pub path: Option<PathBuf>,
    /// Notice for the user.
    pub notice: Option<String>,
}

/// Returns the file behind an open file, as an input for every run of a program: a regular file
/// from its beginning, or nothing. A terminal is taken for nothing, with a notice.
///
/// # Errors
/// Refuses pipes and sockets, which the first run would drain.
pub fn input_of(file: impl AsFd) -> Result<Input, InputError> {
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let refuse = |reason: String| {
        Err(InputError::new("standard input", reason)
            .help("save it to a file and give that with `<`, or give `< /dev/null`"))
    };
    let (Ok(kind), Ok(path)) = (fs::metadata(&link).map(|m| m.file_type()), fs::read_link(&link))
    else {
        return Ok(Input::default());
    };
    if kind.is_file() {
        // A deleted file still has a name, which is no longer its own.
        return if path.exists() {
            Ok(Input { path: Some(path), notice: None })
        } else {
            refuse("the file has been deleted, and the program runs twice".to_owned())
        };
    }
    if kind.is_fifo() || kind.is_socket() {
        return refuse("a pipe can be read once, and the program runs twice".to_owned());
    }
    if path.as_os_str() == "/dev/null" || !kind.is_char_device() {
        return Ok(Input::default());
    }
    let notice = "the program runs twice and reads nothing: its standard input is /dev/null, not \
                  the terminal";
    Ok(Input { path: None, notice: Some(notice.to_owned()) })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_is_known_by_its_name_and_nothing_is_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let expected = fs::canonicalize(file.path()).unwrap();
        assert_eq!(input_of(file.as_file()).unwrap().path, Some(expected));
        let null = File::open("/dev/null").unwrap();
        assert_eq!(input_of(&null).unwrap(), Input::default());
    }

    #[test]
    fn what_can_be_read_once_is_refused() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let error = input_of(&reader).unwrap_err();
        assert!(error.to_string().contains("a pipe can be read once"), "{error}");
        let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(input_of(&socket).is_err());
        let mut gone = tempfile::NamedTempFile::new().unwrap();
        gone.write_all(b"x").unwrap();
        let (file, path) = gone.into_parts();
        path.close().unwrap();
        assert!(input_of(&file).unwrap_err().reason.contains("deleted"));
    }
}
