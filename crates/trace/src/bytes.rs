//! A window over a stream of bytes.

use std::io::Read;

use memweir_core::input::InputError;

/// Smallest size of the window in bytes.
const WINDOW: usize = 256 << 10;

/// A stream of bytes with a window on its next ones.
pub(super) struct Bytes {
    name: String,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes before `start`.
    taken: u64,
}

impl Bytes {
    pub(super) fn new(name: &str, input: Box<dyn Read + Send>) -> Self {
        let buffer = vec![0; WINDOW];
        Self { name: name.to_owned(), input, buffer, start: 0, end: 0, taken: 0 }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn refuse(&self, reason: impl Into<String>) -> InputError {
        InputError::new(self.name.clone(), reason)
    }

    /// Returns the number of bytes taken since the beginning.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the bytes in the window.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Removes the first `count` bytes from the window.
    pub(super) fn take(&mut self, count: usize) {
        self.start += count;
        self.taken += count as u64;
    }

    /// Reads more bytes into the window; false if there are none, or the window is full.
    pub(super) fn fill(&mut self) -> Result<bool, InputError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let before = self.end;
        while self.end < self.buffer.len() {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.refuse(error.to_string())),
            }
        }
        Ok(self.end > before)
    }

    /// Reads until the window has `count` bytes, and enlarges it if necessary; false if there are
    /// fewer.
    pub(super) fn want(&mut self, count: usize) -> Result<bool, InputError> {
        if self.rest().len() >= count {
            return Ok(true);
        }
        if self.buffer.len() < count {
            self.buffer.resize(count, 0);
        }
        self.fill()?;
        Ok(self.rest().len() >= count)
    }
}
