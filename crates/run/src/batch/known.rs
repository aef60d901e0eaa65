//! Knowledge of a job before it runs: from the jobs file, else from a recording that the jobs file
//! names, else from the profile store.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::{Path, PathBuf};

use memweir_core::input::{InputError, Refusal};
use memweir_core::placement::{Placement, divide};
use memweir_core::profile::Profile;
use memweir_core::{BytesPerSec, Counts, JobId, Lines, MAX_MEDIA, Media, Nanos, Traffic};
use memweir_policy::{JobSpec, Kind};

use crate::declared::Declaration;
use crate::jobs::{Batch, Job};
use crate::options;
use crate::recording::Recording;
use crate::report::{ProfileSource, SourceKind};
use crate::store::{InputState, Invocation, ProgramKey, ProgramState, Store};

/// Knowledge of one job before it runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Time alone, `T_j` of iabw section 3.3.
    pub time: Option<Nanos>,
    /// Mean bandwidth alone over that time, `B_j`.
    pub bandwidth: Option<BytesPerSec>,
    /// Behavior along its CPU time.
    pub profile: Option<Profile>,
    /// The media that the profile tells apart; one alone before [`Knowledge::place`] unless a
    /// recording has more.
    pub media: Media,
    /// True if the profile tells the media of the batch apart; see [`Knowledge::place`].
    pub by_medium: bool,
    /// Source of the profile; absent where there is none.
    pub source: Option<ProfileSource>,
    /// Reason for which the stored profile is not used.
    pub outdated: Option<String>,
    /// True if the profile is the store's, and the program's file has been replaced since.
    pub replaced: bool,
}

/// Execution time and bandwidth of a job that runs alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alone {
    /// Execution time, `T_j` of iabw section 3.3.
    pub time: Nanos,
    /// Mean bandwidth over that time, `B_j`.
    pub bandwidth: BytesPerSec,
}

impl Alone {
    /// Returns the figures of a profiled job. A profile is laid along CPU time; a job on several
    /// cores goes through it faster.
    #[must_use]
    pub fn of(profile: &Profile, cores: u32) -> Self {
        let time = Nanos(profile.cpu_time.0 / u64::from(cores.max(1)));
        Self { time, bandwidth: profile.total().bandwidth(time) }
    }
}

/// Knowledge of the jobs of a batch before they run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Knowledge {
    /// The jobs, in the order of the batch.
    pub jobs: Vec<Known>,
    /// Notices for the user about its sources.
    pub notices: Vec<String>,
}

impl Knowledge {
    /// Gathers the knowledge of a batch from its jobs file and the profile store, for a machine
    /// that has as many cores as each job keeps busy.
    ///
    /// # Errors
    /// If a program cannot be found, or a recording that the jobs file names cannot be used.
    pub fn of_batch(batch: &Batch, store: Option<&Store>) -> Result<Self, InputError> {
        Self::gather(batch, &find_programs(batch)?, store, u32::MAX)
    }

    /// Gathers the knowledge of jobs whose programs have been found already, and which can use this
    /// many `cores` at most.
    pub fn gather(
        batch: &Batch,
        programs: &[PathBuf],
        store: Option<&Store>,
        cores: u32,
    ) -> Result<Self, InputError> {
        let mut knowledge = Self::default();
        for (job, program) in batch.jobs.iter().zip(programs) {
            let found = match (&job.profile, store) {
                (Some(path), _) => {
                    let (recording, source) = recorded_in(path, job)?;
                    Ok(Some((recording, source, ProgramState::Unchanged)))
                }
                // Figures in the jobs file take precedence over a profile in the store.
                (None, Some(store)) if !job.declares_traffic() => {
                    knowledge.stored(store, job, program)
                }
                _ => Ok(None),
            };
            let outdated = found.as_ref().err().cloned();
            let told = |reason| format!("the profile of {} is not used: {reason}", job.name);
            knowledge.notices.extend(outdated.as_ref().map(told));
            let (recording, source, replaced) = match found.ok().flatten() {
                Some((recording, source, program)) => {
                    (Some(recording), Some(source), program == ProgramState::Changed)
                }
                None => (None, None, false),
            };
            let (recorded, media) = recording.map(|r| (r.profile, r.media)).unzip();
            knowledge.jobs.push(Known {
                media: media.unwrap_or_default(),
                source,
                outdated,
                replaced,
                ..Known::of(job, recorded, job.cores.min(cores))
            });
        }
        Ok(knowledge)
    }

