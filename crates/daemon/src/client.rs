//! The other side of the protocol: a connection to a daemon.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memweir_linux::peer::{Credentials, connect_patiently, peer_process};

use crate::protocol::{
    Ids, JobView, MAX_IDLE_MS, MAX_WAIT_MS, Refusal, Reply, Request, parse_reply, write_request,
};

/// Longest time for which a daemon may say nothing. A request may wait for those of other users,
/// and for a disk that is slow.
const SILENCE: Duration = Duration::from_millis(MAX_WAIT_MS + 50_000);

/// Time from one request to the next after which the daemon may have closed the connection, or be
/// about to.
const PAUSE: Duration = Duration::from_millis(MAX_IDLE_MS / 2);

/// A failure of a client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no daemon, or the connection broke.
    #[error("{socket}: {source}", socket = socket.display())]
    Connection {
        /// The daemon's socket.
        socket: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// No daemon listens.
    #[error(
        "no daemon listens at {socket}; start one with `memweir daemon`",
        socket = socket.display()
    )]
    NoDaemon {
        /// The daemon's socket.
        socket: PathBuf,
    },
    /// The daemon ended before it replied.
    #[error(
        "the daemon at {socket} has ended; its jobs run on, and the next `memweir daemon` with the \
         same state takes them over",
        socket = socket.display()
    )]
    Gone {
        /// The daemon's socket.
        socket: PathBuf,
    },
    /// The daemon is stopped, or hangs.
    #[error(
        "the daemon at {socket} has said nothing for {patience:?}: it is stopped, or very busy",
        socket = socket.display()
    )]
    Silent {
        /// The daemon's socket.
        socket: PathBuf,
        /// Time for which it was waited for.
        patience: Duration,
    },
    /// Another user's program listens, which must not learn the environment of jobs.
    #[error(
        "{socket}: user {user} listens there, and not root or this user",
        socket = socket.display()
    )]
    Stranger {
        /// The socket.
        socket: PathBuf,
        /// User id of the program that listens.
        user: u32,
    },
    /// The daemon refused the request.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The reply is none of this version of the protocol.
    #[error("the daemon's reply is not understood: {0}")]
    Reply(String),
}

/// A connection to a daemon. After a pause in the requests it is made anew.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    stream: BufReader<UnixStream>,
    patience: Duration,
    /// Process id of the daemon.
    daemon: i32,
    /// Time of the last request.
    asked: Instant,
}

impl Client {
    /// Connects to the daemon at `socket`.
    ///
    /// # Errors
    /// If nothing listens there, or a program of another user does.
    pub fn connect(socket: &Path) -> Result<Self, ClientError> {
        Self::connect_patiently(socket, SILENCE)
    }

    fn connect_patiently(socket: &Path, patience: Duration) -> Result<Self, ClientError> {
        let failed = |source| failure(socket, patience, source);
        let stream = connect_patiently(socket, patience).map_err(failed)?;
        let listener = Credentials::of_peer(&stream).map_err(failed)?;
        let this = Credentials::of_this_process();
        // Root may use the daemon of any user.
        if !listener.is_root() && !this.is_root() && listener.user != this.user {
            return Err(ClientError::Stranger { socket: socket.to_owned(), user: listener.user });
        }
        let (daemon, asked) = (peer_process(&stream).map_err(failed)?, Instant::now());
        let (socket, stream) = (socket.to_owned(), BufReader::new(stream));
        Ok(Self { socket, stream, patience, daemon, asked })
    }

    /// Connects to the same daemon again if the last request was long ago.
    fn refresh(&mut self) -> Result<(), ClientError> {
        if self.asked.elapsed() >= PAUSE {
            let again = Self::connect_patiently(&self.socket, self.patience)?;
            if again.daemon != self.daemon {
                return Err(ClientError::Gone { socket: again.socket });
            }
            *self = again;
        }
        self.asked = Instant::now();
        Ok(())
    }

