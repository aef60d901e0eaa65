//! Kernel settings that several memweirs change at the same time, and that the last one puts back.
//!
//! A ledger in the [run-time directory](RuntimeDirectory) names the setting, its value before the
//! first claim, and the processes that have a claim, each with its start time. The guardian gives
//! up the claim of a memweir that was killed; a claim whose guardian was killed too is dropped by
//! the next memweir that looks.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use memweir_core::Bytes;
use nix::fcntl::{Flock, FlockArg};

use crate::guardian::{self, Guard, Guardian, Message};
use crate::owner::{Owner, OwnerState, Proc};
use crate::private::{self, RuntimeDirectory};
use crate::tell;

/// Far more than the claims of all processes that a machine can run.
const LARGEST_LEDGER: Bytes = Bytes(1 << 20);

/// A claim of this process on the value of a setting. Dropping it gives the claim up; the last
/// claim puts the setting back.
#[derive(Debug)]
pub struct SharedSetting {
    ledger: PathBuf,
    owner: Owner,
    guardian: Guardian,
}

impl SharedSetting {
    /// Gives `setting` the value `value` for as long as the claim lives. `guardian` starts the
    /// process that gives the claim up if this one is killed. A process has one claim on a setting.
    ///
    /// # Errors
    /// The setting cannot be read or written, the run-time directory is not usable, or no guardian
    /// can be started. The setting keeps its value then.
    pub fn claim(setting: &Path, value: &str, guardian: &guardian::Command) -> io::Result<Self> {
        let directory = RuntimeDirectory::open()?;
        let name = setting.to_string_lossy().trim_start_matches('/').replace('/', "-");
        let ledger = directory.path().join(name);
        let owner = Owner::current()?;
        let mut guardian = guardian::start(guardian, Vec::new()).map_err(io::Error::other)?;
        // The guardian knows of the claim before anything changes.
        guardian.watch(Message::Setting(owner, ledger.clone()))?;
        let claim = Self { ledger, owner, guardian };
        add(&claim.ledger, setting, value, owner)?;
        Ok(claim)
    }
}

impl Drop for SharedSetting {
    fn drop(&mut self) {
        match release(&self.ledger, &self.owner) {
            Ok(()) => self.guardian.goodbye(),
            // Without a goodbye the guardian tries again.
            Err(error) => tell!("{}: {error}", self.ledger.display()),
        }
    }
}

/// Claims, and the value to put back.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ledger {
    setting: PathBuf,
    before: String,
    claims: Vec<Owner>,
}

impl Ledger {
    /// Reads the ledger without the claims of processes that have ended; `None` if there is no
    /// ledger.
    fn read(path: &Path) -> io::Result<Option<Self>> {
        let content = match private::read(path, LARGEST_LEDGER) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            content => content?,
        };
        let text = String::from_utf8_lossy(&content);
        let mut lines = text.lines();
        let (Some(setting), Some(before)) = (lines.next(), lines.next()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the ledger is damaged"));
        };
        let lives = |owner: &Owner| owner.state(Proc::kernel()) != OwnerState::Dead;
        let claims = lines.filter_map(Owner::parse).filter(lives).collect();
        Ok(Some(Self { setting: setting.into(), before: before.to_owned(), claims }))
    }

    /// Replaces the file at `path` as a whole: a process that is killed leaves the old one.
    fn write(&self, path: &Path) -> io::Result<()> {
        let claims: String = self.claims.iter().map(|owner| format!("{owner}\n")).collect();
        let text = format!("{}\n{}\n{claims}", self.setting.display(), self.before);
        let new = path.with_extension("new");
        private::create(&new)?.write_all(text.as_bytes())?;
        fs::rename(new, path)
    }
}

