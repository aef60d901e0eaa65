//! Private working directories for the runs of a profile, so that no run sees the files of another,
//! and the program finds its directory untouched when it runs for good.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use memweir_core::Bytes;
use memweir_core::input::InputError;
use memweir_linux::launch::{
    PrivateDirectories, PrivateView, UserNamespace, is_writable_directory,
};
use memweir_linux::{Launch, OsError, memories};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::types::ProfileError;
use crate::store::{Invocation, named_paths};

/// The most that a scratch copy of the working directory may hold.
const COPY_LIMIT: Bytes = Bytes(256 << 20);

/// The most files of a scratch copy.
const COPY_FILES: u64 = 20_000;

/// Room for changes where the kernel does not report the free memory.
const DEFAULT_ROOM: Bytes = Bytes(1 << 30);

/// Directories that are not covered for a path that an argument names: programs do not write to
/// them, or the kernel makes their content.
const OF_THE_SYSTEM: [&str; 11] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr"];

/// Working directories that no overlay can cover.
const NEVER_COVERED: [&str; 4] = ["/", "/dev", "/proc", "/sys"];

/// Isolation of the files of a profile's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Each run sees the working directory, and those of the paths that its arguments name,
    /// through an overlay of its own.
    Overlay,
    /// Each run works on a copy of the working directory.
    Copy,
    /// The runs write where the program writes.
    None,
}

memweir_core::named! {
    pub Isolation, "isolation": Overlay = "overlay", Copy = "copy", None = "none"
}

/// The process that opens the files into which a run counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counting {
    /// memweir.
    Outside,
    /// The emulator, which must reach memweir's own descriptors.
    Inside,
}

/// The chosen isolation of the runs of one profile.
#[derive(Debug)]
pub(super) struct Workspace {
    pub(super) isolation: Isolation,
    directory: PathBuf,
    private: Option<PrivateDirectories>,
    /// Reason for a weaker isolation than an overlay.
    pub(super) reason: Option<String>,
}

impl Workspace {
    /// Takes the requested isolation, or else the first that works here.
    ///
    /// # Errors
    /// If the requested one does not work.
    pub(super) fn choose(
        invocation: &Invocation,
        wanted: Option<Isolation>,
        counting: Counting,
    ) -> Result<Self, ProfileError> {
        let what = format!("the working directory {}", invocation.directory.display());
        let directory = fs::canonicalize(&invocation.directory);
        let directory = directory.map_err(OsError::of(what))?;
        let covered = covered(invocation, &directory);
        let mut reasons = Vec::new();
        for isolation in [Isolation::Overlay, Isolation::Copy] {
            if wanted.is_some_and(|wanted| wanted != isolation) {
                continue;
            }
            let works = match isolation {
                Isolation::Overlay => overlay(&directory, &covered, counting).map(Some),
                _ => copyable(invocation, &directory, &covered).map(|()| None),
            };
            match works {
                Ok(private) => {
                    let reason = reasons.pop();
                    return Ok(Self { isolation, directory, private, reason });
                }
                Err(reason) => reasons.push(reason),
            }
        }
        let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        match (wanted, reason) {
            (Some(wanted @ (Isolation::Overlay | Isolation::Copy)), Some(reason)) => {
                let error = InputError::new("profile", reason).key("isolation");
                let other = if wanted == Isolation::Overlay { "copy" } else { "overlay" };
                Err(error.help(format!("{other}, none, or leave it out")).into())
            }
            (_, reason) => {
                Ok(Self { isolation: Isolation::None, directory, private: None, reason })
            }
        }
    }

    /// The directories whose changes are private.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        match (&self.private, self.isolation) {
            (Some(private), _) => private.directories().map(Path::to_owned).collect(),
            (None, Isolation::Copy) => vec![self.directory.clone()],
            (None, _) => Vec::new(),
        }
    }

    /// Prepares one run.
    pub(super) fn place(&self, launch: &mut Launch) -> Result<Place, ProfileError> {
        // A relative path would lead past the overlay.
        launch.directory = Some(self.directory.clone());
        launch.private.clone_from(&self.private);
        let mut place = Place { directory: self.directory.clone(), copy: None };
        if self.isolation == Isolation::Copy {
            let what = format!("copying {}", self.directory.display());
            let copy = copy_of(&self.directory, &std::env::temp_dir());
            let copy = copy.map_err(OsError::of(what))?;
            launch.directory = Some(copy.path().to_owned());
            launch.env.insert("PWD".into(), copy.path().into());
            place.copy = Some(copy);
        }
        Ok(place)
    }
}

