//! The machine at bank level: every request of its programs goes through caches, controller queues
//! and banks.
//!
//! | module | what lives there |
//! |---|---|
//! | [`os`] | the operating system of the machine: colored pages |

pub mod os;
