//! Loading seeds.

use std::path::Path;

use crate::Seeds;

impl Seeds {
    pub(crate) fn load(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Files(pattern) => {
                let files = files(pattern);
                assert!(!files.is_empty(), "no seed matches {pattern}");
                files
            }
            Self::Texts(texts) => texts.iter().map(|text| text.as_bytes().to_vec()).collect(),
            Self::Made(make) => make(),
        }
    }
}

/// The files of this repository that match a pattern.
pub(crate) fn files(pattern: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a workspace");
    let paths = glob::glob(&root.join(pattern).to_string_lossy()).expect("a constant pattern");
    paths
        .map(|path| path.expect("the repository is readable"))
        .map(|path| std::fs::read(path).expect("the repository is readable"))
        .collect()
}
