//! The emulator under the software PMU: finding it and the plugin, and checking programs for it.

pub mod program;
mod trial;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use memweir_abi::softpmu::program::{EmulatorCommand, GateOption};

use crate::MissingFeature;
use crate::companion::Companion;
use crate::launch::{Launch, resolve_program};
use crate::probe::Probe;

pub use program::Program;

/// Name of the emulator.
const EMULATOR: &str = "qemu-x86_64";

/// The plugin.
const PLUGIN: Companion = Companion {
    what: "plugin",
    file: "libmemweir_qemu_pmu.so",
    package: "memweir-qemu-pmu",
    variable: "MEMWEIR_PLUGIN",
};

/// The first version with AVX2, without which programs for x86-64-v3 do not run.
const OLDEST: (u32, u32) = (7, 2);

/// Explicit places of the emulator and the plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QemuPaths {
    /// `qemu-x86_64`; searched in `PATH` if absent.
    pub emulator: Option<PathBuf>,
    /// `libmemweir_qemu_pmu.so`; from `MEMWEIR_PLUGIN`, beside the executable or in
    /// `../lib/memweir` if absent.
    pub plugin: Option<PathBuf>,
}

/// Why a program cannot run under the software PMU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QemuError {
    /// The emulator or the plugin is missing or unfit.
    #[error(transparent)]
    Missing(#[from] MissingFeature),
    /// The program cannot be emulated.
    #[error("{program}: cannot run under the software meter: {reason}")]
    Refused {
        /// The program.
        program: String,
        /// Why.
        reason: String,
    },
}

fn missing(reason: impl Into<String>, help: impl Into<String>) -> QemuError {
    MissingFeature::new(reason, help).into()
}

/// A usable emulator with the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    emulator: PathBuf,
    version: (u32, u32),
    plugin: PathBuf,
}

impl Qemu {
    /// Finds both and tries whether the plugin loads.
    pub fn find(paths: &QemuPaths) -> Result<Self, QemuError> {
        let emulator = find_emulator(paths)?;
        let version = version_of(&emulator)?;
        if version < OLDEST {
            return Err(missing(
                format!("{} is version {}.{}", emulator.display(), version.0, version.1),
                format!("{}.{} or later is needed", OLDEST.0, OLDEST.1),
            ));
        }
        let qemu = Self { emulator, version, plugin: PLUGIN.find(paths.plugin.as_deref())? };
        qemu.try_plugin()?;
        Ok(qemu)
    }

    /// Reports whether the software meter works here, for `doctor`.
    #[must_use]
    pub fn probe(paths: &QemuPaths) -> Probe {
        match Self::find(paths) {
            Ok(qemu) => Probe::available(format!(
                "{} {}.{} with {}; slows programs several times",
                qemu.emulator.display(),
                qemu.version.0,
                qemu.version.1,
                qemu.plugin.display()
            )),
            Err(QemuError::Missing(missing)) => Probe::missing(missing.reason).help(missing.help),
            Err(error) => Probe::missing(error.to_string()),
        }
    }

    /// Loads the plugin once. Without shared files it counts nothing and lets the program run.
    fn try_plugin(&self) -> Result<(), QemuError> {
        let program = trial::program()
            .map_err(|e| missing(format!("no file in memory: {e}"), "see vm.memfd_noexec"))?;
        let line = self.command(Path::new("/nonexistent"), Path::new("/nonexistent")).line(
            b"/proc/self/fd/0",
            &[b"trial".to_vec()],
            Vec::new(),
        );
        let output = Command::new(&self.emulator)
            .args(line.argv[1..].iter().map(|word| OsStr::from_bytes(word)))
            .stdin(program)
            .output()
            .map_err(|e| missing(format!("{}: {e}", self.emulator.display()), "check the file"))?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(missing(
            format!(
                "{} does not load {}: {message}",
                self.emulator.display(),
                self.plugin.display()
            ),
            "a dynamically linked qemu-x86_64 that was built with plugins is needed \
             (Debian: apt install qemu-user)",
        ))
    }

    fn command(&self, page: &Path, llc: &Path) -> EmulatorCommand {
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        EmulatorCommand {
            emulator: bytes(&self.emulator),
            plugin: bytes(&self.plugin),
            page: bytes(page),
            llc: bytes(llc),
            gate: None,
        }
    }

