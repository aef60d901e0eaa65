//! Messages of the daemon for people.

use std::sync::Mutex;

use super::lock;
use memweir_linux::tell;

/// Messages that are kept.
const MAX_NOTICES: usize = 20;

/// The last messages, each of which is printed when it is new.
#[derive(Debug, Default)]
pub(super) struct Notices(Mutex<Vec<String>>);

impl Notices {
    /// Keeps a message; equal ones only once.
    pub(super) fn add(&self, text: String) {
        let mut notices = lock(&self.0);
        if notices.contains(&text) {
            return;
        }
        tell!("{text}");
        if notices.len() == MAX_NOTICES {
            notices.remove(0);
        }
        notices.push(text);
    }

    /// Returns the messages, the oldest first.
    pub(super) fn list(&self) -> Vec<String> {
        lock(&self.0).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_messages_are_kept_once() {
        let notices = Notices::default();
        for number in (0..=MAX_NOTICES).chain([MAX_NOTICES]) {
            notices.add(number.to_string());
        }
        let kept: Vec<String> = (1..=MAX_NOTICES).map(|number| number.to_string()).collect();
        assert_eq!(notices.list(), kept);
    }
}
