//! Choosing the groups to watch.

use std::path::{Component, Path};

use glob::{MatchOptions, Pattern};
use memweir_linux::cgroup_tree::Group;

use crate::subject::{self, Kind, Subject};

/// A pattern that is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is no pattern: {reason}")]
pub struct WrongPattern {
    /// The pattern as given.
    pub pattern: String,
    /// The reason.
    pub reason: &'static str,
}

/// The groups to watch: those that any of its parts names, or by default every unit, container and
/// Slurm step once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    cgroups: Vec<Pattern>,
    units: Vec<Pattern>,
    slurm: bool,
}

impl Selection {
    /// Adds the group at `path` in the tree mounted at `top`. The path may begin with `top` or at
    /// the top of the tree, and may contain `*`, `?` and `[...]`, none of which match a slash.
    ///
    /// # Errors
    /// If the pattern is malformed, leads upwards, or names the top, which holds all processes.
    pub fn cgroup(mut self, path: &str, top: &Path) -> Result<Self, WrongPattern> {
        let below = Path::new(path).strip_prefix(top).unwrap_or(Path::new(path));
        let wrong = |reason| WrongPattern { pattern: path.to_owned(), reason };
        if below.components().any(|component| component == Component::ParentDir) {
            return Err(wrong("`..` leads out of the group before it"));
        }
        let names = below.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_string_lossy()),
            _ => None,
        });
        let below = names.collect::<Vec<_>>().join("/");
        if below.is_empty() {
            return Err(wrong("it names no group below the top of the tree"));
        }
        self.cgroups.push(pattern(&below)?);
        Ok(self)
    }

    /// Adds the units whose names match `glob`. A name without an ending is that of a service.
    ///
    /// # Errors
    /// If the pattern is malformed, or cannot be the name of a unit.
    pub fn unit(mut self, glob: &str) -> Result<Self, WrongPattern> {
        if glob.is_empty() || glob.contains('/') {
            let reason = "no unit has such a name";
            return Err(WrongPattern { pattern: glob.to_owned(), reason });
        }
        // A dot alone is no ending: `org.cups.cupsd`.
        let is_whole = glob.contains(['*', '?', '[']) || subject::is_unit(glob);
        let name = if is_whole { glob.to_owned() } else { format!("{glob}.service") };
        self.units.push(pattern(&name)?);
        Ok(self)
    }

    /// Adds every step of a Slurm job.
    #[must_use]
    pub fn slurm(mut self) -> Self {
        self.slurm = true;
        self
    }

    /// Returns the subjects among `groups`, which are sorted by path.
    #[must_use]
    pub fn choose<'a>(&self, groups: &'a [Group]) -> Vec<(&'a Group, Subject)> {
        let subjects: Vec<_> =
            groups.iter().map(|group| (group, Subject::of(&group.path))).collect();
        if *self == Self::default() {
            return innermost(subjects);
        }
        subjects.into_iter().filter(|(group, subject)| self.names(group, subject)).collect()
    }

    fn names(&self, group: &Group, subject: &Subject) -> bool {
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        let is_unit = |pattern: &Pattern| {
            let name = group.path.file_name().unwrap_or_default().to_string_lossy();
            pattern.matches(&name)
        };
        self.slurm && subject.kind == Kind::Slurm
            || self.cgroups.iter().any(|pattern| pattern.matches_path_with(&group.path, options))
            || subject.kind == Kind::Unit && self.units.iter().any(is_unit)
    }
}

fn pattern(text: &str) -> Result<Pattern, WrongPattern> {
    Pattern::new(text).map_err(|error| WrongPattern { pattern: text.to_owned(), reason: error.msg })
}