    /// Puts the emulator in front of a command, counting into the given files and, with a gate,
    /// in virtual time.
    pub fn emulate(
        &self,
        launch: &mut Launch,
        page: &Path,
        llc: &Path,
        gate: Option<GateOption>,
    ) -> Result<(), QemuError> {
        let argv: Vec<Vec<u8>> = launch.argv.iter().map(|a| a.as_bytes().to_vec()).collect();
        let program = Program::inspect(&launch.program, &argv)?;
        let env = launch
            .env
            .iter()
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
            .collect();
        let command = EmulatorCommand { gate, ..self.command(page, llc) };
        let line = command.line(&program.path, &program.argv, env);
        launch.program = self.emulator.clone();
        launch.argv = line.argv.into_iter().map(OsString::from_vec).collect();
        launch.env = line.env.into_iter().filter_map(split_variable).collect();
        Ok(())
    }
}

fn split_variable(variable: Vec<u8>) -> Option<(OsString, OsString)> {
    let end = variable.iter().skip(1).position(|byte| *byte == b'=')? + 1;
    let value = OsString::from_vec(variable[end + 1..].to_vec());
    Some((OsString::from_vec(variable[..end].to_vec()), value))
}

fn find_emulator(paths: &QemuPaths) -> Result<PathBuf, QemuError> {
    const INSTALL: &str = "install it (Debian: apt install qemu-user)";
    if let Some(path) = &paths.emulator {
        return path
            .canonicalize()
            .map_err(|e| missing(format!("{}: {e}", path.display()), INSTALL));
    }
    if let Some(path) = in_path(EMULATOR) {
        return Ok(path);
    }
    Err(match in_path("qemu-x86_64-static") {
        Some(path) => missing(
            format!("{} is linked statically and cannot load plugins", path.display()),
            INSTALL,
        ),
        None => missing(format!("{EMULATOR} was not found in PATH"), INSTALL),
    })
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    resolve_program(name.as_ref(), &path).ok()?.canonicalize().ok()
}

fn version_of(emulator: &Path) -> Result<(u32, u32), QemuError> {
    let output = Command::new(emulator).arg("--version").stdin(Stdio::null()).output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    parse_version(&text).ok_or_else(|| {
        missing(format!("{} does not say its version", emulator.display()), "check the file")
    })
}

/// Parses `qemu-x86_64 version 7.2.22 (Debian ...)`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let (name, rest) = text.split_once(" version ")?;
    if !name.starts_with("qemu") {
        return None;
    }
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn versions_are_read_from_the_first_line() {
        let debian = "qemu-x86_64 version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright";
        assert_eq!(parse_version(debian), Some((7, 2)));
        assert_eq!(parse_version("qemu-x86_64 version 10.0.2"), Some((10, 0)));
        assert_eq!(parse_version("bash version 5.2"), None);
        assert_eq!(parse_version("qemu-x86_64 version x.2"), None);
    }

    #[test]
    fn variables_are_split_at_the_first_equals_sign_that_ends_a_name() {
        let pair = |a: &str, b: &str| Some((a.into(), b.into()));
        assert_eq!(split_variable(b"A=b=c".to_vec()), pair("A", "b=c"));
        assert_eq!(split_variable(b"=C:=x".to_vec()), pair("=C:", "x"));
        assert_eq!(split_variable(b"A".to_vec()), None);
    }

    #[test]
    fn a_wrong_place_is_named() {
        let nowhere = Some(PathBuf::from("/nonexistent/file"));
        let paths = QemuPaths { emulator: nowhere.clone(), plugin: None };
        let probe = Qemu::probe(&paths);
        assert!(!probe.available && probe.reason.contains("/nonexistent/file"), "{probe:?}");
        assert!(probe.help.unwrap().contains("qemu-user"));
    }

    #[test]
    fn an_emulator_that_is_none_is_refused() {
        let paths = QemuPaths { emulator: Some("/bin/true".into()), plugin: None };
        assert!(Qemu::probe(&paths).reason.contains("does not say its version"));
    }

    proptest! {
        #[test]
        fn any_version_text_is_read_or_refused(text in ".{0,80}") {
            let _ = parse_version(&text);
            let _ = parse_version(&format!("qemu version {text}"));
        }
    }
}