/// Keeps other memweirs from the ledger until the lock is dropped.
fn lock(ledger: &Path) -> io::Result<Flock<File>> {
    let directory = File::open(ledger.parent().unwrap_or(Path::new("/")))?;
    Flock::lock(directory, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
}

/// Enters a claim and sets the value, whether other claims live or not.
fn add(path: &Path, setting: &Path, value: &str, owner: Owner) -> io::Result<()> {
    let _lock = lock(path)?;
    let mut ledger = match Ledger::read(path)? {
        // Without a living claim, `before` still is the value to put back.
        Some(ledger) => ledger,
        None => {
            let before = fs::read_to_string(setting)?.trim().to_owned();
            Ledger { setting: setting.to_owned(), before, claims: Vec::new() }
        }
    };
    ledger.claims.push(owner);
    ledger.write(path)?;
    fs::write(setting, value).inspect_err(|_| {
        let _ = remove(path, ledger, &owner);
    })
}

/// Gives up the claim of `owner`. The setting is put back with the last claim.
pub(crate) fn release(path: &Path, owner: &Owner) -> io::Result<()> {
    let _lock = lock(path)?;
    Ledger::read(path)?.map_or(Ok(()), |ledger| remove(path, ledger, owner))
}

fn remove(path: &Path, mut ledger: Ledger, owner: &Owner) -> io::Result<()> {
    ledger.claims.retain(|claim| claim != owner);
    if !ledger.claims.is_empty() {
        return ledger.write(path);
    }
    fs::write(&ledger.setting, &ledger.before)?;
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A setting of 1 and the path of its ledger.
    fn setting() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let setting = folder.path().join("setting");
        fs::write(&setting, "1\n").unwrap();
        let ledger = folder.path().join("ledger");
        (folder, setting, ledger)
    }

    /// An owner that lives as long as the returned process.
    fn other() -> (std::process::Child, Owner) {
        let child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let owner = Owner::of_process(Proc::kernel(), child.id() as i32).unwrap();
        (child, owner)
    }

    fn value(setting: &Path) -> String {
        fs::read_to_string(setting).unwrap().trim().to_owned()
    }

    #[test]
    fn the_last_claim_puts_the_setting_back() {
        let (_folder, setting, ledger) = setting();
        let this = Owner::current().unwrap();
        let (mut child, that) = other();
        add(&ledger, &setting, "0", this).unwrap();
        add(&ledger, &setting, "0", that).unwrap();
        release(&ledger, &this).unwrap();
        assert_eq!(value(&setting), "0", "another claim lives");
        release(&ledger, &that).unwrap();
        assert_eq!(value(&setting), "1");
        assert!(!ledger.exists());
        release(&ledger, &that).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn claims_of_ended_processes_do_not_count_though_their_numbers_are_used_again() {
        let (_folder, setting, ledger) = setting();
        let this = Owner::current().unwrap();
        let mut fields: Vec<String> = this.to_string().split('-').map(str::to_owned).collect();
        fields[2] = "1".to_owned();
        let earlier = Owner::parse(&fields.join("-")).expect("an owner");
        add(&ledger, &setting, "0", earlier).unwrap();
        add(&ledger, &setting, "0", this).unwrap();
        release(&ledger, &this).unwrap();
        assert_eq!(value(&setting), "1", "the value before the killed one");
    }

    #[test]
    fn a_zombie_has_no_claim() {
        let (_folder, setting, ledger) = setting();
        let (mut child, that) = other();
        add(&ledger, &setting, "0", that).unwrap();
        child.kill().unwrap();
        while that.state(Proc::kernel()) != OwnerState::Dead {
            std::thread::yield_now();
        }
        let this = Owner::current().unwrap();
        add(&ledger, &setting, "0", this).unwrap();
        release(&ledger, &this).unwrap();
        assert_eq!(value(&setting), "1");
        child.wait().unwrap();
    }

    #[test]
    fn a_setting_that_cannot_be_changed_leaves_no_claim() {
        let (folder, _, ledger) = setting();
        let setting = folder.path().join("missing");
        assert!(add(&ledger, &setting, "0", Owner::current().unwrap()).is_err());
        assert!(!ledger.exists());
    }

    #[test]
    fn a_damaged_ledger_is_refused() {
        let (_folder, setting, ledger) = setting();
        fs::write(&ledger, "half").unwrap();
        assert!(add(&ledger, &setting, "0", Owner::current().unwrap()).is_err());
        assert_eq!(value(&setting), "1");
    }
}
