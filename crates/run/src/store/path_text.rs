//! Paths in JSON: text where they are UTF-8, an array of bytes elsewhere.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum PathText {
    Utf8(PathBuf),
    Bytes(Vec<u8>),
}

pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    match path.to_str() {
        Some(text) => text.serialize(serializer),
        None => path.as_os_str().as_bytes().serialize(serializer),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    Ok(match PathText::deserialize(from)? {
        PathText::Utf8(path) => path,
        PathText::Bytes(bytes) => OsString::from_vec(bytes).into(),
    })
}
