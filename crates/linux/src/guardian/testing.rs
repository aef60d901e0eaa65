//! A fake guardian: it records messages and fails as a test asks.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Guard, Message};

/// The guardian. Clones share one log.
#[derive(Clone, Default)]
pub(crate) struct FakeGuard(Arc<Mutex<GuardLog>>);

/// The messages so far, and the next answers.
#[derive(Default)]
pub(crate) struct GuardLog {
    pub(crate) told: Vec<Message>,
    pub(crate) goodbyes: usize,
    pub(crate) lost: bool,
    pub(crate) notice: Option<String>,
}

impl FakeGuard {
    pub(crate) fn log(&self) -> MutexGuard<'_, GuardLog> {
        self.0.lock().unwrap()
    }

    pub(crate) fn told(&self) -> Vec<Message> {
        self.log().told.clone()
    }
}

impl Guard for FakeGuard {
    fn watch(&mut self, message: Message) -> io::Result<()> {
        self.log().told.push(message);
        Ok(())
    }

    fn check(&mut self) -> io::Result<Option<String>> {
        let mut log = self.log();
        if log.lost { Err(io::Error::other("no memory")) } else { Ok(log.notice.take()) }
    }

    fn goodbye(&mut self) {
        self.log().goodbyes += 1;
    }
}
