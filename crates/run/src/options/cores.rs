//! `--cores` and `cores = ...`: the number of cores that a batch may use, and the rule for filling
//! them.

use memweir_core::names::nearest;
use memweir_policy::CoreUse;

use super::{Refusal, cores};

/// A choice of cores: `2`, `auto`, or `auto:2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Most cores to use; all allowed ones if absent.
    pub limit: Option<u32>,
    /// Rule for filling them.
    pub core_use: CoreUse,
}

/// Reads a number of cores, `auto`, or `auto:` and a number, against the `available` ones.
pub fn cores_or_auto(text: &str, available: u32) -> Result<Cores, Refusal> {
    let valid = format!("from 1 to {available} here, or `auto`, or `auto:{available}`");
    let number = |text: &str| match text.parse() {
        Ok(number) => cores(number, available).map(Some),
        Err(_) => Err(Refusal::new(
            format!("`{text}` is not a number of cores"),
            match nearest(text, ["auto"]) {
                Some(auto) => format!("did you mean `{auto}`? {valid}"),
                None => valid.clone(),
            },
        )),
    };
    let (limit, core_use) = match text.split_once(':') {
        None if text == "auto" => (None, CoreUse::Auto),
        Some(("auto", limit)) => (number(limit)?, CoreUse::Auto),
        _ => (number(text)?, CoreUse::All),
    };
    Ok(Cores { limit, core_use })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_auto_or_both() {
        let read = |text| cores_or_auto(text, 4).map(|cores| (cores.limit, cores.core_use));
        assert_eq!(read("3"), Ok((Some(3), CoreUse::All)));
        assert_eq!(read("auto"), Ok((None, CoreUse::Auto)));
        assert_eq!(read("auto:2"), Ok((Some(2), CoreUse::Auto)));
        for (wrong, reason) in [
            ("0", "0 cores cannot be used"),
            ("auto:5", "5 cores cannot be used"),
            ("-1", "-1 cores cannot be used"),
            ("auto:", "`` is not a number of cores"),
            ("atuo", "`atuo` is not a number of cores"),
            ("2:auto", "`2:auto` is not a number of cores"),
        ] {
            assert_eq!(read(wrong).unwrap_err().reason, reason);
        }
        assert!(read("atuo").unwrap_err().help.unwrap().starts_with("did you mean `auto`? from 1"));
    }
}
