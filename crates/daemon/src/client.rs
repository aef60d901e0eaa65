//! The other side of the protocol: a connection to a daemon.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use memweir_linux::peer::Credentials;

use crate::protocol::{
    Ids, JobView, MAX_WAIT_MS, Refusal, Reply, Request, parse_reply, write_request,
};

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

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the daemon at `socket`.
    ///
    /// # Errors
    /// If nothing listens there, or a program of another user does.
    pub fn connect(socket: &Path) -> Result<Self, ClientError> {
        let path = socket.to_owned();
        let stream = match UnixStream::connect(socket) {
            Ok(stream) => stream,
            Err(error) => {
                use io::ErrorKind::{ConnectionRefused, NotFound};
                return Err(match error.kind() {
                    NotFound | ConnectionRefused => ClientError::NoDaemon { socket: path },
                    _ => ClientError::Connection { socket: path, source: error },
                });
            }
        };
        let failed = |source| ClientError::Connection { socket: path.clone(), source };
        let listener = Credentials::of_peer(&stream).map_err(failed)?;
        let this = Credentials::of_this_process();
        // Root may use the daemon of any user.
        if !listener.is_root() && !this.is_root() && listener.user != this.user {
            return Err(ClientError::Stranger { socket: path, user: listener.user });
        }
        Ok(Self { socket: path, stream: BufReader::new(stream) })
    }

    /// Sends a request and returns the reply to it.
    ///
    /// # Errors
    /// If the connection breaks or the daemon refuses.
    pub fn request(&mut self, request: &Request) -> Result<Reply, ClientError> {
        let sent = self.stream.get_mut().write_all(&write_request(request));
        let mut line = Vec::new();
        let read = sent.and_then(|()| self.stream.read_until(b'\n', &mut line));
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
        ClientError::Connection { socket: self.socket.clone(), source }
    }
}
