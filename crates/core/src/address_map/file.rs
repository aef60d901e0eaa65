//! The file format of address maps.
//!
//! ```toml
//! name = "Core i7-860, 8 GB"
//! source = "bpm section 3.1"
//! bits = 33                       # address bits that the map speaks of
//! offset = 0                      # taken off a physical address first
//! function = [
//!     { role = "bank", bits = [13] },
//!     { role = "rank", bits = [21] },
//!     { bits = [14, 18] },        # an exclusive or; the role is not known
//! ]
//! row = [[18], [19, 21], 20]      # least significant first; a number is a function of one bit
//! column = [0, 1, 2]
//! interleave = { channels = 3, granule = 256 }
//! ```

use std::fmt::Write as _;

use super::{AddressMap, Interleave, Role, SetFunction, XorFunction};
use crate::input::{Document, InputError, Section, Value};
use crate::units::{Bytes, LINE_BYTES};

const KEYS: [&str; 8] =
    ["name", "source", "bits", "offset", "function", "row", "column", "interleave"];

impl AddressMap {
    /// Parses the text of a map's file; `name` is its name in messages.
    ///
    /// # Errors
    /// If a value is invalid; the error has line, key and reason.
    pub fn parse(name: &str, text: &str) -> Result<Self, InputError> {
        let mut root = Document { name, text }.parse()?;
        root.only(&KEYS)?;
        let bits = root.require("bits")?.whole_in(7..=63)?;
        let map = Self {
            name: root.require("name")?.string()?.to_owned(),
            source: root.map("source", |value| Ok(value.string()?.to_owned()))?,
            offset: root.map("offset", |value| value.whole_in(0..=u64::MAX))?.unwrap_or(0),
            interleave: root.map("interleave", interleave)?,
            bits,
            functions: set_functions(root.require("function")?, bits)?,
            row: root.map("row", |value| functions(&value, bits))?.unwrap_or_default(),
            column: root.map("column", |value| functions(&value, bits))?.unwrap_or_default(),
        };
        root.checked(map.validate())?;
        Ok(map)
    }

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
            put(&mut text, format_args!("    {},", written(function)));
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

fn interleave(value: Value<'_>) -> Result<Interleave, InputError> {
    let mut section = value.section()?;
    section.only(&["channels", "granule"])?;
    let channels = section.require("channels")?.whole_in(2..=64)?;
    let granule = section.require("granule")?;
    let bytes: u64 = granule.whole_in(LINE_BYTES..=1 << 30)?;
    if !bytes.is_power_of_two() {
        return Err(granule.refuse(format!("{bytes} is no power of two")));
    }
    Ok(Interleave { channels, granule: Bytes(bytes) })
}

fn set_functions(value: Value<'_>, bits: u32) -> Result<Vec<SetFunction>, InputError> {
    value.sections()?.into_iter().map(|section| set_function(section, bits)).collect()
}

fn set_function(mut section: Section<'_>, bits: u32) -> Result<SetFunction, InputError> {
    section.only(&["role", "bits"])?;
    let role = section.map("role", |value| value.named())?;
    let function = function(&section.require("bits")?, bits)?;
    Ok(SetFunction { role: role.unwrap_or(Role::Set), function })
}

fn functions(value: &Value<'_>, bits: u32) -> Result<Vec<XorFunction>, InputError> {
    value
        .array("an array of bits or of arrays of bits")?
        .iter()
        .map(|f| function(f, bits))
        .collect()
}

/// One function: a bit, or an array of bits.
fn function(value: &Value<'_>, bits: u32) -> Result<XorFunction, InputError> {
    if !value.is_array() {
        return Ok(XorFunction(1 << bit(value, bits)?));
    }
    let mut mask = 0;
    for value in value.array("an array of bits")? {
        let bit = 1 << bit(&value, bits)?;
        if mask & bit != 0 {
            return Err(value.refuse("the bit is named twice, so it would cancel itself"));
        }
        mask |= bit;
    }
    if mask == 0 {
        return Err(value.refuse("a function of no bits tells nothing apart"));
    }
    Ok(XorFunction(mask))
}

fn bit(value: &Value<'_>, bits: u32) -> Result<u8, InputError> {
    let number = value.integer()?;
    match u8::try_from(number) {
        Ok(bit) if u32::from(bit) < bits => Ok(bit),
        _ => Err(value
            .refuse(format!("bit {number} is not in the address"))
            .help(format!("the map speaks of bits 0 to {} (`bits = {bits}`)", bits - 1))),
    }
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").unwrap_or_else(|_| unreachable!("a string takes every line"));
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn written(function: &SetFunction) -> String {
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
