//! Strings of the operating system in JSON.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A string of the operating system: text where it is UTF-8, bytes elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// UTF-8.
    Utf8(String),
    /// Any bytes.
    Bytes(Vec<u8>),
}

impl Text {
    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Utf8(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Returns it as a path.
    #[must_use]
    pub fn to_path(&self) -> PathBuf {
        OsString::from(self).into()
    }
}

impl<T: AsRef<OsStr>> From<T> for Text {
    fn from(text: T) -> Self {
        let text = text.as_ref();
        match text.to_str() {
            Some(utf8) => Self::Utf8(utf8.to_owned()),
            None => Self::Bytes(text.as_bytes().to_owned()),
        }
    }
}

impl From<&Text> for OsString {
    fn from(text: &Text) -> Self {
        Self::from_vec(text.as_bytes().to_owned())
    }
}

/// Paths in JSON as a [`Text`], for `#[serde(with = "crate::text::path")]`.
pub(crate) mod path {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Text;

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        Text::from(path).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Text::deserialize(from).map(|text| text.to_path())
    }
}
