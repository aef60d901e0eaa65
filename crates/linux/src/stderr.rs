//! Messages on standard error, which may be a full disk, or a pipe that nobody reads any more.
//!
//! A message that cannot be written is dropped. It must not end what it speaks of, such as a daemon
//! with its jobs; the standard library's own macros would panic.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a text as it is.
pub fn print(text: impl Display) {
    // In one piece, so that no other process writes into the line.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// Prints a message of memweir in a line of its own on standard error, where that can be written.
/// The arguments are those of [`format!`].
#[macro_export]
macro_rules! tell {
    ($($message:tt)*) => {
        $crate::stderr::print(format_args!("memweir: {}\n", format_args!($($message)*)))
    };
}