    /// Returns a job's profile in the store with its source and the state of its program, or the
    /// reason for which it cannot be used.
    fn stored(
        &mut self,
        store: &Store,
        job: &Job,
        program: &Path,
    ) -> Result<Option<(Recording, ProfileSource, ProgramState)>, String> {
        let key = ProgramKey::of(&invocation(job, program));
        let key = key.map_err(|error| format!("{}: {error}", program.display()))?;
        let found = store.get(&key).map_err(|error| error.to_string())?;
        let Some(stored) = found else { return Ok(None) };
        if let InputState::Changed(files) = &stored.inputs {
            return Err(format!("{} changed since it was recorded", files.join(", ")));
        }
        if stored.program == ProgramState::Changed {
            self.notices.push(format!(
                "the profile of {} is from before its program was replaced; profile it again",
                job.name
            ));
        }
        let source = ProfileSource::of(SourceKind::Store, &stored.recording);
        let source = ProfileSource { key: Some(stored.key), ..source };
        Ok(Some((stored.recording, source, stored.program)))
    }

    /// Maps the profiles to the media of a batch. A placement by share divides the traffic of a
    /// job; otherwise a recording is mapped by name if the batch has all of its media; otherwise
    /// all traffic is the local DRAM's.
    pub fn place(&mut self, media: &Media, placements: &[Option<Placement>]) {
        for (known, placement) in self.jobs.iter_mut().zip(placements) {
            let Some(profile) = &mut known.profile else { continue };
            let shares = placement.as_ref().and_then(Placement::shares);
            let numbers = numbers_in(media, &known.media);
            for counts in &mut profile.intervals {
                *counts = match (&shares, &numbers) {
                    (Some(shares), _) => divide(counts, shares),
                    (None, Some(numbers)) => renumbered(counts, numbers),
                    (None, None) => Counts::new(counts.instructions, counts.reads, counts.writes),
                };
            }
            known.by_medium = shares.is_some() || (numbers.is_some() && known.media.len() > 1);
        }
    }

    /// Returns the jobs as the scheduler gets them at submission.
    #[must_use]
    pub fn specs(&self, batch: &Batch) -> Vec<JobSpec> {
        // A kind has the number of the first job that runs the same command on as many cores.
        let mut kinds = HashMap::new();
        let spec = |(index, (job, known)): (usize, (&Job, &Known))| JobSpec {
            job: JobId(index as u32),
            cores: job.cores,
            expected_time: known.time,
            expected_bandwidth: known.bandwidth,
            priority: job.priority,
            kind: Some(*kinds.entry(command_of(job)).or_insert(Kind(index as u64))),
        };
        batch.jobs.iter().zip(&self.jobs).enumerate().map(spec).collect()
    }

    /// Returns the profiles for the declared meter, or the first job that has none.
    pub fn declarations(&self, batch: &Batch) -> Result<HashMap<JobId, Declaration>, JobId> {
        let declaration = |(index, (job, known)): (usize, (&Job, &Known))| {
            let id = JobId(index as u32);
            let profile = known.profile.clone().ok_or(id)?;
            Ok((id, Declaration { profile, cores: job.cores, by_medium: known.by_medium }))
        };
        batch.jobs.iter().zip(&self.jobs).enumerate().map(declaration).collect()
    }
}

impl Known {
    /// Combines the jobs file with `recorded`, which fills in what the file does not say of the job
    /// on this many cores.
    fn of(job: &Job, recorded: Option<Profile>, cores: u32) -> Self {
        let alone = recorded.as_ref().map(|profile| Alone::of(profile, cores));
        let declared = job.expected_time.filter(|_| job.declares_traffic());
        let steady = declared.map(|time| {
            let lines = |rate: Option<BytesPerSec>| {
                let bytes = rate.unwrap_or_default().0 * time.as_secs_f64();
                Lines((bytes / memweir_core::LINE_BYTES as f64).round() as u64)
            };
            let total = Counts {
                reads: lines(job.expected_reads),
                writes: lines(job.expected_writes),
                ..Counts::default()
            };
            Profile::steady(Nanos(time.0 * u64::from(job.cores.max(1))), total)
        });
        // A recording that the jobs file names knows more than the figures beside it.
        let profile = steady.or(recorded);
        Self {
            time: job.expected_time.or(alone.map(|alone| alone.time)),
            bandwidth: job.expected_bandwidth().or(alone.map(|alone| alone.bandwidth)),
            profile,
            ..Self::default()
        }
    }
}

