//! Address mappings of DRAMSys: JSON with lists of bits by level, the least significant first; a
//! list in place of a bit is an exclusive or.

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

pub(super) fn read(source_name: &str, text: &str) -> Result<Found, InputError> {
    let document: Value = serde_json::from_str(text)
        .map_err(|error| InputError::new(source_name, error.to_string()).line(error.line()))?;
    let mapping = document.get("addressmapping").unwrap_or(&document);
    let list = |key: &str| functions(source_name, key, mapping.get(key));
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

fn functions(
    source_name: &str,
    key: &str,
    value: Option<&Value>,
) -> Result<Vec<XorFunction>, InputError> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let refuse = || {
        let reason = "must be an array of bits from 0 to 62, or of arrays of different ones";
        InputError::new(source_name, reason).key(key)
    };
    let bit = |value: &Value| value.as_u64().filter(|bit| *bit < 63).map(|bit| 1u64 << bit);
    let function = |value: &Value| match value.as_array() {
        None => bit(value).map(XorFunction),
        Some(bits) => {
            let mask = bits.iter().map(bit).try_fold(0u64, |mask, bit| {
                let bit = bit?;
                (mask & bit == 0).then_some(mask | bit)
            });
            mask.map(XorFunction)
        }
    };
    let list = value.as_array().ok_or_else(refuse)?;
    list.iter().map(|value| function(value).filter(|f| f.0 != 0).ok_or_else(refuse)).collect()
}
