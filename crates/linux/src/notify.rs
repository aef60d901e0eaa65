//! Reports of a service to its manager, as sd_notify(3) describes them.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// State of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState {
    /// It serves.
    Ready,
    /// It is about to end.
    Stopping,
}

impl ServiceState {
    fn message(self) -> &'static [u8] {
        match self {
            Self::Ready => b"READY=1",
            Self::Stopping => b"STOPPING=1",
        }
    }
}

/// Tells the service manager the state of this process; does nothing without a manager.
///
/// # Errors
/// If the manager's socket cannot be reached.
pub fn notify(state: ServiceState) -> io::Result<()> {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.message(), &address)?;
    Ok(())
}
