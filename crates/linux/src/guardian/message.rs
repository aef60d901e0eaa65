//! What memweir tells its guardian: records that end with a NUL byte, which no path contains.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::blocker::processes::Identity;
use crate::cgroup::Version;

/// One thing to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The process whose death is to be noticed, should a copy of its pipe outlive it.
    Owner(i32),
    /// A parent group with one leaf per job, which may not exist yet.
    Group(Version, PathBuf),
    /// A job's session, by its leader.
    Session(Identity),
    /// A process of a job that has left the job's session.
    Stray(Identity),
    /// An orderly end: nothing is left to do.
    Goodbye,
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let group =
            |tag: &str, path: &Path| [tag.as_bytes(), path.as_os_str().as_bytes(), b"\0"].concat();
        match self {
            Self::Owner(pid) => format!("owner {pid}\0").into_bytes(),
            Self::Group(Version::V2, path) => group("group2 ", path),
            Self::Group(Version::V1, path) => group("group1 ", path),
            Self::Session(Identity { pid, start }) => {
                format!("session {pid} {start}\0").into_bytes()
            }
            Self::Stray(Identity { pid, start }) => format!("stray {pid} {start}\0").into_bytes(),
            Self::Goodbye => b"goodbye\0".to_vec(),
        }
    }

    /// Reads one record without its NUL byte; `None` for what memweir never says.
    fn decode(record: &[u8]) -> Option<Self> {
        let (tag, rest) = match record.iter().position(|b| *b == b' ') {
            Some(space) => (&record[..space], &record[space + 1..]),
            None => (record, &record[record.len()..]),
        };
        let path =
            || Some(PathBuf::from(OsStr::from_bytes(rest))).filter(|path| path.is_absolute());
        let text = || std::str::from_utf8(rest).ok();
        let identity = || {
            let (pid, start) = text()?.split_once(' ')?;
            Some(Identity { pid: positive(pid)?, start: start.parse().ok()? })
        };
        Some(match tag {
            b"owner" => Self::Owner(positive(text()?)?),
            b"group2" => Self::Group(Version::V2, path()?),
            b"group1" => Self::Group(Version::V1, path()?),
            b"session" => Self::Session(identity()?),
            b"stray" => Self::Stray(identity()?),
            b"goodbye" => Self::Goodbye,
            _ => return None,
        })
    }

    /// Takes the complete records out of `buffer`. What follows the last NUL byte stays: the rest of
    /// it is still to come, or its writer has died in the middle of it.
    pub(super) fn take_from(buffer: &mut Vec<u8>) -> Vec<Self> {
        let Some(last) = buffer.iter().rposition(|b| *b == 0) else { return Vec::new() };
        let complete: Vec<u8> = buffer.drain(..=last).collect();
        complete[..last].split(|b| *b == 0).filter_map(Self::decode).collect()
    }
}

/// A process id; 0 and negative ones would address groups of processes.
fn positive(text: &str) -> Option<i32> {
    text.parse().ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message() -> impl Strategy<Value = Message> {
        let identity = (1..i32::MAX, any::<u64>()).prop_map(|(pid, start)| Identity { pid, start });
        let path = "/[^\0]{0,30}".prop_map(PathBuf::from);
        prop_oneof![
            (1..i32::MAX).prop_map(Message::Owner),
            path.clone().prop_map(|path| Message::Group(Version::V2, path)),
            path.prop_map(|path| Message::Group(Version::V1, path)),
            identity.clone().prop_map(Message::Session),
            identity.prop_map(Message::Stray),
            Just(Message::Goodbye),
        ]
    }

    proptest! {
        #[test]
        fn arrives_as_sent_however_it_is_cut(
            sent in proptest::collection::vec(message(), 0..8),
            chunk in 1..50usize,
        ) {
            let bytes: Vec<u8> = sent.iter().flat_map(Message::encode).collect();
            let (mut buffer, mut got) = (Vec::new(), Vec::new());
            for part in bytes.chunks(chunk) {
                buffer.extend_from_slice(part);
                got.extend(Message::take_from(&mut buffer));
            }
            prop_assert_eq!(got, sent);
            prop_assert!(buffer.is_empty());
        }

        #[test]
        fn never_panics(mut bytes: Vec<u8>) {
            let _ = Message::take_from(&mut bytes);
        }
    }

    #[test]
    fn nonsense_is_passed_over() {
        let mut bytes =
            b"owner 0\0owner -1\0group2 relative\0what\0\0session 1\0goodbye\0half".to_vec();
        assert_eq!(Message::take_from(&mut bytes), [Message::Goodbye]);
        assert_eq!(bytes, b"half");
    }
}