/// The working directory of one run; its private copy is removed on drop.
#[derive(Debug)]
pub(super) struct Place {
    directory: PathBuf,
    copy: Option<TempDir>,
}

impl Place {
    /// The name under which memweir reaches a path as the program left it.
    pub(super) fn inside(&self, view: Option<&PrivateView>, path: &Path) -> PathBuf {
        let copied = self.copy.as_ref().and_then(|copy| {
            let below = path.strip_prefix(&self.directory).ok()?;
            Some(copy.path().join(below))
        });
        copied
            .or_else(|| view.and_then(|view| view.inside(path)))
            .unwrap_or_else(|| path.to_owned())
    }
}

/// The directories to cover: the working directory, and for each path that an argument names the
/// one that it lies in, or else the path itself, as far as the user may write to them. A link and
/// its target are two such paths.
fn covered(invocation: &Invocation, directory: &Path) -> Vec<PathBuf> {
    let coverable = |path: &Path| {
        let path = fs::canonicalize(path).ok()?;
        let system = OF_THE_SYSTEM.iter().any(|system| path.starts_with(system));
        (is_writable_directory(&path) && !system && path != Path::new("/")).then_some(path)
    };
    let named = named_paths(invocation);
    let targets = named.iter().filter_map(|path| target(path));
    let named = targets
        .chain(named.iter().cloned())
        .filter_map(|path| path.parent().and_then(coverable).or_else(|| coverable(&path)));
    let mut all: Vec<PathBuf> = named.chain([directory.to_owned()]).collect();
    // Outer directories come before their subdirectories.
    all.sort();
    all.dedup_by(|inner, outer| inner.starts_with(outer));
    all
}

/// Returns the file behind a symbolic link, or where the link would make one.
fn target(path: &Path) -> Option<PathBuf> {
    let direct = path.parent()?.join(fs::read_link(path).ok()?);
    Some(fs::canonicalize(&direct).unwrap_or(direct))
}

/// Returns the memory that private directories may take now.
pub(super) fn room() -> Bytes {
    memories::available().map_or(DEFAULT_ROOM, |free| Bytes(free.0 / 2))
}

fn overlay(
    directory: &Path,
    covered: &[PathBuf],
    counting: Counting,
) -> Result<PrivateDirectories, String> {
    if NEVER_COVERED.iter().any(|never| directory == Path::new(never)) {
        return Err(format!("no overlay covers the working directory {}", directory.display()));
    }
    let user_namespace = match counting {
        Counting::Inside => UserNamespace::Refused,
        Counting::Outside => UserNamespace::Allowed,
    };
    let refused = |error: io::Error| format!("the kernel refuses an overlay: {error}");
    let private = PrivateDirectories::new(covered, room(), user_namespace).map_err(refused)?;
    private.probe().map_err(refused)?;
    Ok(private)
}

/// Returns an error with the reason if a copy of the working directory cannot be made, or would not
/// keep the runs apart.
fn copyable(invocation: &Invocation, directory: &Path, covered: &[PathBuf]) -> Result<(), String> {
    let name = directory.display().to_string();
    if covered != [directory] {
        return Err(format!("an argument names a path outside of {name}"));
    }
    let leads_out = |word: &OsString| {
        let word = word.to_string_lossy();
        word.contains("..") || word.contains(&name)
    };
    if invocation.argv.iter().skip(1).any(leads_out) {
        return Err(format!("an argument leads out of a copy of {name}"));
    }
    let mut room = Room { bytes: COPY_LIMIT.0, files: COPY_FILES };
    room.measure(directory).map_err(|error| format!("{name} is not copied: {error}"))
}

/// Bytes and files that a copy may still hold.
struct Room {
    bytes: u64,
    files: u64,
}

