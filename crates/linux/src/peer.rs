//! Users: the one behind a Unix socket, their names, and the groups that their processes have.

use std::ffi::CString;
use std::io;
use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::{Gid, Uid, User, getgrouplist};
use serde::{Deserialize, Serialize};

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
        let Some(user) = User::from_uid(Uid::from_raw(self.user))? else {
            return Ok(vec![self.group]);
        };
        let name = CString::new(user.name)?;
        let groups = getgrouplist(&name, Gid::from_raw(self.group))?;
        Ok(groups.into_iter().map(Gid::as_raw).collect())
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
    use super::*;

    #[test]
    fn the_other_end_of_a_socket_pair_is_this_process() {
        let (end, _other) = UnixStream::pair().unwrap();
        assert_eq!(Credentials::of_peer(&end).unwrap(), Credentials::of_this_process());
    }

    #[test]
    fn a_user_without_an_entry_has_a_number_and_one_group() {
        let nobody = Credentials { user: 3_999_999_999, group: 7 };
        assert_eq!(user_name(nobody.user), "3999999999");
        assert_eq!(nobody.groups().unwrap(), [7]);
        assert_eq!(user_name(0), "root");
    }
}
