//! Jobs from the command line and from files of one command per line, and their names.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use memweir_core::BytesPerSec;
use memweir_core::input::InputError;
use memweir_core::names::choose;

use super::{Batch, Command, Job};

/// Separator between two commands on the command line.
pub const SEPARATOR: &str = ":::";

impl Batch {
    /// The jobs of `CMD [ARGS] ::: CMD [ARGS] ...`, named after their programs.
    pub fn from_arguments(arguments: &[OsString]) -> Result<Self, InputError> {
        let refuse = |reason: String| {
            InputError::new("command line", reason)
                .help(format!("write `CMD [ARGS] {SEPARATOR} CMD [ARGS] ...` after `--`"))
        };
        let mut jobs = Vec::new();
        for (index, argv) in arguments.split(|a| a == SEPARATOR).enumerate() {
            if argv.first().is_none_or(|program| program.is_empty()) {
                return Err(refuse(format!("command {} is empty", index + 1)));
            }
            jobs.push(Job::new(program_name(&argv[0]), Command::Exec(argv.to_vec())));
        }
        Ok(Self { jobs }.with_unique_names())
    }

    /// The jobs of a text with one command per line, each run by `sh -c`. Blank lines and lines
    /// that start with `#` are skipped.
    pub fn from_lines(source_name: &str, text: &str) -> Result<Self, InputError> {
        let mut jobs = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.contains('\0') {
                return Err(InputError::new(source_name, "a command cannot contain a zero byte")
                    .line(index + 1));
            }
            let word = line.split_whitespace().next().unwrap_or(line);
            jobs.push(Job::new(program_name(OsStr::new(word)), Command::Shell(line.into())));
        }
        if jobs.is_empty() {
            return Err(InputError::new(source_name, "there is no command in this file")
                .help("write one command per line"));
        }
        Ok(Self { jobs }.with_unique_names())
    }

    /// Every job `instances` times (at least once), the instances of one job beside each other.
    #[must_use]
    pub fn repeated(self, instances: u32) -> Self {
        let jobs = self
            .jobs
            .into_iter()
            .flat_map(|job| std::iter::repeat_n(job, instances.max(1) as usize))
            .collect();
        Self { jobs }.with_unique_names()
    }

    /// Limits the bandwidth of the job `name`, or of all its instances: `name` with a number
    /// behind it.
    ///
    /// # Errors
    /// If there is no such job; the refusal suggests the nearest name.
    pub fn limit(&mut self, name: &str, rate: Option<BytesPerSec>) -> Result<(), InputError> {
        let names: Vec<String> = self.jobs.iter().map(|job| job.name.clone()).collect();
        let mut found = false;
        for job in self.jobs.iter_mut().filter(|job| is_instance(&job.name, name)) {
            job.bandwidth_limit = rate;
            found = true;
        }
        if found {
            return Ok(());
        }
        choose("job", name, names.iter().map(|known| (known.as_str(), ())))
            .map_err(|refusal| refusal.written_in("command line").key("limit"))
    }

    /// The same jobs; names that occur several times get a number behind them.
    #[must_use]
    pub(super) fn with_unique_names(mut self) -> Self {
        let mut total: HashMap<String, usize> = HashMap::new();
        for job in &self.jobs {
            *total.entry(job.name.clone()).or_default() += 1;
        }
        let mut taken: HashMap<String, usize> = HashMap::new();
        for job in &mut self.jobs {
            if total[&job.name] == 1 {
                continue;
            }
            let number = taken.entry(job.name.clone()).or_default();
            // Numbers that are a part of another job's own name are skipped.
            let unique = loop {
                *number += 1;
                let name = format!("{}.{number}", job.name);
                if !total.contains_key(&name) {
                    break name;
                }
            };
            job.name = unique;
        }
        self
    }
}