/// Returns the places of the jobs that have neither a profile in the store nor figures in the jobs
/// file: those that must be profiled before they can be run with declared behavior.
pub fn unknown_jobs(batch: &Batch, store: Option<&Path>) -> Result<Vec<usize>, super::RunError> {
    let programs = find_programs(batch)?;
    let store = Store::open(store)?;
    let knowledge = Knowledge::gather(batch, &programs, Some(&store), u32::MAX)?;
    let unknown = |(index, known): (usize, &Known)| known.profile.is_none().then_some(index);
    Ok(knowledge.jobs.iter().enumerate().filter_map(unknown).collect())
}

/// Returns the invocation by which the store identifies a job.
pub fn invocation(job: &Job, program: &Path) -> Invocation {
    Invocation {
        program: program.to_owned(),
        argv: job.command.argv(),
        directory: job.directory.clone().unwrap_or_else(|| PathBuf::from(".")),
        env: job.env.clone(),
        stdin: job.stdin.clone(),
    }
}

/// Returns what jobs of one kind have in common.
fn command_of(job: &Job) -> impl Hash + Eq + use<> {
    let (argv, directory) = (job.command.argv(), job.directory.clone());
    (argv, directory, job.env.clone(), job.stdin.clone(), job.cores)
}

/// Finds the program of each job, as an absolute path.
///
/// # Errors
/// If there is no such program, or one that may not be executed.
pub fn find_programs(batch: &Batch) -> Result<Vec<PathBuf>, InputError> {
    let find =
        |job: &Job| program_of(job).map_err(|refusal| refusal.written_in("job").key(&job.name));
    batch.jobs.iter().map(find).collect()
}

/// Finds the program of a job, as an absolute path.
pub(crate) fn program_of(job: &Job) -> Result<PathBuf, Refusal> {
    let directory = job.directory.as_deref().unwrap_or(Path::new("."));
    let argv = job.command.argv();
    let name = argv.first().map_or("".as_ref(), |name| name.as_os_str());
    options::program(name, directory)
}

/// Returns the number that each medium of a recording has in a batch, by its name; `None` if one of
/// them is missing there.
fn numbers_in(batch: &Media, recorded: &Media) -> Option<Vec<usize>> {
    recorded.iter().map(|(_, medium)| batch.find(&medium.name).map(|id| id.index())).collect()
}

fn renumbered(counts: &Counts, numbers: &[usize]) -> Counts {
    let mut traffic = [Traffic::default(); MAX_MEDIA];
    for (medium, number) in memweir_core::MediumId::ALL.into_iter().zip(numbers) {
        traffic[*number] += counts.traffic(medium);
    }
    Counts::by_medium(counts.instructions, traffic)
}