/// Keeps units, containers and steps without another of them inside, and the groups at the top that
/// hold none of these: the processes of each count once.
fn innermost(subjects: Vec<(&Group, Subject)>) -> Vec<(&Group, Subject)> {
    let is_known = |subject: &Subject| subject.kind != Kind::Cgroup && !subject.is_slice();
    let is_top = |group: &Group, subject: &Subject| {
        group.path.components().count() == 1 && !subject.is_slice()
    };
    let known: Vec<&Path> = subjects
        .iter()
        .filter(|(_, subject)| is_known(subject))
        .map(|(group, _)| group.path.as_path())
        .collect();
    // Paths are in order, so those inside a group follow it at once.
    let holds_another = |group: &Group| {
        let next = known.partition_point(|path| *path <= group.path.as_path());
        known.get(next).is_some_and(|path| path.starts_with(&group.path))
    };
    let kept: Vec<bool> = subjects
        .iter()
        .map(|(group, subject)| {
            (is_known(subject) || is_top(group, subject)) && !holds_another(group)
        })
        .collect();
    let kept = subjects.into_iter().zip(kept).filter(|(_, kept)| *kept);
    kept.map(|(subject, _)| subject).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATHS: [&str; 12] = [
        "a",
        "init.scope",
        "system.slice",
        "system.slice/nginx.service",
        "system.slice/slurmstepd.scope",
        "system.slice/slurmstepd.scope/job_1",
        "system.slice/slurmstepd.scope/job_1/step_0",
        "system.slice/slurmstepd.scope/job_1/step_0/user",
        "user.slice/user@0.service",
        "user.slice/user@0.service/app.slice",
        "user.slice/user@0.service/app.slice/a.service",
        "user.slice/user@0.service/app.slice/a.service/worker",
    ];

    fn groups(paths: &[&str]) -> Vec<Group> {
        let mut groups: Vec<Group> = paths
            .iter()
            .enumerate()
            .map(|(id, path)| Group { path: path.into(), id: id as u64 })
            .collect();
        groups.sort();
        groups
    }

    fn chosen(selection: &Selection) -> Vec<String> {
        let groups = groups(&PATHS);
        selection.choose(&groups).into_iter().map(|(_, subject)| subject.jobid).collect()
    }

    #[test]
    fn by_default_each_process_counts_once() {
        assert_eq!(
            chosen(&Selection::default()),
            [
                "/a",
                "/init.scope",
                "/system.slice/nginx.service",
                "/system.slice/slurmstepd.scope/job_1/step_0",
                "/user.slice/user@0.service/app.slice/a.service",
            ]
        );
    }

    #[test]
    fn parts_of_a_selection_add_up() {
        let top = Path::new("/sys/fs/cgroup");
        let selection = Selection::default().slurm().unit("nginx").unwrap();
        let expected =
            ["/system.slice/nginx.service", "/system.slice/slurmstepd.scope/job_1/step_0"];
        assert_eq!(chosen(&selection), expected);
        for path in ["/sys/fs/cgroup/a", "/a", "a/", "/sys/fs/cgroup//./a"] {
            assert_eq!(chosen(&Selection::default().cgroup(path, top).unwrap()), ["/a"], "{path}");
        }
        let below = Selection::default().cgroup("/system.slice/*", top).unwrap();
        let expected = ["/system.slice/nginx.service", "/system.slice/slurmstepd.scope"];
        assert_eq!(chosen(&below), expected);
    }

    #[test]
    fn a_glob_of_units_reaches_slices_and_nested_units() {
        let selection = Selection::default().unit("*.slice").unwrap();
        assert_eq!(chosen(&selection), ["/system.slice", "/user.slice/user@0.service/app.slice"]);
        assert!(Selection::default().unit("a[").is_err());
    }

    #[test]
    fn a_service_may_have_dots_in_its_name() {
        let groups = groups(&["system.slice/org.cups.cupsd.service", "system.slice/org.slice"]);
        for (name, number) in
            [("org.cups.cupsd", 0), ("org.cups.cupsd.service", 0), ("org.slice", 1)]
        {
            let selection = Selection::default().unit(name).unwrap();
            let chosen: Vec<&Group> =
                selection.choose(&groups).into_iter().map(|(group, _)| group).collect();
            assert_eq!(chosen, [&groups[number]], "{name}");
        }
    }

    #[test]
    fn what_names_no_group_is_refused() {
        let top = Path::new("/sys/fs/cgroup");
        for path in ["", "/", "/sys/fs/cgroup/", "a/../b", ".."] {
            assert!(Selection::default().cgroup(path, top).is_err(), "{path}");
        }
        for glob in ["", "system.slice/nginx.service"] {
            assert!(Selection::default().unit(glob).is_err(), "{glob}");
        }
    }

    proptest! {
        #[test]
        fn no_default_subject_lies_in_another(
            paths in prop::collection::btree_set(
                "(a|b\\.slice|c\\.scope|d\\.service)(/(a|b\\.slice|c\\.scope|d\\.service)){0,3}", 0..12)
        ) {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let groups = groups(&paths);
            let chosen = Selection::default().choose(&groups);
            for (group, _) in &chosen {
                let inside = chosen.iter().filter(|(g, _)| g.path.starts_with(&group.path));
                prop_assert_eq!(inside.count(), 1);
            }
        }
    }
}
