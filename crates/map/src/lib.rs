//! Address maps of memory controllers: reading those that other tools have found, telling what
//! a map means for pages, and finding the map of a machine. The maps themselves are
//! [`memweir_core::address_map`].

#![forbid(unsafe_code)]

pub mod detect;
mod hash;
pub mod import;
pub mod live;
pub mod oracle;
pub mod published;
pub mod synthetic;
pub mod view;
