//! Policies in other processes: programs in any language, and objects of the Python package.
//!
//! They answer the lines of [`memweir_policy::protocol`]. A policy that dies, answers nonsense or
//! says nothing for too long chooses nothing from then on, and leaves the reason in a
//! [`PolicyFailure`], by which the batch ends in order. A signal that comes while an answer is due
//! is no failure: the policy chooses nothing from then on, and the batch takes the signal.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use memweir_core::BytesPerSec;
use memweir_core::input::Refusal;
use memweir_linux::line_peer::{AskError, LinePeer};
use memweir_policy::policies::{check_names, is_name};
use memweir_policy::protocol::{PolicyAnswer, PolicyQuestion, PolicySetup};
use memweir_policy::{Policy, QuantumView, SchedulerConfig};
use serde::{Deserialize, Serialize};

use crate::options::policy_names;

#[cfg(test)]
mod tests;

/// Name of a program that was given without one.
pub const UNNAMED: &str = "program";

/// Time limit of a decision, unless another one is set.
pub const DECISION_TIMEOUT: Duration = Duration::from_secs(10);

/// Mark of a socket in front of its path.
const SOCKET: &str = "unix:";

/// A policy in another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProgram {
    /// Name by which options choose it.
    pub name: String,
    /// The process.
    pub server: Server,
}

/// A process that answers for a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// A command of the shell, which is started for each run.
    Command(String),
    /// A process that listens on this Unix socket, to which each run connects.
    Socket(PathBuf),
}

impl FromStr for PolicyProgram {
    type Err = Refusal;

    /// Parses `[NAME=]CMD` or `[NAME=]unix:PATH`.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let (name, server) = match text.split_once('=') {
            Some((name, server)) if is_name(name) => (name, server),
            _ => (UNNAMED, text),
        };
        let server = match server.strip_prefix(SOCKET) {
            Some(path) => Server::Socket(path.into()),
            None if server.trim().is_empty() || server.contains('\0') => {
                let help = "a command, such as `python3 mine.py`, or `mine=python3 mine.py`";
                return Err(Refusal::new(format!("`{text}` names no program"), help));
            }
            None => Server::Command(server.to_owned()),
        };
        Ok(Self { name: name.to_owned(), server })
    }
}

impl PolicyProgram {
    /// Checks the names of programs: none is that of a policy of memweir, and none occurs twice.
    ///
    /// # Errors
    /// The first wrong name.
    pub fn check_all(programs: &[Self]) -> Result<(), Refusal> {
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        check_names(&names, &mut policy_names().into_iter())
    }

    /// Starts the policy of one run, which has `limit` for each answer.
    #[must_use]
    pub fn start(
        &self,
        config: &SchedulerConfig,
        limit: Duration,
        failure: PolicyFailure,
    ) -> Box<dyn Policy> {
        let peer = match &self.server {
            Server::Command(command) => LinePeer::start(command),
            Server::Socket(path) => LinePeer::connect(path),
        };
        let setup =
            PolicySetup::new(SchedulerConfig { policy: self.name.clone(), ..config.clone() });
        let introduced = peer
            .map_err(|error| NoChoice::Failed(format!("could not be started: {error}")))
            .and_then(|mut peer| Ok(peer.tell(&setup.line(), limit).map(|()| peer)?));
        let peer = introduced.map_err(|reason| failure.set(&self.name, None, reason)).ok();
        let (name, over) = (self.name.clone(), peer.is_none());
        Box::new(RemotePolicy { name, peer, over, limit, failure, target: None })
    }
}

/// The failure of a policy, as the batch sees it.
#[derive(Clone, Debug, Default)]
pub struct PolicyFailure(Arc<Mutex<Option<FailedPolicy>>>);

/// A policy that could not decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("policy `{policy}` failed{}: it {reason}", in_quantum(*quantum))]
pub struct FailedPolicy {
    /// Its name.
    pub policy: String,
    /// The quantum for which it had to decide; absent if it could not be started.
    pub quantum: Option<u64>,
    /// The reason, after the name of the policy.
    pub reason: String,
}

fn in_quantum(quantum: Option<u64>) -> String {
    quantum.map_or(String::new(), |quantum| format!(" in quantum {quantum}"))
}

impl PolicyFailure {
    /// Returns the failure, if there is one.
    #[must_use]
    pub fn get(&self) -> Option<FailedPolicy> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, policy: &str, quantum: Option<u64>, reason: NoChoice) {
        let NoChoice::Failed(reason) = reason else { return };
        let failed = FailedPolicy { policy: policy.to_owned(), quantum, reason };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(failed);
    }
}

/// Reason for which a policy chose nothing.
enum NoChoice {
    /// A signal came, and the batch is about to take it.
    Interrupted,
    /// The policy failed, for this reason after its name.
    Failed(String),
}

impl From<AskError> for NoChoice {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Interrupted => Self::Interrupted,
            error => Self::Failed(error.to_string()),
        }
    }
}

/// The policy of one run.
struct RemotePolicy {
    name: String,
    /// Absent if it could not be started. It stays until the end of the run, because ending a
    /// program may take a while for which jobs would stay blocked.
    peer: Option<LinePeer>,
    /// True once it is not asked any more.
    over: bool,
    limit: Duration,
    failure: PolicyFailure,
    target: Option<BytesPerSec>,
}

impl Policy for RemotePolicy {
    /// Asks the process. After a failure or a signal the batch is about to end, and nothing is
    /// chosen.
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
        let Some(peer) = self.peer.as_mut().filter(|_| !self.over) else { return };
        match ask(peer, view, self.limit) {
            Ok((places, target)) => {
                chosen.extend(places);
                self.target = target;
            }
            Err(reason) => {
                self.failure.set(&self.name, Some(view.quantum), reason);
                self.over = true;
            }
        }
    }

    fn target(&self) -> Option<BytesPerSec> {
        self.target
    }
}

/// Returns the places of the chosen jobs, and the target.
fn ask(
    peer: &mut LinePeer,
    view: &QuantumView<'_>,
    limit: Duration,
) -> Result<(Vec<usize>, Option<BytesPerSec>), NoChoice> {
    let unasked = peer.has_spoken();
    let answer = peer.ask(&PolicyQuestion::new(view).line(), limit)?;
    match PolicyAnswer::parse(&answer).map_err(NoChoice::Failed)? {
        PolicyAnswer::Choice { .. } if unasked => Err(NoChoice::Failed(
            "answered before it was asked; write one line for each view, and none for the first \
             line of all"
                .to_owned(),
        )),
        PolicyAnswer::Choice { jobs, target } => {
            let places = view.places(&jobs);
            Ok((places.map_err(|impossible| NoChoice::Failed(impossible.to_string()))?, target))
        }
        PolicyAnswer::Failure { error } => Err(NoChoice::Failed(format!("gave up: {error}"))),
    }
}
