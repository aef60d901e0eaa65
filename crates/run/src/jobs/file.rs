//! Jobs files: their keys, and the values that are refused. [`memweir_core::input`] reads a file
//! key by key and gives the place of every error.
//!
//! The manual's page `docs/jobs-file.md` describes the format for users.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use memweir_core::input::{Document, InputError, Section, Value};
use memweir_core::{BytesPerSec, Media, Priority};
use memweir_policy::CoreUse;

use super::arguments::{is_name_character, program_name};
use super::{Batch, Command, Job, Origin};
use crate::files;
use crate::options::{self, BatchOptions, Cores};

/// Keys of a whole file.
const BATCH_KEYS: [&str; 14] = [
    "policy",
    "objective",
    "predictor",
    "meter",
    "mechanism",
    "quantum_ms",
    "cores",
    "pinning",
    "on_exit",
    "on_failure",
    "seed",
    "media",
    "placement",
    "jobs",
];

/// Keys of one job.
const JOB_KEYS: [&str; 17] = [
    "name",
    "command",
    "directory",
    "env",
    "stdin",
    "cores",
    "instances",
    "expected_time_s",
    "read_bandwidth",
    "write_bandwidth",
    "bandwidth_limit",
    "profile",
    "placement",
    "colors",
    "demanded_banks",
    "priority",
    "cpus",
];

/// More instances of one job than any batch has.
const MOST_INSTANCES: u32 = 10_000;

/// More banks than any machine has.
const MOST_BANKS: u32 = 1 << 20;

/// Content of a jobs file.
#[derive(Clone, Debug, PartialEq)]
pub struct JobsFile {
    /// The jobs.
    pub batch: Batch,
    /// Choices for the whole batch.
    pub options: BatchOptions,
}

impl JobsFile {
    /// Reads and checks a jobs file for a machine on which `available` cores may be used. Relative
    /// paths in it start at its directory, and its jobs run there unless they say otherwise.
    pub fn read(path: &Path, available: u32) -> Result<Self, InputError> {
        let name = path.display().to_string();
        let text = files::text(path)?;
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        Self::parse(&name, &text, &directory, available)
    }

    /// Checks the text of a jobs file that lies in `directory`, as [`read`](Self::read) does.
    pub fn parse(
        name: &str,
        text: &str,
        directory: &Path,
        available: u32,
    ) -> Result<Self, InputError> {
        let document = Document { name, text };
        let mut root = document.parse()?;
        root.only(&BATCH_KEYS).map_err(InputError::of_another_command)?;
        let options = batch_options(&mut root, directory, available)?;
        let mut reader = JobReader { directory, available, names: HashSet::new() };
        let mut jobs: Vec<Job> = Vec::new();
        let list = root.take("jobs").ok_or_else(|| {
            InputError::new(name, "there are no jobs").key("jobs").help("add a `[[jobs]]` table")
        })?;
        for mut section in list.sections()? {
            jobs.extend(reader.job(&mut section)?);
        }
        if jobs.is_empty() {
            return Err(InputError::new(name, "there are no jobs").key("jobs"));
        }
        Ok(Self { batch: Batch { jobs }, options })
    }
}

fn batch_options(
    root: &mut Section<'_>,
    directory: &Path,
    available: u32,
) -> Result<BatchOptions, InputError> {
    let cores = root.map("cores", |v| batch_cores(&v, available))?;
    Ok(BatchOptions {
        policy: root.map("policy", |v| v.checked(options::policy(v.string()?)))?,
        objective: root.map("objective", |v| v.named())?,
        predictor: root.map("predictor", |v| v.checked(v.string()?.parse()))?,
        meter: root.map("meter", |v| v.checked(v.string()?.parse()))?,
        mechanism: root.map("mechanism", |v| v.named())?,
        quantum: root.map("quantum_ms", |v| v.checked(options::quantum(v.number()?)))?,
        cores: cores.and_then(|cores| cores.limit),
        core_use: cores.map(|cores| cores.core_use),
        pinning: root.map("pinning", |v| v.named())?,
        on_exit: root.map("on_exit", |v| v.named())?,
        on_failure: root.map("on_failure", |v| v.named())?,
        seed: root.map("seed", |v| v.seed())?,
        media: root.map("media", |v| media(&v, directory))?,
        placement: root.map("placement", |v| v.checked(v.string()?.parse()))?,
    })
}

