//! Commands that configure PALLOC: a mask of bits (`echo 0x0001e000 > .../palloc_mask`), each of
//! which may be paired with another (`echo xor 13 17 > .../control`).

use memweir_core::address_map::XorFunction;
use memweir_core::input::InputError;

use super::{Found, bit, mask};

pub(super) fn read(source_name: &str, text: &str) -> Result<Found, InputError> {
    let mut chosen: Option<u64> = None;
    let mut pairs: Vec<(usize, u8, u8)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> =
            line.split([' ', '\t', '\r', '"', '\'']).filter(|word| !word.is_empty()).collect();
        if let Some(at) = words.iter().position(|word| *word == "xor") {
            let [a, b] = words.get(at + 1..at + 3).unwrap_or_default() else {
                return Err(InputError::new(source_name, "`xor` needs two bits").line(number + 1));
            };
            let (a, b) = (bit(source_name, number + 1, a)?, bit(source_name, number + 1, b)?);
            pairs.push((number + 1, a, b));
        } else if line.contains("palloc_mask")
            && let Some(word) = words.iter().find(|word| word.starts_with("0x"))
        {
            chosen = Some(mask(source_name, number + 1, word)?);
        }
    }
    let Some(chosen) = chosen else {
        return Err(InputError::new(source_name, "no `palloc_mask`")
            .help("`echo 0x0001e000 > /sys/kernel/debug/palloc/palloc_mask`"));
    };
    let mut found = Found::default();
    for bit in XorFunction(chosen).bits() {
        let partners =
            pairs.iter().filter(|(_, a, _)| *a == bit).fold(0, |mask, (_, _, b)| mask ^ 1u64 << b);
        found.set(XorFunction(1 << bit ^ partners));
    }
    match pairs.into_iter().find(|(_, a, _)| chosen >> a & 1 == 0) {
        Some((line, a, _)) => {
            Err(InputError::new(source_name, format!("bit {a} is not in the mask {chosen:#x}"))
                .line(line))
        }
        None => Ok(found),
    }
}
