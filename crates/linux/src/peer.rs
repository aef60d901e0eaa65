//! Users: the one behind a Unix socket, their names, and the groups that their processes have.

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket,
    sockopt::PeerCredentials,
};
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use serde::{Deserialize, Serialize};

/// Returns the process id of the program that made the other end of a connection; 0 if it is not
/// visible here.
///
/// # Errors
/// If the kernel does not say.
pub fn peer_process(stream: &UnixStream) -> io::Result<i32> {
    Ok(getsockopt(stream, PeerCredentials)?.pid())
}

/// User and group of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
}

impl Credentials {
    /// Returns the effective user and group of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        let (user, group) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        Self { user, group }
    }

    /// Returns those of the process that made the other end of a connection, when it connected or
    /// listened.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn of_peer(stream: &UnixStream) -> io::Result<Self> {
        let peer = getsockopt(stream, PeerCredentials)?;
        Ok(Self { user: peer.uid(), group: peer.gid() })
    }

    /// Returns true for root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.user == 0
    }

    /// Returns every group that a login of this user has.
    ///
    /// # Errors
    /// If the user database cannot be read.
    pub fn groups(&self) -> io::Result<Vec<u32>> {
        let found = match User::from_uid(Uid::from_raw(self.user)) {
            // There is no user database, as in a container.
            Err(Errno::ENOENT) => None,
            found => found?,
        };
        let Some(user) = found else { return Ok(vec![self.group]) };
        let name = CString::new(user.name)?;
        let groups = getgrouplist(&name, Gid::from_raw(self.group))?;
        Ok(groups.into_iter().map(Gid::as_raw).collect())
    }
}

/// The user behind a connection, with all groups that its process had when it connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// User and group.
    pub credentials: Credentials,
    groups: Vec<u32>,
}

impl Peer {
    /// Returns the peer of a connection. The kernel has kept its groups since it connected, so they
    /// are not those of a later process with the same process id.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn of(stream: &UnixStream) -> io::Result<Self> {
        let credentials = Credentials::of_peer(stream)?;
        Ok(Self { credentials, groups: supplementary_groups(stream)? })
    }

    /// Returns true if the process was in a group.
    #[must_use]
    pub fn is_in(&self, group: u32) -> bool {
        self.credentials.group == group || self.groups.contains(&group)
    }
}

impl From<Credentials> for Peer {
    /// A process without supplementary groups.
    fn from(credentials: Credentials) -> Self {
        Self { credentials, groups: Vec::new() }
    }
}

/// Returns true if a program listens at a Unix socket. Does not wait for one that accepts no
/// connections.
///
/// # Errors
/// If the socket cannot be reached for another reason than that nobody listens.
pub fn is_listening(path: &Path) -> io::Result<bool> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let client = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    match connect(client.as_raw_fd(), &UnixAddr::new(path)?) {
        // Its queue of connections is full.
        Ok(()) | Err(Errno::EAGAIN) => Ok(true),
        Err(Errno::ECONNREFUSED) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Connects to a Unix socket. The connection, and each read and write of the stream, fail with
/// `WouldBlock` after this time in which nothing moves.
///
/// # Errors
/// If nobody listens, or the connection is not accepted in this time.
pub fn connect_patiently(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let client = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let stream = UnixStream::from(client);
    stream.set_read_timeout(Some(patience))?;
    // It limits connect(2), too.
    stream.set_write_timeout(Some(patience))?;
    connect(stream.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(stream)
}

/// Returns the supplementary groups of the other end of a connection (`SO_PEERGROUPS`, socket(7)).
fn supplementary_groups(stream: &UnixStream) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut bytes = std::mem::size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: the kernel writes at most `bytes` bytes, the size of `groups`, and sets `bytes`.
        let result = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = bytes as usize / size_of::<libc::gid_t>();
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // The buffer is too small, and `bytes` is the size that it needs.
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

/// A group of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserGroup {
    /// Group id.
    pub id: u32,
    /// Its name, or its number where it has none.
    pub name: String,
}

impl UserGroup {
    /// Finds a group by name or number; `None` if there is none of that name.
    ///
    /// # Errors
    /// If the group database cannot be read.
    pub fn find(text: &str) -> io::Result<Option<Self>> {
        if let Some(found) = Group::from_name(text)? {
            return Ok(Some(Self { id: found.gid.as_raw(), name: found.name }));
        }
        let Ok(id) = text.parse() else { return Ok(None) };
        let named = Group::from_gid(Gid::from_raw(id))?;
        let name = named.map_or_else(|| text.to_owned(), |group| group.name);
        Ok(Some(Self { id, name }))
    }
}

/// Returns the name of a user, or the number where there is none.
#[must_use]
pub fn user_name(user: u32) -> String {
    match User::from_uid(Uid::from_raw(user)) {
        Ok(Some(found)) => found.name,
        _ => user.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use nix::sys::socket::{Backlog, listen};

    use super::*;

    #[test]
    fn the_other_end_of_a_socket_pair_is_this_process() {
        let (end, _other) = UnixStream::pair().unwrap();
        assert_eq!(Credentials::of_peer(&end).unwrap(), Credentials::of_this_process());
        assert_eq!(peer_process(&end).unwrap(), std::process::id() as i32);
    }

    #[test]
    fn a_listener_is_found_though_it_accepts_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        listen(&listener, Backlog::new(1).unwrap()).unwrap();
        // More than its queue takes.
        for _ in 0..4 {
            assert!(is_listening(&path).unwrap());
        }
        let refusal = connect_patiently(&path, Duration::from_millis(20)).unwrap_err();
        assert_eq!(refusal.kind(), io::ErrorKind::WouldBlock);
        drop(listener);
        // A process that another test has forked has it until its exec.
        let ended = (0..1_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !is_listening(&path).unwrap()
        });
        assert!(ended);
        assert!(is_listening(&directory.path().join("absent")).is_err());
    }

    #[test]
    fn a_peer_has_the_groups_of_its_process() {
        let (end, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&end).unwrap();
        let own = nix::unistd::getgroups().unwrap();
        assert_eq!(peer.groups, own.into_iter().map(Gid::as_raw).collect::<Vec<_>>());
        assert!(peer.is_in(Credentials::of_this_process().group));
        assert!(!peer.is_in(3_999_999_999));
    }

    #[test]
    fn groups_are_found_by_name_and_number() {
        let root = Some(UserGroup { id: 0, name: "root".to_owned() });
        assert_eq!(
            (UserGroup::find("root").unwrap(), UserGroup::find("0").unwrap()),
            (root.clone(), root)
        );
        let unnamed = UserGroup { id: 3_999_999_999, name: "3999999999".to_owned() };
        assert_eq!(UserGroup::find("3999999999").unwrap(), Some(unnamed));
        assert_eq!(UserGroup::find("no-such-group").unwrap(), None);
    }

    #[test]
    fn a_user_without_an_entry_has_a_number_and_one_group() {
        let nobody = Credentials { user: 3_999_999_999, group: 7 };
        assert_eq!(user_name(nobody.user), "3999999999");
        assert_eq!(nobody.groups().unwrap(), [7]);
        assert_eq!(user_name(0), "root");
    }
}
