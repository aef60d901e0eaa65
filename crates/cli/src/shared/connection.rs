//! The connection of a command to the daemon.

use std::path::PathBuf;

use memweir_core::input::InputError;
use memweir_daemon::client::{Client, ClientError};
use memweir_daemon::places;
use memweir_daemon::protocol::RefusalKind;

use crate::failure::Failure;

/// The daemon that a command talks to.
#[derive(Debug, clap::Args)]
pub(crate) struct Connection {
    /// Socket of the daemon [default: that of your own, else that of root's]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Connection {
    /// Connects to the daemon.
    pub(crate) fn open(&self) -> Result<Client, Failure> {
        Ok(Client::connect(&self.place())?)
    }

    /// Returns the daemon's socket.
    pub(crate) fn place(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(places::client_socket)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        use RefusalKind::{Busy, NotYours, Storage};
        match error {
            ClientError::Refused(refusal) if !matches!(refusal.kind, Busy | NotYours | Storage) => {
                Self::Input(InputError::new("queue", refusal.message))
            }
            other => Self::Machine(other.to_string()),
        }
    }
}