/// Returns true if `name` is `job`, or `job` with a number behind it.
fn is_instance(name: &str, job: &str) -> bool {
    let number = name.strip_prefix(job).and_then(|rest| rest.strip_prefix('.'));
    name == job || number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// A name for a job that runs `program`: its last component, reduced to what suits a file name.
pub(super) fn program_name(program: &OsStr) -> String {
    let file = Path::new(program).file_name().unwrap_or(program);
    let name: String = file
        .to_string_lossy()
        .chars()
        .map(|c| if is_name_character(c) { c } else { '_' })
        .collect();
    if name.starts_with('.') || name.is_empty() { format!("_{name}") } else { name }
}

/// Returns true if `c` may stand in a job's name, which is also the name of its log files.
pub(super) fn is_name_character(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '+')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arguments(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    fn names(batch: &Batch) -> Vec<&str> {
        batch.jobs.iter().map(|job| job.name.as_str()).collect()
    }

    #[test]
    fn commands_are_split_at_the_separator() {
        let batch = Batch::from_arguments(&arguments("gzip -9 a ::: /usr/bin/sort b ::: gzip c"))
            .expect("three commands");
        assert_eq!(names(&batch), ["gzip.1", "sort", "gzip.2"]);
        assert_eq!(batch.jobs[1].command, Command::Exec(arguments("/usr/bin/sort b")));
    }

    #[test]
    fn an_empty_command_is_refused_with_its_place() {
        let error = Batch::from_arguments(&arguments("gzip a ::: ::: sort")).unwrap_err();
        assert!(error.to_string().starts_with("command line: command 2 is empty"), "{error}");
        assert!(Batch::from_arguments(&[]).is_err());
    }

    #[test]
    fn lines_become_shell_commands() {
        let batch = Batch::from_lines("list", "# two\n\n  gzip -k a > /dev/null\nsort b\n")
            .expect("two commands");
        assert_eq!(names(&batch), ["gzip", "sort"]);
        assert_eq!(
            batch.jobs[0].command.argv(),
            ["/bin/sh", "-c", "gzip -k a > /dev/null"].map(OsString::from)
        );
        assert!(Batch::from_lines("list", "\n# nothing\n").is_err());
        assert_eq!(Batch::from_lines("list", "a\n\0").unwrap_err().line, Some(2));
    }

    #[test]
    fn a_limit_holds_for_a_job_or_for_all_its_instances() {
        let mut batch = Batch::from_arguments(&arguments("gzip a ::: sort b ::: gzip c")).unwrap();
        let rate = |mega: f64| Some(BytesPerSec(mega * 1e6));
        let limits = |batch: &Batch| -> Vec<Option<BytesPerSec>> {
            batch.jobs.iter().map(|job| job.bandwidth_limit).collect()
        };
        batch.limit("gzip", rate(500.0)).unwrap();
        assert_eq!(limits(&batch), [rate(500.0), None, rate(500.0)]);
        batch.limit("gzip.2", None).unwrap();
        batch.limit("sort", rate(1.0)).unwrap();
        assert_eq!(limits(&batch), [rate(500.0), rate(1.0), None]);
        for wrong in ["gzi", "sort.1", "gzip.", ""] {
            let error = batch.limit(wrong, None).unwrap_err();
            assert!(error.help.unwrap().contains("gzip.1, sort, gzip.2"), "{wrong}");
        }
    }

    #[test]
    fn each_job_is_repeated_and_numbered_around_names_that_exist() {
        let batch = Batch::from_arguments(&arguments("a ::: a.1")).expect("two").repeated(2);
        assert_eq!(names(&batch), ["a.2", "a.3", "a.1.1", "a.1.2"]);
    }

    proptest! {
        #[test]
        fn any_arguments_give_unique_names_fit_for_files(
            words in prop::collection::vec("[a-z./: ]{0,4}|:::|\\PC{0,3}", 1..20),
            each in 0u32..4,
        ) {
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            if let Ok(batch) = Batch::from_arguments(&words) {
                let batch = batch.repeated(each);
                let mut names = names(&batch);
                prop_assert!(names.iter().all(|name| !name.starts_with('.')));
                prop_assert!(names.iter().all(|name| name.chars().all(is_name_character)));
                names.sort_unstable();
                names.dedup();
                prop_assert_eq!(names.len(), batch.jobs.len());
            }
        }
    }
}
