//! The socket of the daemon: connections, their limits and their lines.
//!
//! Each connection has a thread. A line that is too long, too slow or no request ends or refuses
//! that connection and touches no other. How much a user can ask for is in `server/guests.rs`.

mod guests;

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memweir_linux::peer::{Peer, is_listening};

use crate::daemon::{Lock, lock_patiently};
use crate::protocol::{
    self, MAX_IDLE_MS, MAX_LINE, Refusal, RefusalKind, Reply, Request, parse_request, write_reply,
};
use crate::service::{Service, thread};
use guests::{Guest, Guests, Standing};

/// Longest time from one request of a connection to the end of the next, and to write a reply.
const LINE_TIMEOUT: Duration = Duration::from_millis(MAX_IDLE_MS);

/// Bytes of a line or reply that each connection may have in the daemon's memory; larger ones of a
/// user are there one at a time.
const SMALL: usize = 64 << 10;

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
        let _lock = lock_directory(path);
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
        let guests = Guests::default();
        thread("socket", move || {
            loop {
                match listener.accept() {
                    Ok((stream, _)) => welcome(stream, &service, &guests),
                    Err(_) => std::thread::sleep(ACCEPT_PAUSE),
                }
            }
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Keeps other daemons from `path` until the returned file is closed: of two that find the socket
/// of a dead one, the second would remove that of the first. The directory is locked, and a lock
/// that others hold on is done without: `/run` can be locked by every user.
fn lock_directory(path: &Path) -> Option<File> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(directory.unwrap_or(Path::new("."))).ok()?;
    let locked = lock_patiently(&directory);
    locked.is_ok_and(|lock| lock == Lock::Taken).then_some(directory)
}

/// Removes a socket on which nobody listens.
fn remove_stale(path: &Path) -> io::Result<()> {
    let refuse = |reason: &str| Err(io::Error::new(ErrorKind::AddrInUse, reason.to_owned()));
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return refuse("there is a file of another kind; name another place with --socket");
    }
    match is_listening(path)? {
        true => refuse("another daemon listens there; stop it, or name another place"),
        false => fs::remove_file(path),
    }
}

/// Starts the thread of a connection, or says why there is none.
fn welcome(mut stream: UnixStream, service: &Arc<Service>, guests: &Guests) {
    let Ok(peer) = Peer::of(&stream) else { return };
    let _ = stream.set_write_timeout(Some(LINE_TIMEOUT));
    if !service.admits(peer.credentials) {
        let refusal = Refusal::new(RefusalKind::NotYours, "this daemon serves its own user alone");
        return refuse(&mut stream, refusal);
    }
    let standing =
        if service.is_master(peer.credentials) { Standing::Master } else { Standing::Limited };
    let guest = match guests.enter(peer.credentials.user, standing) {
        Ok(guest) => guest,
        Err(reason) => return refuse(&mut stream, Refusal::new(RefusalKind::Busy, reason)),
    };
    let service = Arc::clone(service);
    let refused = stream.try_clone();
    if let Err(error) = thread("client", move || serve(stream, &peer, &service, &guest))
        && let Ok(mut refused) = refused
    {
        let message = format!("the daemon can have no further thread: {error}");
        refuse(&mut refused, Refusal::new(RefusalKind::Busy, message));
    }
}

/// Says why a connection is about to end, if its client is still there.
fn refuse(stream: &mut UnixStream, refusal: Refusal) {
    let _ = stream.write_all(&write_reply(&Reply::Refused(refusal)));
}

/// Answers the requests of a connection until it ends.
fn serve(mut stream: UnixStream, peer: &Peer, service: &Service, guest: &Guest) {
    let mut lines = Lines::default();
    loop {
        let mut permit = None;
        let line = match lines.next(&mut stream, || permit = guest.large()) {
            Ok(Some(line)) => line,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return refuse(&mut stream, protocol::too_long());
            }
            Ok(None) | Err(_) => return,
        };
        if answer(&line, &mut stream, peer, service, guest).is_err() {
            return;
        }
    }
}

fn answer(
    line: &[u8],
    stream: &mut UnixStream,
    peer: &Peer,
    service: &Service,
    guest: &Guest,
) -> io::Result<()> {
    let request = guest.beside(|| match parse_request(line) {
        Ok(Request::Wait { ids, timeout_ms }) => {
            service.wait(&ids, timeout_ms);
            Ok(Request::Jobs { ids })
        }
        request => request,
    });
    let reply = guest.turn(|| {
        let reply = request.map_or_else(Reply::Refused, |request| service.handle(peer, request));
        let reply = write_reply(&reply);
        if reply.len() <= SMALL {
            return Ok(reply);
        }
        // Other requests of the user wait until the client has read it.
        stream.write_all(&reply).map(|()| Vec::new())
    })?;
    stream.write_all(&reply)
}

/// Lines of a connection.
#[derive(Debug, Default)]
struct Lines {
    /// Bytes behind the last line.
    rest: Vec<u8>,
}

impl Lines {
    /// Reads a line; `None` at the end of the connection, where half a line counts for nothing.
    /// Calls `permit` before it reads a line that is not small to its end.
    ///
    /// # Errors
    /// `InvalidData` for a line that is too long, and otherwise those of reading; the time of a
    /// whole line is limited.
    fn next(
        &mut self,
        stream: &mut UnixStream,
        permit: impl FnOnce(),
    ) -> io::Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + LINE_TIMEOUT;
        let mut searched = 0;
        let mut permit = Some(permit);
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
            if searched > SMALL
                && let Some(permit) = permit.take()
            {
                permit();
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
