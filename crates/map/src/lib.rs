//! Address maps of memory controllers: importing maps that other tools have found, deriving their
//! effect on pages, and detecting the map of a machine. The map type itself is in
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