    /// Sends a request and returns the reply to it.
    ///
    /// # Errors
    /// If the connection breaks or the daemon refuses.
    pub fn request(&mut self, request: &Request) -> Result<Reply, ClientError> {
        self.refresh()?;
        let sent = self.stream.get_mut().write_all(&write_request(request));
        let mut line = Vec::new();
        let read = match sent {
            // A daemon that refuses a connection says why before it reads anything.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                let read = self.stream.read_until(b'\n', &mut line);
                read.ok().filter(|length| *length > 0).ok_or(error)
            }
            sent => sent.and_then(|()| self.stream.read_until(b'\n', &mut line)),
        };
        match read {
            Ok(0) => Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
            Err(source) => Err(self.broken(source)),
            Ok(_) => match parse_reply(&line) {
                Ok(Reply::Refused(refusal)) => Err(refusal.into()),
                Ok(reply) => Ok(reply),
                Err(error) => Err(ClientError::Reply(error.to_string())),
            },
        }
    }

    /// Sends a request for jobs.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub fn jobs(&mut self, request: &Request) -> Result<Vec<JobView>, ClientError> {
        match self.request(request)? {
            Reply::Jobs(jobs) => Ok(jobs),
            other => Err(ClientError::Reply(format!("{other:?}"))),
        }
    }

    /// Waits until the jobs have ended.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub fn wait(&mut self, ids: &Ids) -> Result<Vec<JobView>, ClientError> {
        let request = Request::Wait { ids: ids.clone(), timeout_ms: MAX_WAIT_MS };
        loop {
            let jobs = self.jobs(&request)?;
            if jobs.iter().all(|job| job.state.is_over()) {
                return Ok(jobs);
            }
        }
    }

    fn broken(&self, source: io::Error) -> ClientError {
        failure(&self.socket, self.patience, source)
    }
}

fn failure(socket: &Path, patience: Duration, source: io::Error) -> ClientError {
    use io::ErrorKind::{
        BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof, WouldBlock,
    };
    let socket = socket.to_owned();
    match source.kind() {
        NotFound | ConnectionRefused => ClientError::NoDaemon { socket },
        BrokenPipe | ConnectionReset | UnexpectedEof => ClientError::Gone { socket },
        WouldBlock => ClientError::Silent { socket, patience },
        _ => ClientError::Connection { socket, source },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use crate::protocol::{RefusalKind, write_reply};

    use super::*;

    /// Returns a client, the socket that it has connected to, and the directory of that.
    fn connected() -> (tempfile::TempDir, UnixListener, Client) {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let client = Client::connect(&socket).unwrap();
        (directory, listener, client)
    }

    #[test]
    fn a_refused_connection_says_why() {
        let (_directory, listener, mut client) = connected();
        let (mut stream, _) = listener.accept().unwrap();
        let refusal = Refusal::new(RefusalKind::Busy, "too many connections");
        stream.write_all(&write_reply(&Reply::Refused(refusal))).unwrap();
        drop(stream);
        let refused = client.request(&Request::Status {}).unwrap_err();
        assert_eq!(refused.to_string(), "too many connections");
    }

    #[test]
    fn a_daemon_that_ends_is_told() {
        let (_directory, listener, mut client) = connected();
        drop(listener.accept().unwrap());
        let ended = client.wait(&vec![]).unwrap_err().to_string();
        let text = format!("the daemon at {} has ended; its jobs", client.socket.display());
        assert!(ended.starts_with(&text), "{ended}");
    }

    #[test]
    fn a_request_after_a_pause_goes_over_a_new_connection_to_the_same_daemon() {
        let (_directory, listener, mut client) = connected();
        // As the daemon does with one that says nothing.
        drop(listener.accept().unwrap());
        client.asked -= PAUSE;
        let answer = || {
            let (mut stream, _) = listener.accept().unwrap();
            BufReader::new(&stream).read_until(b'\n', &mut Vec::new()).unwrap();
            stream.write_all(&write_reply(&Reply::Done {})).unwrap();
        };
        let reply = std::thread::scope(|scope| {
            scope.spawn(answer);
            client.request(&Request::Status {}).unwrap()
        });
        assert_eq!(reply, Reply::Done {});
        client.asked -= PAUSE;
        client.daemon += 1;
        let ended = client.request(&Request::Status {}).unwrap_err();
        assert!(matches!(ended, ClientError::Gone { .. }), "{ended}");
    }

    #[test]
    fn a_client_gives_up_on_a_daemon_that_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let mut client = Client::connect_patiently(&socket, Duration::from_millis(20)).unwrap();
        let silence = client.request(&Request::Status {}).unwrap_err();
        let text = format!("the daemon at {} has said nothing for 20ms", socket.display());
        assert!(silence.to_string().starts_with(&text), "{silence}");
    }
}
