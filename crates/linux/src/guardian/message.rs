//! Messages from memweir to its guardian: records that end with a NUL byte, which no path contains.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::blocker::processes::Identity;
use crate::cgroup::Version;
use crate::owner::Owner;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The process whose death is to be noticed, should a copy of its pipe outlive it.
    Owner(i32),
    /// A group that holds the guardian alone.
    Home(PathBuf),
    /// A parent group with one leaf per job, which may not exist yet.
    Group(Version, PathBuf),
    /// A job's session, by its leader.
    Session(Identity),
    /// A process of a job that has left the job's session.
    Stray(Identity),
    /// A claim on a [shared setting](crate::SharedSetting), and the ledger that holds it.
    Setting(Owner, PathBuf),
    /// A change of the nice values of jobs that is about to be made.
    Raise(i32),
    /// A group below which memweir is about to enable the cpu controller.
    CpuController(PathBuf),
    /// An orderly end: nothing is left to do.
    Goodbye,
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let group =
            |tag: &str, path: &Path| [tag.as_bytes(), path.as_os_str().as_bytes(), b"\0"].concat();
        match self {
            Self::Owner(pid) => format!("owner {pid}\0").into_bytes(),
            Self::Home(path) => group("home ", path),
            Self::Group(Version::V2, path) => group("group2 ", path),
            Self::Group(Version::V1, path) => group("group1 ", path),
            Self::Session(Identity { pid, start }) => {
                format!("session {pid} {start}\0").into_bytes()
            }
            Self::Stray(Identity { pid, start }) => format!("stray {pid} {start}\0").into_bytes(),
            Self::Setting(owner, ledger) => group(&format!("setting {owner} "), ledger),
            Self::Raise(raise) => format!("raise {raise}\0").into_bytes(),
            Self::CpuController(path) => group("cpu ", path),
            Self::Goodbye => b"goodbye\0".to_vec(),
        }
    }

    /// Decodes one record without its NUL byte; `None` for a record that memweir never sends.
    fn decode(record: &[u8]) -> Option<Self> {
        let (tag, rest) = match record.iter().position(|b| *b == b' ') {
            Some(space) => (&record[..space], &record[space + 1..]),
            None => (record, &record[record.len()..]),
        };
        let path = || absolute(rest);
        let text = || std::str::from_utf8(rest).ok();
        let identity = || {
            let (pid, start) = text()?.split_once(' ')?;
            Some(Identity { pid: positive(pid)?, start: start.parse().ok()? })
        };
        Some(match tag {
            b"owner" => Self::Owner(positive(text()?)?),
            b"home" => Self::Home(path()?),
            b"group2" => Self::Group(Version::V2, path()?),
            b"group1" => Self::Group(Version::V1, path()?),
            b"session" => Self::Session(identity()?),
            b"stray" => Self::Stray(identity()?),
            b"setting" => setting(rest)?,
            b"raise" => Self::Raise(text()?.parse().ok()?),
            b"cpu" => Self::CpuController(path()?),
            b"goodbye" => Self::Goodbye,
            _ => return None,
        })
    }

    /// Takes the complete records out of `buffer`. Bytes after the last NUL byte stay: the rest of
    /// their record is still to come, or its writer has died in the middle of it.
    pub(super) fn take_from(buffer: &mut Vec<u8>) -> Vec<Self> {
        let Some(last) = buffer.iter().rposition(|b| *b == 0) else { return Vec::new() };
        let complete: Vec<u8> = buffer.drain(..=last).collect();
        complete[..last].split(|b| *b == 0).filter_map(Self::decode).collect()
    }
}

/// Decodes the claim and its ledger.
fn setting(rest: &[u8]) -> Option<Message> {
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let owner = Owner::parse(std::str::from_utf8(&rest[..space]).ok()?)?;
    Some(Message::Setting(owner, absolute(&rest[space + 1..])?))
}

fn absolute(path: &[u8]) -> Option<PathBuf> {
    Some(PathBuf::from(OsStr::from_bytes(path))).filter(|path| path.is_absolute())
}

/// Parses a process id; 0 and negative ones would address groups of processes.
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
            path.clone().prop_map(Message::Home),
            path.clone().prop_map(|path| Message::Group(Version::V2, path)),
            path.clone().prop_map(|path| Message::Group(Version::V1, path)),
            path.clone().prop_map(Message::CpuController),
            path.prop_map(|path| Message::Setting(Owner::current().unwrap(), path)),
            any::<i32>().prop_map(Message::Raise),
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
            b"owner 0\0owner -1\0group2 relative\0what\0\0session 1\0setting x /y\0goodbye\0half"
                .to_vec();
        assert_eq!(Message::take_from(&mut bytes), [Message::Goodbye]);
        assert_eq!(bytes, b"half");
    }
}
