//! `--cores` and `cores = ...`: how many cores a batch may use, and whether it fills them.

use memweir_policy::CoreUse;
use memweir_policy::policies::{self, AUTO_CORES};

use super::{Refusal, cores};

/// What was written: `2`, `auto`, or `auto:2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// How many at most; all allowed ones if absent.
    pub limit: Option<u32>,
    /// Whether they are filled.
    pub core_use: CoreUse,
}

/// Reads a number of cores, `auto`, or `auto:` and a number, against the `available` ones.
pub fn cores_or_auto(text: &str, available: u32) -> Result<Cores, Refusal> {
    let number = |text: &str| match text.parse() {
        Ok(number) => cores(number, available).map(Some),
        Err(_) => Err(Refusal::new(
            format!("`{text}` is not a number of cores"),
            format!("from 1 to {available} here, or `auto`, or `auto:{available}`"),
        )),
    };
    let (limit, core_use) = match text.split_once(':') {
        None if text == "auto" => (None, CoreUse::Auto),
        Some(("auto", limit)) => (number(limit)?, CoreUse::Auto),
        _ => (number(text)?, CoreUse::All),
    };
    Ok(Cores { limit, core_use })
}

/// The policy with this use of the cores: [`AUTO_CORES`] is added to a policy that has that option.
/// One that blocks nobody fills every core.
#[must_use]
pub fn with_core_use(policy: String, core_use: CoreUse) -> String {
    let adds = |choice: policies::Choice| {
        choice.entry.options.contains(&AUTO_CORES) && !choice.options.has(&AUTO_CORES)
    };
    match core_use {
        CoreUse::Auto if policies::find(&policy).is_ok_and(adds) => {
            format!("{policy}:{}", AUTO_CORES.name)
        }
        _ => policy,
    }
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
    }

    #[test]
    fn auto_is_an_option_of_the_policies_that_block() {
        let auto = |policy: &str| with_core_use(policy.to_owned(), CoreUse::Auto);
        assert_eq!(auto("ideal-average"), "ideal-average:auto-cores");
        assert_eq!(auto("hmmsched:counts"), "hmmsched:counts:auto-cores");
        assert_eq!(auto("random:auto-cores"), "random:auto-cores");
        assert_eq!(auto("os"), "os");
        assert_eq!(with_core_use("random".to_owned(), CoreUse::All), "random");
    }
}
