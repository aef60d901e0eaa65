//! Address mappings of DRAMSys: JSON with lists of bits by level, the least significant first; a
//! list in place of a bit is an exclusive or. In versions before such lists, `XOR` has pairs of
//! bits, of which the first becomes the exclusive or of both before the lists are read.

use memweir_core::address_map::{Role, SetFunction, XorFunction};
use memweir_core::input::InputError;
use serde_json::Value;

use super::Found;

const SETS: [(&str, Role); 6] = [
    ("CHANNEL_BIT", Role::Channel),
    ("PSEUDOCHANNEL_BIT", Role::SubChannel),
    ("STACK_BIT", Role::Rank),
    ("RANK_BIT", Role::Rank),
    ("BANKGROUP_BIT", Role::BankGroup),
    ("BANK_BIT", Role::Bank),
];
const COLUMNS: [&str; 3] = ["BYTE_BIT", "BURST_BIT", "COLUMN_BIT"];
const ROW: &str = "ROW_BIT";
const PAIRS: &str = "XOR";

/// Number of address bits.
const BITS: usize = 63;

pub(super) fn read(source_name: &str, text: &str) -> Result<Found, InputError> {
    let document: Value = serde_json::from_str(text)
        .map_err(|error| InputError::new(source_name, error.to_string()).line(error.line()))?;
    let mapping = document.get("addressmapping").unwrap_or(&document);
    let bits = after_pairs(source_name, mapping.get(PAIRS))?;
    let list = |key: &str| functions(source_name, key, mapping.get(key), &bits);
    let mut found = Found { row: list(ROW)?, ..Found::default() };
    for (key, role) in SETS {
        found
            .functions
            .extend(list(key)?.into_iter().map(|function| SetFunction { role, function }));
    }
    for key in COLUMNS {
        found.column.extend(list(key)?);
    }
    Ok(found)
}

/// Returns the function of the address that each bit is once the pairs have been applied in order.
fn after_pairs(source_name: &str, pairs: Option<&Value>) -> Result<[u64; BITS], InputError> {
    let mut bits: [u64; BITS] = std::array::from_fn(|bit| 1 << bit);
    let Some(pairs) = pairs else { return Ok(bits) };
    let refuse = || {
        let reason = "must be an array of pairs of different bits from 0 to 62";
        InputError::new(source_name, reason).key(PAIRS).help("`{\"FIRST\": 13, \"SECOND\": 16}`")
    };
    for pair in pairs.as_array().ok_or_else(refuse)? {
        let place = |key: &str| bit(pair.get(key)?);
        match (place("FIRST"), place("SECOND")) {
            (Some(first), Some(second)) if first != second => bits[first] ^= bits[second],
            _ => return Err(refuse()),
        }
    }
    Ok(bits)
}

/// Returns the number of a bit of the address.
fn bit(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|bit| usize::try_from(bit).ok()).filter(|bit| *bit < BITS)
}

/// Returns the functions of a list, in which each bit stands for its function in `bits`.
fn functions(
    source_name: &str,
    key: &str,
    value: Option<&Value>,
    bits: &[u64; BITS],
) -> Result<Vec<XorFunction>, InputError> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let refuse = || {
        let reason = "must be an array of bits from 0 to 62, or of arrays of different ones";
        InputError::new(source_name, reason).key(key)
    };
    let function = |value: &Value| {
        let places = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        let mut named = 0u64;
        let mut mask = 0;
        for place in places {
            let place = bit(place)?;
            if named >> place & 1 == 1 {
                return None;
            }
            named |= 1 << place;
            mask ^= bits[place];
        }
        (mask != 0).then_some(XorFunction(mask))
    };
    let list = value.as_array().ok_or_else(refuse)?;
    list.iter().map(|value| function(value).ok_or_else(refuse)).collect()
}
