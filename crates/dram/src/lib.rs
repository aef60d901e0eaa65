//! Memory devices and their controllers, command by command.
//!
//! A [`Request`](request::Request) enters a memory system, waits in a queue of its channel, and is
//! served by [`Command`](command::Command)s that obey the timing of the devices. Time jumps from
//! one command that can issue to the next. This crate knows no tasks, cores or operating systems:
//! the requester is a number that is returned with the completion.

#![forbid(unsafe_code)]

mod channel;
pub mod check;
pub mod command;
pub mod config;
mod controllers;
pub mod curve;
mod decode;
pub mod drampower;
pub mod drive;
pub mod energy;
pub mod hybrid;
pub mod intervals;
mod link;
mod observer;
pub mod request;
pub mod spec;
pub mod stats;
mod system;
mod tagged;
mod timer;

pub use config::MemoryConfig;
pub use hybrid::Hybrid;
pub use observer::Observer;
pub use request::Full;
pub use spec::MemorySpec;
pub use stats::Stats;
pub use system::MemorySystem;