/// The recording that the jobs file names, and its source.
fn recorded_in(path: &Path, job: &Job) -> Result<(Recording, ProfileSource), InputError> {
    let recording =
        Recording::load(path).map_err(|error| job.refuse("profile", error.to_string()))?;
    let source = ProfileSource::of(SourceKind::File, &recording);
    Ok((recording, ProfileSource { file: Some(path.display().to_string()), ..source }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::Command;
    use crate::store::{Provenance, inputs};
    use jiff::Timestamp;

    fn job() -> Job {
        Job::new("job", Command::Exec(vec!["/bin/true".into()]))
    }

    /// 2 s of CPU time, 1 GB.
    fn recorded() -> Profile {
        let reads = Lines(1_000_000_000 / memweir_core::LINE_BYTES);
        Profile::steady(Nanos::from_millis(2_000), Counts { reads, ..Counts::default() })
    }

    /// It was recorded now.
    fn recording() -> Recording {
        Recording {
            command: vec!["/bin/true".to_owned()],
            meter: "software".to_owned(),
            machine: "test".to_owned(),
            date: Timestamp::now(),
            media: Media::dram_only(),
            profile: recorded(),
        }
    }

    #[test]
    fn figures_make_a_steady_profile() {
        let job = Job {
            expected_time: Some(Nanos::from_millis(500)),
            expected_reads: Some(BytesPerSec(6.4e9)),
            expected_writes: Some(BytesPerSec(3.2e9)),
            cores: 2,
            ..job()
        };
        let known = Known::of(&job, None, 2);
        assert_eq!(known.bandwidth, Some(BytesPerSec(9.6e9)));
        let profile = known.profile.expect("declared");
        // Two cores for half a second.
        assert_eq!(profile.cpu_time, Nanos::from_millis(1_000));
        assert_eq!(profile.total().reads, Lines(50_000_000));
        assert_eq!(profile.total().writes, Lines(25_000_000));
    }

    #[test]
    fn a_recording_gives_what_the_file_does_not() {
        let known = Known::of(&job(), Some(recorded()), 1);
        assert_eq!(known.time, Some(Nanos::from_millis(2_000)));
        assert_eq!(known.bandwidth, Some(BytesPerSec(5e8)));
        // On two cores it takes half the time, at twice the rate.
        let wide = Known::of(&Job { cores: 2, ..job() }, Some(recorded()), 2);
        assert_eq!(wide.time, Some(Nanos::from_millis(1_000)));
        assert_eq!(wide.bandwidth, Some(BytesPerSec(1e9)));
    }

    #[test]
    fn the_file_goes_before_the_store_but_not_before_a_recording_it_names() {
        let figures = Job {
            expected_time: Some(Nanos::from_millis(100)),
            expected_reads: Some(BytesPerSec(6.4e9)),
            ..job()
        };
        let known = Known::of(&figures, Some(recorded()), 1);
        assert_eq!(known.profile.expect("declared").cpu_time, Nanos::from_millis(100));
        let named = Job { profile: Some("x.parquet".into()), ..figures };
        let known = Known::of(&named, Some(recorded()), 1);
        assert_eq!(known.profile, Some(recorded()));
        assert_eq!(known.time, Some(Nanos::from_millis(100)), "the file's own figure");
    }

    #[test]
    fn the_store_knows_a_job_by_how_it_is_run() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("store.sqlite");
        let job = Job { directory: Some(directory.path().to_owned()), ..job() };
        let batch = Batch { jobs: vec![job.clone()] };
        assert_eq!(unknown_jobs(&batch, Some(&path)).expect("a store"), [0]);

        let programs = find_programs(&batch).expect("it exists");
        let store = Store::open(Some(&path)).expect("a store");
        let key = ProgramKey::of(&invocation(&job, &programs[0])).expect("it exists");
        store.put(&key, &recording(), &Provenance::default()).expect("space");
        assert_eq!(unknown_jobs(&batch, Some(&path)).expect("a store"), [0usize; 0]);
        let knowledge = Knowledge::gather(&batch, &programs, Some(&store), 1).expect("readable");
        assert_eq!(knowledge.specs(&batch)[0].expected_bandwidth, Some(BytesPerSec(5e8)));
        assert_eq!(knowledge.declarations(&batch).expect("known").len(), 1);

        let other = Job { command: Command::Exec(vec!["/bin/true".into(), "-x".into()]), ..job };
        let batch = Batch { jobs: vec![other] };
        assert_eq!(unknown_jobs(&batch, Some(&path)).expect("a store"), [0]);
    }

    #[test]
    fn a_profile_of_other_input_is_not_used_and_the_user_is_told() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Store::open(Some(&directory.path().join("store.sqlite"))).expect("a store");
        std::fs::write(directory.path().join("input"), "old").expect("space");
        let command = Command::Exec(vec!["/bin/true".into(), "input".into()]);
        let job = Job { command, directory: Some(directory.path().to_owned()), ..job() };
        let invocation = invocation(&job, Path::new("/bin/true"));
        let key = ProgramKey::of(&invocation).expect("it exists");
        let recording = recording();
        let provenance = Provenance { exit_code: 0, inputs: inputs(&invocation) };
        store.put(&key, &recording, &provenance).expect("space");
        let batch = Batch { jobs: vec![job] };
        let gather =
            || Knowledge::gather(&batch, &["/bin/true".into()], Some(&store), 1).expect("readable");
        let source = gather().jobs[0].source.clone().expect("it is used");
        assert_eq!((source.key.as_deref(), source.recorded), (Some(key.as_str()), recording.date));
        assert!((0.0..60.0).contains(&source.age_s), "{source:?}");

        std::fs::write(directory.path().join("input"), "new data").expect("space");
        let knowledge = gather();
        assert_eq!((&knowledge.jobs[0].profile, &knowledge.jobs[0].source), (&None, &None));
        let [notice] = &knowledge.notices[..] else { panic!("{:?}", knowledge.notices) };
        assert!(notice.contains("is not used") && notice.contains("input changed"), "{notice}");

        let figures = Job {
            expected_time: Some(Nanos::MILLI),
            expected_reads: Some(BytesPerSec(1e9)),
            ..batch.jobs[0].clone()
        };
        let figures = Batch { jobs: vec![figures] };
        let declared = Knowledge::gather(&figures, &["/bin/true".into()], Some(&store), 1);
        assert_eq!(declared.expect("readable").notices, [""; 0], "they leave it no use");
    }

    #[test]
    fn a_job_is_expected_to_run_on_no_more_cores_than_it_can_have() {
        let recording = recording();
        let file = tempfile::NamedTempFile::with_suffix(".parquet").expect("a file");
        recording.save(file.path()).expect("written");
        let profile = Some(file.path().to_owned());
        let batch = Batch { jobs: vec![Job { cores: 4, profile, ..job() }] };
        let knowledge = Knowledge::gather(&batch, &["/bin/true".into()], None, 2);
        let known = &knowledge.expect("readable").jobs[0];
        // 2 s of CPU time and 1 GB on two cores.
        assert_eq!(known.time, Some(Nanos::from_millis(1_000)));
        assert_eq!(known.bandwidth, Some(BytesPerSec(1e9)));
    }

    #[test]
    fn runs_of_one_command_on_as_many_cores_are_of_one_kind() {
        let command = |argument: &str| Command::Exec(vec!["/bin/true".into(), argument.into()]);
        let (a, b) = (Job::new("a", command("a")), Job::new("b", command("b")));
        let wide = Job { cores: 2, ..a.clone() };
        let elsewhere = Job { directory: Some("/".into()), ..a.clone() };
        let set = Job { env: [("SIZE".into(), "9".into())].into(), ..a.clone() };
        let renamed = Job { name: "c".to_owned(), ..a.clone() };
        let jobs = vec![b.clone(), a, wide, elsewhere, set, renamed, b];
        let knowledge = Knowledge { jobs: vec![Known::default(); 7], notices: Vec::new() };
        let specs = knowledge.specs(&Batch { jobs });
        let kinds: Vec<_> = specs.iter().map(|spec| spec.kind.expect("of a command").0).collect();
        assert_eq!(kinds, [0, 1, 2, 3, 4, 1, 0]);
    }

    /// DRAM and these beside it.
    fn media(names: &[&str]) -> Media {
        let data: Vec<_> = names
            .iter()
            .map(|name| memweir_core::medium::data::MediumData::shipped(name).expect("shipped"))
            .collect();
        Media::with_dram(&data).expect("few")
    }

    /// One job with 10 lines of DRAM, 20 of PRAM and 30 of STT-RAM, as it was recorded.
    fn of_three_media() -> Knowledge {
        let lines = |reads| Traffic { reads: Lines(reads), writes: Lines(0) };
        let counts = Counts::by_medium(1, [lines(10), lines(20), lines(30), lines(0)]);
        let known = Known {
            profile: Some(Profile::steady(Nanos(1), counts)),
            media: media(&["pram", "stt-ram"]),
            ..Known::default()
        };
        Knowledge { jobs: vec![known], notices: Vec::new() }
    }

    fn placed(on: &[&str], placement: Option<&str>) -> (Vec<u64>, bool) {
        let (mut knowledge, media) = (of_three_media(), media(on));
        let placement = placement.map(|text| {
            let spec: memweir_core::placement::PlacementSpec = text.parse().expect("a placement");
            spec.resolve(&media).expect("its media")
        });
        knowledge.place(&media, &[placement]);
        let known = &knowledge.jobs[0];
        let counts = known.profile.as_ref().expect("known").total();
        assert_eq!(counts.reads, Lines(60));
        let reads = memweir_core::MediumId::ALL.map(|medium| counts.traffic(medium).reads.0);
        (reads.to_vec(), known.by_medium)
    }

    #[test]
    fn what_is_known_is_laid_on_the_media_of_the_batch() {
        // By name, whatever the order.
        assert_eq!(placed(&["stt-ram", "pram"], None), (vec![10, 30, 20, 0], true));
        assert_eq!(placed(&["cxl", "stt-ram", "pram"], None), (vec![10, 0, 30, 20], true));
        // Without one of them nothing is known but the sum.
        assert_eq!(placed(&["pram"], None), (vec![60, 0, 0, 0], false));
        assert_eq!(placed(&["pram"], Some("pram=50%")), (vec![30, 30, 0, 0], true));
        assert_eq!(placed(&["pram", "stt-ram"], Some("dram")), (vec![60, 0, 0, 0], true));
        // Only the recording knows what lies in these addresses.
        let recorded = placed(&["pram", "stt-ram"], Some("0x0-0x1000=pram"));
        assert_eq!(recorded, (vec![10, 20, 30, 0], true));
        assert!(!placed(&["cxl"], Some("0x0-0x1000=cxl")).1);
    }

    #[test]
    fn a_recording_that_is_none_is_refused_with_its_job() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let batch = Batch { jobs: vec![Job { profile: Some(file.path().into()), ..job() }] };
        let error = Knowledge::gather(&batch, &["/bin/true".into()], None, 1).expect_err("refused");
        assert!(error.to_string().contains("job: "), "{error}");
    }
}