fn job_cores(value: &Value<'_>, available: u32) -> Result<u32, InputError> {
    value.checked(options::cores(value.integer()?, available))
}

/// A number of cores, or `"auto"`, or `"auto:2"`.
fn batch_cores(value: &Value<'_>, available: u32) -> Result<Cores, InputError> {
    match value.text() {
        Some(text) if text.parse::<i64>().is_err() => {
            value.checked(options::cores_or_auto(text, available))
        }
        _ => {
            let limit = value.checked(options::cores(value.integer()?, available))?;
            Ok(Cores { limit: Some(limit), core_use: CoreUse::All })
        }
    }
}

/// Reads the jobs of one file.
struct JobReader<'a> {
    directory: &'a Path,
    /// Cores that may be used.
    available: u32,
    /// Names of the jobs so far.
    names: HashSet<String>,
}

impl JobReader<'_> {
    /// The instances of the job in `section`.
    fn job(&mut self, section: &mut Section<'_>) -> Result<Vec<Job>, InputError> {
        section.only(&JOB_KEYS)?;
        let place = |key| Some((key, section.refuse_value(key, "")?));
        let origin = Origin(
            ["stdin", "profile", "placement", "cpus"].into_iter().filter_map(place).collect(),
        );
        let directory = section
            .map("directory", |v| self.directory(&v))?
            .unwrap_or_else(|| self.directory.to_owned());
        let command_value = section.require("command")?;
        let command = command(&command_value)?;
        let Some(program) = command.argv().into_iter().next() else {
            return Err(command_value.refuse("is empty"));
        };
        if let Command::Exec(_) = command {
            command_value.checked(options::program(&program, &directory))?;
        }
        let job = Job {
            name: String::new(),
            env: section.map("env", |v| environment(&v))?.unwrap_or_default(),
            stdin: section.map("stdin", |v| self.file(&v))?,
            cores: section.map("cores", |v| job_cores(&v, self.available))?.unwrap_or(1),
            expected_time: section
                .map("expected_time_s", |v| v.checked(options::expected_time(v.number()?)))?,
            expected_reads: section.map("read_bandwidth", |v| bandwidth(&v))?,
            expected_writes: section.map("write_bandwidth", |v| bandwidth(&v))?,
            profile: section.map("profile", |v| self.file(&v))?,
            placement: section.map("placement", |v| v.checked(v.string()?.parse()))?,
            colors: section.map("colors", |v| v.checked(v.string()?.parse()))?,
            bandwidth_limit: section.map("bandwidth_limit", |v| limit(&v))?.flatten(),
            demanded_banks: section.map("demanded_banks", |v| v.whole_in(1..=MOST_BANKS))?,
            priority: section.map("priority", |v| priority(&v))?.unwrap_or_default(),
            cpus: section.map("cpus", |v| cpus(&v))?.unwrap_or_default(),
            directory: Some(directory),
            command,
            origin,
        };
        if job.expected_bandwidth().is_some() && job.expected_time.is_none() {
            return Err(section
                .refuse("gives a bandwidth but no time")
                .help("add `expected_time_s`, the time that the job takes alone"));
        }
        let instances = section.map("instances", |v| v.whole_in(1..=MOST_INSTANCES))?.unwrap_or(1);
        self.named(section, &job, &program, instances)
    }

    /// Makes `instances` copies of `job` under names that no earlier job has.
    fn named(
        &mut self,
        section: &mut Section<'_>,
        job: &Job,
        program: &OsStr,
        instances: u32,
    ) -> Result<Vec<Job>, InputError> {
        let given = section.map("name", |v| name(&v))?;
        let base = given.unwrap_or_else(|| self.free_name(program, instances));
        let mut jobs = Vec::new();
        for number in 1..=instances {
            let name = instance_name(&base, number, instances);
            if !self.names.insert(name.clone()) {
                return Err(section
                    .refuse(format!("a job before has the name `{name}` already"))
                    .help("give each job a `name` of its own"));
            }
            jobs.push(Job { name, ..job.clone() });
        }
        Ok(jobs)
    }

    /// Returns a name from the program that none of the instances shares with an earlier job.
    fn free_name(&self, program: &OsStr, instances: u32) -> String {
        let program = program_name(program);
        let free = |base: &String| {
            (1..=instances).all(|n| !self.names.contains(&instance_name(base, n, instances)))
        };
        (1..)
            .map(|n| if n == 1 { program.clone() } else { format!("{program}-{n}") })
            .find(free)
            .unwrap_or_default()
    }

    /// A directory below the file's.
    fn directory(&self, value: &Value<'_>) -> Result<PathBuf, InputError> {
        let path = self.directory.join(value.string()?);
        match path.is_dir() {
            true => Ok(path),
            false => Err(value.refuse(format!("there is no directory `{}`", path.display()))),
        }
    }

    /// A file, device or pipe below the file's directory.
    fn file(&self, value: &Value<'_>) -> Result<PathBuf, InputError> {
        let path = self.directory.join(value.string()?);
        if path.is_dir() {
            return Err(value.refuse(format!("`{}` is a directory", path.display())));
        }
        match path.exists() {
            true => Ok(path),
            false => Err(value.refuse(format!("there is no file `{}`", path.display()))),
        }
    }
}

