//! Subjects: the control groups that mean something to people, recognized by their paths.

use std::path::Path;

use serde::Serialize;

/// Endings of the units that systemd gives control groups, slices aside.
const UNIT_ENDINGS: [&str; 5] = [".service", ".scope", ".socket", ".mount", ".swap"];

/// Digits of a container's id in its name; `docker ps` shows as many.
const SHORT_ID: usize = 12;

/// Kinds of subjects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A control group that is none of the others.
    #[default]
    Cgroup,
    /// A unit of systemd: a service, a scope, a slice.
    Unit,
    /// A step of a Slurm job.
    Slurm,
    /// A container of Docker, Podman, containerd, CRI-O or LXC.
    Container,
}

memweir_core::named! {
    pub Kind, "kind of subject":
    Cgroup = "cgroup",
    Unit = "unit",
    Slurm = "slurm",
    Container = "container",
}

/// A control group that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Path in the cgroup tree with a slash in front: `/system.slice/nginx.service`.
    pub jobid: String,
    /// Name for people: `nginx.service`, `docker-0123456789ab`, `4711.batch`.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Number of its Slurm job.
    pub slurm_jobid: Option<String>,
}

impl Subject {
    /// Recognizes the group at this path below the top of the tree.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let text = path.to_string_lossy();
        let parts: Vec<&str> = text.split('/').collect();
        let last = parts.last().copied().unwrap_or_default();
        let (kind, name, slurm_jobid) = if let Some((job, step)) = slurm_step(&parts) {
            (Kind::Slurm, format!("{job}.{step}"), Some(job.to_owned()))
        } else if let Some(name) = container(last) {
            (Kind::Container, name, None)
        } else if is_unit(last) {
            (Kind::Unit, last.to_owned(), None)
        } else {
            (Kind::Cgroup, last.to_owned(), None)
        };
        Self { jobid: format!("/{text}"), name, kind, slurm_jobid }
    }

    /// Returns true for a slice, which holds other units.
    #[must_use]
    pub fn is_slice(&self) -> bool {
        self.kind == Kind::Unit && self.name.ends_with(".slice")
    }
}

/// Returns job and step of `.../slurmstepd.scope/job_4711/step_batch`, as Slurm's cgroup plugins
/// name them.
fn slurm_step<'a>(parts: &[&'a str]) -> Option<(&'a str, &'a str)> {
    let [above @ .., job, step] = parts else { return None };
    let job = job.strip_prefix("job_").filter(|job| is_number(job))?;
    let step = step.strip_prefix("step_").filter(|step| !step.is_empty())?;
    above.iter().any(|part| part.contains("slurm")).then_some((job, step))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the name of a container: the engine that the group's name begins with, and the start of
/// the id, 64 hexadecimal digits.
fn container(group: &str) -> Option<String> {
    if let Some(name) = group.strip_prefix("lxc.payload.") {
        return Some(format!("lxc-{name}"));
    }
    let name = group.strip_suffix(".scope").unwrap_or(group);
    let (engine, id) = name.rsplit_once('-').unwrap_or(("", name));
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Podman's monitor of a container is no container.
    if !is_id || engine.ends_with("conmon") {
        return None;
    }
    let engine = if engine.is_empty() { "container" } else { engine };
    Some(format!("{engine}-{}", &id[..SHORT_ID]))
}

/// Returns true if a name ends as those of the units do that systemd gives control groups.
pub(crate) fn is_unit(group: &str) -> bool {
    UNIT_ENDINGS.iter().any(|ending| group.ends_with(ending)) || group.ends_with(".slice")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn read(path: &str) -> (Kind, String) {
        let subject = Subject::of(Path::new(path));
        assert_eq!(subject.jobid, format!("/{path}"));
        (subject.kind, subject.name)
    }

    #[test]
    fn units_are_known_by_their_endings() {
        let name = |name: &str| (Kind::Unit, name.to_owned());
        assert_eq!(read("system.slice/nginx.service"), name("nginx.service"));
        assert_eq!(read("user.slice/user-0.slice/session-3.scope"), name("session-3.scope"));
        assert_eq!(read("user.slice"), name("user.slice"));
        assert!(Subject::of(Path::new("user.slice")).is_slice());
        assert_eq!(read("mine/deeper"), (Kind::Cgroup, "deeper".to_owned()));
    }

    #[test]
    fn containers_are_known_by_their_ids() {
        let container = |name: &str| (Kind::Container, name.to_owned());
        assert_eq!(
            read(&format!("system.slice/docker-{ID}.scope")),
            container("docker-0123456789ab")
        );
        assert_eq!(read(&format!("docker/{ID}")), container("container-0123456789ab"));
        let pod = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx.slice";
        assert_eq!(
            read(&format!("{pod}/cri-containerd-{ID}.scope")),
            container("cri-containerd-0123456789ab")
        );
        assert_eq!(read("lxc.payload.web"), container("lxc-web"));
        let (kind, _) = read(&format!("machine.slice/libpod-conmon-{ID}.scope"));
        assert_eq!(kind, Kind::Unit);
        assert_eq!(read(&format!("x-{}.scope", &ID[1..])).0, Kind::Unit);
    }

    #[test]
    fn slurm_steps_have_job_and_step() {
        let path = "system.slice/n1_slurmstepd.scope/job_4711/step_batch";
        let step = Subject::of(Path::new(path));
        assert_eq!((step.kind, step.name.as_str()), (Kind::Slurm, "4711.batch"));
        assert_eq!(step.slurm_jobid.as_deref(), Some("4711"));
        // The groups inside a step belong to it, and other programs may have jobs, too.
        for other in [format!("{path}/user"), "ci/job_1/step_2".to_owned()] {
            assert_eq!(Subject::of(Path::new(&other)).kind, Kind::Cgroup, "{other}");
        }
        let broken = Subject::of(Path::new("slurmstepd.scope/job_x/step_0"));
        assert_eq!((broken.kind, broken.slurm_jobid), (Kind::Cgroup, None));
    }

    proptest! {
        #[test]
        fn any_path_has_a_name(path in "([a-z._0-9-]{0,70}|job_[0-9]{0,3}|step_[a-z]{0,3}|\\PC{1,70}/){0,4}") {
            let subject = Subject::of(Path::new(&path));
            prop_assert!(subject.jobid.starts_with('/'));
            prop_assert_eq!(subject.kind == Kind::Slurm, subject.slurm_jobid.is_some());
        }
    }
}
