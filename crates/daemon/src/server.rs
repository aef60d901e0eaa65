//! The socket of the daemon: connections, their limits and their lines.
//!
//! Each connection has a thread. A line that is too long, too slow or no request ends or refuses
//! that connection and touches no other.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use memweir_linux::peer::Peer;

use crate::protocol::{self, MAX_LINE, Refusal, RefusalKind, Reply, parse_request, write_reply};
use crate::service::Service;

/// Most connections of all users together, and of one user.
const MAX_CONNECTIONS: usize = 512;
const MAX_OF_USER: usize = 256;

/// Longest time from one request of a connection to the end of the next, and to write a reply.
const LINE_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after a connection could not be accepted, as when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A socket that this daemon listens on.
#[derive(Debug)]
pub(crate) struct Server {
    listener: UnixListener,
    path: PathBuf,
}

impl Server {
    /// Listens at `path`. A socket that a dead daemon left behind is replaced.
    ///
    /// # Errors
    /// If another daemon listens there, or the socket cannot be made.
    pub(crate) fn bind(path: &Path, owner: u32) -> io::Result<Self> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                remove_stale(path)?;
                UnixListener::bind(path)?
            }
            bound => bound?,
        };
        let mode = if owner == 0 { 0o666 } else { 0o600 };
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Serves in threads of its own until the process ends.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(&self, service: Arc<Service>) -> io::Result<()> {
        let listener = self.listener.try_clone()?;
        let guests = Arc::new(Guests::default());
        let builder = std::thread::Builder::new().name("socket".to_owned());
        builder.spawn(move || {
            loop {
                match listener.accept() {
                    Ok((stream, _)) => welcome(stream, &service, &guests),
                    Err(_) => std::thread::sleep(ACCEPT_PAUSE),
                }
            }
        })?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes a socket on which nobody listens.
fn remove_stale(path: &Path) -> io::Result<()> {
    let refuse = |reason: &str| Err(io::Error::new(ErrorKind::AddrInUse, reason.to_owned()));
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return refuse("there is a file of another kind; name another place with --socket");
    }
    match UnixStream::connect(path) {
        Ok(_) => refuse("another daemon listens there; stop it, or name another place"),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// Connections by user.
#[derive(Debug, Default)]
struct Guests(Mutex<BTreeMap<u32, usize>>);

impl Guests {
    /// Counts a connection; false if there are too many.
    fn enter(&self, user: u32) -> bool {
        let mut guests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = guests.values().sum();
        let own = guests.entry(user).or_default();
        let has_room = all < MAX_CONNECTIONS && *own < MAX_OF_USER;
        *own += usize::from(has_room);
        has_room
    }

    fn leave(&self, user: u32) {
        let mut guests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = guests.get_mut(&user) {
            *own -= 1;
            if *own == 0 {
                guests.remove(&user);
            }
        }
    }
}

/// Starts the thread of a connection, or says why there is none.
fn welcome(mut stream: UnixStream, service: &Arc<Service>, guests: &Arc<Guests>) {
    let Ok(peer) = Peer::of(&stream) else { return };
    let user = peer.credentials.user;
    let _ = stream.set_write_timeout(Some(LINE_TIMEOUT));
    if !service.admits(peer.credentials) {
        let refusal = Refusal::new(RefusalKind::NotYours, "this daemon serves its own user alone");
        let _ = stream.write_all(&write_reply(&Reply::Refused(refusal)));
        return;
    }
    if !guests.enter(user) {
        let refusal = Refusal::new(RefusalKind::Busy, "the daemon has too many connections");
        let _ = stream.write_all(&write_reply(&Reply::Refused(refusal)));
        return;
    }
    let (service, these) = (Arc::clone(service), Arc::clone(guests));
    let serve = move || {
        serve(stream, &peer, &service);
        these.leave(user);
    };
    let builder = std::thread::Builder::new().name("client".to_owned());
    if builder.spawn(serve).is_err() {
        guests.leave(user);
    }
}

/// Answers the requests of a connection until it ends.
fn serve(mut stream: UnixStream, peer: &Peer, service: &Service) {
    let mut lines = Lines::default();
    loop {
        let (reply, goes_on) = match lines.next(&mut stream) {
            Ok(Some(line)) => match parse_request(&line) {
                Ok(request) => (service.handle(peer, request), true),
                Err(refusal) => (Reply::Refused(refusal), true),
            },
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                (Reply::Refused(protocol::too_long()), false)
            }
            Ok(None) | Err(_) => return,
        };
        if stream.write_all(&write_reply(&reply)).is_err() || !goes_on {
            return;
        }
    }
}

/// Lines of a connection.
#[derive(Debug, Default)]
struct Lines {
    /// Bytes behind the last line.
    rest: Vec<u8>,
}

impl Lines {
    /// Reads a line; `None` at the end of the connection, where half a line counts for nothing.
    ///
    /// # Errors
    /// `InvalidData` for a line that is too long, and otherwise those of reading; the time of a
    /// whole line is limited.
    fn next(&mut self, stream: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + LINE_TIMEOUT;
        let mut searched = 0;
        loop {
            if let Some(end) = self.rest[searched..].iter().position(|byte| *byte == b'\n') {
                let after = self.rest.split_off(searched + end + 1);
                let mut line = std::mem::replace(&mut self.rest, after);
                line.pop();
                return Ok(Some(line));
            }
            searched = self.rest.len();
            if searched > MAX_LINE {
                return Err(ErrorKind::InvalidData.into());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))?;
            let mut chunk = [0; 16 << 10];
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(count) => self.rest.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests;
