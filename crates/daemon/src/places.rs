//! Default places of the socket and the state.

use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use memweir_linux::peer::{Credentials, is_listening};
use memweir_linux::private::RuntimeDirectory;

/// Socket of the daemon of root. It does not lie in root's run-time directory, which lets no other
/// user in.
pub const SYSTEM_SOCKET: &str = "/run/memweir.sock";

/// State directory of the daemon of root.
const SYSTEM_STATE: &str = "/var/lib/memweir";

/// Name of the socket in a user's run-time directory.
const USER_SOCKET: &str = "daemon.sock";

/// Returns the socket on which a daemon of this user listens.
///
/// # Errors
/// If the user has no run-time directory and none can be made.
pub fn socket() -> io::Result<PathBuf> {
    if Credentials::of_this_process().is_root() {
        return Ok(SYSTEM_SOCKET.into());
    }
    Ok(RuntimeDirectory::open()?.path().join(USER_SOCKET))
}

/// Returns the socket that a client of this user connects to: that of the user's own daemon if
/// there is one, otherwise that of root's.
#[must_use]
pub fn client_socket() -> PathBuf {
    match socket() {
        Ok(own) if is_in_use(&own) => own,
        _ => SYSTEM_SOCKET.into(),
    }
}

/// Returns false for a socket that is absent, or was left behind by a daemon that was killed.
fn is_in_use(socket: &Path) -> bool {
    is_listening(socket).unwrap_or_else(|_| socket.exists())
}

/// Returns the state directory of a daemon of this user.
///
/// # Errors
/// If the user has no home directory.
pub fn state() -> io::Result<PathBuf> {
    if Credentials::of_this_process().is_root() {
        return Ok(SYSTEM_STATE.into());
    }
    let strategy = etcetera::choose_base_strategy()
        .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))?;
    let state = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
    Ok(state.join("memweir"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_that_a_dead_daemon_left_is_not_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join(USER_SOCKET);
        assert!(!is_in_use(&socket));
        let listener = UnixListener::bind(&socket).unwrap();
        assert!(is_in_use(&socket));
        drop(listener);
        assert!(socket.exists() && !is_in_use(&socket));
    }
}
