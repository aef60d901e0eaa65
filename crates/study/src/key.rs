//! Keys of points by content, under which the results of a point can be kept and found again.

use std::fmt::{self, Debug, Write};

use sha2::{Digest, Sha256};

/// Bytes of a key: enough that two points never share one.
const BYTES: usize = 16;

/// Hash of the sources of the simulators from which this memweir was built, in hexadecimal digits.
pub const SOURCES: &str = env!("MEMWEIR_SOURCES");

/// Returns the key of a point, in hexadecimal digits: a hash of memweir's version and [`SOURCES`],
/// the swept keys with their values in whatever order, and the scenario with the content of all
/// files that it names.
#[must_use]
pub fn key(at: &[(String, String)], scenario: &impl Debug) -> String {
    key_of(env!("CARGO_PKG_VERSION"), SOURCES, at, scenario)
}

fn key_of(version: &str, sources: &str, at: &[(String, String)], scenario: &impl Debug) -> String {
    let mut at: Vec<_> = at.iter().collect();
    at.sort();
    let mut hasher = Hasher(Sha256::new());
    // Writing to a hasher never fails.
    let _ = write!(hasher, "{version} {sources} {at:?} {scenario:?}");
    shortened(&hasher.0.finalize())
}

/// Returns as much of a hash, in hexadecimal digits, as keeps any two apart.
#[must_use]
pub fn shortened(hash: &[u8]) -> String {
    hash.iter().take(BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// A hasher of text.
struct Hasher(Sha256);

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_version_and_changed_sources_have_other_keys() {
        let at = [("cores".to_owned(), "2".to_owned())];
        let of = |version, sources| key_of(version, sources, &at, &"scenario");
        assert_eq!(key(&at, &"scenario"), of(env!("CARGO_PKG_VERSION"), SOURCES));
        assert_ne!(of("0.1.0", "1f"), of("0.1.1", "1f"));
        assert_ne!(of("0.1.0", "1f"), of("0.1.0", "2f"));
    }

    #[test]
    fn the_sources_are_those_of_all_crates_that_a_study_uses() {
        for line in include_str!("../Cargo.toml").lines() {
            let used = line.strip_prefix("memweir-").and_then(|used| used.split_once('.'));
            if let Some((name, _)) = used {
                assert!(include_str!("../build.rs").contains(&format!("\"{name}\"")), "{name}");
            }
        }
    }

    #[test]
    fn a_key_follows_from_values_and_content_alone() {
        let at = |value: &str| vec![("cores".to_owned(), value.to_owned())];
        let first = key(&at("2"), &vec![1.5, 2.0]);
        assert_eq!(first, key(&at("2"), &vec![1.5, 2.0]));
        assert_eq!(first.len(), 2 * BYTES);
        assert_ne!(first, key(&at("3"), &vec![1.5, 2.0]));
        assert_ne!(first, key(&at("2"), &vec![1.5, 2.1]));

        let two =
            |first: &str, second: &str| [first, second].map(|key| (key.to_owned(), "1".to_owned()));
        assert_eq!(key(&two("a", "b"), &()), key(&two("b", "a"), &()));
    }
}
