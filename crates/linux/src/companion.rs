//! Libraries of memweir's own that other programs load.

use std::path::{Path, PathBuf};

use crate::MissingFeature;

/// A library that comes with memweir.
pub(crate) struct Companion {
    /// Its name in messages.
    pub(crate) what: &'static str,
    /// Name of its file.
    pub(crate) file: &'static str,
    /// Package that builds it.
    pub(crate) package: &'static str,
    /// Variable that names its file, where it is at another place.
    pub(crate) variable: &'static str,
}

impl Companion {
    /// Returns its file: `named`, or that of the variable, or the one beside this executable or in
    /// `../lib/memweir`.
    ///
    /// # Errors
    /// If it is not found; the message has the places searched and the way to name it.
    pub(crate) fn find(&self, named: Option<&Path>) -> Result<PathBuf, MissingFeature> {
        let named = named.map(Path::to_owned);
        if let Some(path) = named.or_else(|| std::env::var_os(self.variable).map(Into::into)) {
            return path.canonicalize().map_err(|error| {
                let help = format!("name the file of the {}", self.what);
                MissingFeature::new(format!("{}: {error}", path.display()), help)
            });
        }
        let executable = std::env::current_exe().unwrap_or_default();
        let directory = executable.parent().unwrap_or(Path::new("/"));
        // `deps` is where cargo leaves the library when it builds it for another package's tests.
        let mut places = ["", "../lib/memweir", "deps", ".."].into_iter();
        let found = |place: &str| directory.join(place).join(self.file).canonicalize().ok();
        places.find_map(found).ok_or_else(|| {
            let (file, shown) = (self.file, executable.display());
            MissingFeature::new(
                format!("{file} was not found beside {shown} or in ../lib/memweir"),
                format!("build it with `cargo build -p {}` or set {}", self.package, self.variable),
            )
        })
    }
}
