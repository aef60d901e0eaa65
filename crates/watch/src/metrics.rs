//! State that metrics and rows share; the metrics themselves follow.

use memweir_linux::cgroup_tree::GroupState;
use serde::Serialize;

/// State of a job or a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its processes may run.
    Running,
    /// Its processes are frozen, or its job was not selected.
    Blocked,
    /// It has not started.
    Waiting,
    /// It has no processes.
    Empty,
    /// It is over.
    Ended,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 5] =
        [Self::Running, Self::Blocked, Self::Waiting, Self::Empty, Self::Ended];

    /// Returns the name in tables and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Blocked => "blocked",
            Self::Waiting => "waiting",
            Self::Empty => "empty",
            Self::Ended => "ended",
        }
    }

    /// Returns the state of a control group; one without a state is gone.
    pub(crate) fn of(group: Option<GroupState>) -> Self {
        match group {
            None => Self::Ended,
            Some(group) if group.frozen => Self::Blocked,
            Some(group) if group.populated => Self::Running,
            Some(_) => Self::Empty,
        }
    }
}
