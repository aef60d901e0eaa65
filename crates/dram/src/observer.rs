//! Observers of memory systems: they see each completion and each command.

use crate::command::Command;
use crate::request::Completion;

/// Observer of a memory system. Within a channel, calls come in the order of time.
pub trait Observer {
    /// A request is complete. Called in the cycle of its last data beat.
    fn completed(&mut self, completion: &Completion) {
        let _ = completion;
    }

    /// A command was issued.
    fn command(&mut self, command: &Command) {
        let _ = command;
    }
}

/// Ignores all events.
impl Observer for () {}
