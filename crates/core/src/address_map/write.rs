//! Serialization of a map in the format that [`AddressMap::parse`] reads.

use std::fmt::Write as _;

use super::{AddressMap, Role, SetFunction, XorFunction};

impl AddressMap {
    /// Returns the text of the map's file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = format!("name = {}\n", quoted(&self.name));
        if let Some(source) = &self.source {
            put(&mut text, format_args!("source = {}", quoted(source)));
        }
        put(&mut text, format_args!("bits = {}", self.bits));
        if self.offset != 0 {
            put(&mut text, format_args!("offset = {:#x}", self.offset));
        }
        if let Some(interleave) = self.interleave {
            let (channels, granule) = (interleave.channels, interleave.granule.0);
            put(
                &mut text,
                format_args!("interleave = {{ channels = {channels}, granule = {granule} }}"),
            );
        }
        put(&mut text, format_args!("function = ["));
        for function in &self.functions {
            put(&mut text, format_args!("    {},", set_function(function)));
        }
        put(&mut text, format_args!("]"));
        for (key, functions) in [("row", &self.row), ("column", &self.column)] {
            if !functions.is_empty() {
                let list: Vec<String> = functions.iter().map(|f| bit_or_bits(*f)).collect();
                put(&mut text, format_args!("{key} = [{}]", list.join(", ")));
            }
        }
        text
    }
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").unwrap_or_else(|_| unreachable!("a string takes every line"));
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn set_function(function: &SetFunction) -> String {
    let bits = list(function.function);
    match function.role {
        Role::Set => format!("{{ bits = {bits} }}"),
        role => format!("{{ role = \"{}\", bits = {bits} }}", role.name()),
    }
}

fn list(function: XorFunction) -> String {
    let bits: Vec<String> = function.bits().map(|bit| bit.to_string()).collect();
    format!("[{}]", bits.join(", "))
}

fn bit_or_bits(function: XorFunction) -> String {
    match function.0.is_power_of_two() {
        true => function.lowest().to_string(),
        false => list(function),
    }
}