impl Room {
    fn measure(&mut self, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let size = if metadata.is_file() { metadata.len() } else { 0 };
            let left = self.bytes.checked_sub(size).zip(self.files.checked_sub(1));
            let Some((bytes, files)) = left else {
                let limit = format!("it holds more than {COPY_LIMIT} or {COPY_FILES} files");
                return Err(io::Error::other(limit));
            };
            (self.bytes, self.files) = (bytes, files);
            if metadata.is_dir() {
                self.measure(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// Makes a copy in `place`, the directory for temporary files. `directory` has no link in its path
/// and may hold that place.
fn copy_of(directory: &Path, place: &Path) -> io::Result<TempDir> {
    let copy = tempfile::Builder::new().prefix("memweir-profile-").tempdir_in(place)?;
    copy_tree(directory, copy.path(), &fs::canonicalize(copy.path())?)?;
    Ok(copy)
}

/// Copies files, directories and symbolic links with their modes and times, but not `own`.
fn copy_tree(from: &Path, to: &Path, own: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let metadata = entry.metadata()?;
        if source == own {
            continue;
        }
        if metadata.is_dir() {
            fs::create_dir(&target)?;
            copy_tree(&source, &target, own)?;
            fs::set_permissions(&target, metadata.permissions())?;
        } else if metadata.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
        } else if metadata.is_file() {
            fs::copy(&source, &target)?;
            File::open(&target)?.set_modified(metadata.modified()?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invocation(directory: &Path, arguments: &[&str]) -> Invocation {
        Invocation {
            program: "/bin/sh".into(),
            argv: ["sh"].iter().chain(arguments).map(Into::into).collect(),
            directory: directory.to_owned(),
            env: std::collections::BTreeMap::new(),
            stdin: None,
        }
    }

    #[test]
    fn the_directories_of_named_paths_are_covered_and_those_of_the_system_are_not() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [here, there] = [&here, &there].map(|dir| fs::canonicalize(dir.path()).unwrap());
        fs::create_dir(here.join("sub")).unwrap();
        let output = there.join("out").display().to_string();
        let arguments = ["sub/in", "/dev/null", "/usr/bin/env", "--to", &output];
        let mut expected = vec![here.clone(), there];
        expected.sort();
        assert_eq!(covered(&invocation(&here, &arguments), &here), expected);
        // The root is no directory to cover; what lies in it is.
        let top = invocation(&here, &["-C", "/tmp"]);
        assert!(covered(&top, &here).contains(&PathBuf::from("/tmp")));
        // A parent takes its subdirectories in.
        let sub = invocation(&here.join("sub"), &["../in"]);
        assert_eq!(covered(&sub, &here.join("sub")), [here]);
    }

    #[test]
    fn a_copy_is_made_of_what_stays_inside_and_is_small() {
        let directory = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(directory.path()).unwrap();
        let check = |arguments: &[&str]| {
            let invocation = invocation(&path, arguments);
            copyable(&invocation, &path, &covered(&invocation, &path))
        };
        assert_eq!(check(&["a", "-o", "sub/b"]), Ok(()));
        for out in ["../a", "-c cat ../a", path.join("a").to_str().unwrap()] {
            assert!(check(&[out]).is_err(), "{out}");
        }
        let large = File::create(path.join("large")).unwrap();
        large.set_len(COPY_LIMIT.0 + 1).unwrap();
        assert!(check(&["a"]).unwrap_err().contains("more than"));
    }

    #[test]
    fn a_copy_keeps_modes_times_and_links() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::create_dir(path.join("sub")).unwrap();
        fs::write(path.join("sub/file"), "text").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
        fs::set_permissions(path.join("sub/file"), mode).unwrap();
        symlink("sub/file", path.join("link")).unwrap();
        let copy = copy_of(path, &std::env::temp_dir()).unwrap();
        let of = |root: &Path| {
            let metadata = fs::metadata(root.join("link")).unwrap();
            (metadata.permissions(), metadata.modified().unwrap(), metadata.len())
        };
        assert_eq!(of(path), of(copy.path()));
        assert_eq!(fs::read_link(copy.path().join("link")).unwrap(), Path::new("sub/file"));
    }

    #[test]
    fn a_copy_does_not_hold_itself_where_a_link_leads_to_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(directory.path()).unwrap();
        fs::create_dir(path.join("tmp")).unwrap();
        symlink("tmp", path.join("link")).unwrap();
        let copy = copy_of(&path, &path.join("link")).unwrap();
        assert_eq!(fs::read_dir(copy.path().join("tmp")).unwrap().count(), 0);
    }
}