fn instance_name(base: &str, number: u32, instances: u32) -> String {
    if instances == 1 { base.to_owned() } else { format!("{base}.{number}") }
}

fn command(value: &Value<'_>) -> Result<Command, InputError> {
    let words = match value.text() {
        Some(line) => vec![line.to_owned()],
        None => value
            .array("a string for the shell or an array of strings")?
            .iter()
            .map(|word| word.string().map(str::to_owned))
            .collect::<Result<_, _>>()?,
    };
    if words.first().is_none_or(|program| program.trim().is_empty()) {
        return Err(value.refuse("is empty"));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err(value.refuse("contains a zero byte"));
    }
    Ok(match value.text() {
        Some(line) => Command::Shell(line.into()),
        None => Command::Exec(words.into_iter().map(OsString::from).collect()),
    })
}

fn environment(
    value: &Value<'_>,
) -> Result<std::collections::BTreeMap<OsString, OsString>, InputError> {
    let mut env = std::collections::BTreeMap::new();
    for (name, value) in value.entries()? {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(value.refuse("is no name for an environment variable"));
        }
        let text = value.string()?;
        if text.contains('\0') {
            return Err(value.refuse("contains a zero byte"));
        }
        env.insert(OsString::from(name), OsString::from(text));
    }
    Ok(env)
}

fn name(value: &Value<'_>) -> Result<String, InputError> {
    let name = value.string()?;
    let wrong = name.chars().find(|c| !is_name_character(*c));
    if let Some(wrong) = wrong {
        return Err(value
            .refuse(format!("`{wrong}` cannot stand in a name"))
            .help("a name has letters, digits, `.`, `-`, `_` and `+`"));
    }
    if name.is_empty() || name.starts_with('.') || name.len() > 100 {
        return Err(value
            .refuse(format!("`{name}` is no name for a job"))
            .help("from 1 to 100 bytes in UTF-8, the first one no dot"));
    }
    Ok(name.to_owned())
}

/// Reads media by name or file. An error inside a media file is reported as that file's.
fn media(value: &Value<'_>, directory: &Path) -> Result<Media, InputError> {
    options::media(value.string()?, directory).map_err(|error| {
        if error.line.is_some() {
            return error;
        }
        let refusal = value.refuse(error.reason);
        match error.help {
            Some(help) => refusal.help(help),
            None => refusal,
        }
    })
}

fn bandwidth(value: &Value<'_>) -> Result<BytesPerSec, InputError> {
    value.checked(options::bandwidth(value.number()?))
}

/// A limit of bandwidth; 0 is none.
fn limit(value: &Value<'_>) -> Result<Option<BytesPerSec>, InputError> {
    value.checked(options::bandwidth_limit(bandwidth(value)?))
}

fn cpus(value: &Value<'_>) -> Result<Vec<usize>, InputError> {
    let mut cpus = Vec::new();
    for element in value.array("an array of CPU numbers")? {
        // CPU_SETSIZE of glibc.
        cpus.push(element.whole_in(0..=1023)?);
    }
    Ok(cpus)
}

fn priority(value: &Value<'_>) -> Result<Priority, InputError> {
    value.checked(Priority::checked(value.integer()?))
}
