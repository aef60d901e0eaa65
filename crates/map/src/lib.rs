//! Address maps of memory controllers: reading those that other tools have found, and telling what
//! a map means for pages. The maps themselves are [`memweir_core::address_map`].

#![forbid(unsafe_code)]

pub mod import;
pub mod view;
