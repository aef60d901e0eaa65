//! The emulated machine as the batch scheduler sees it: its clock and processes ([`World`]), its
//! blocker of jobs ([`Blocker`]), and its meter of their traffic ([`Meter`]). All three are handles
//! on one machine.
//!
//! The jobs' processes are real ones of the host. A real blocker and the real world spawn them in a
//! place of their own, watched by a guardian, and signal and reap each job's processes together;
//! here they never block a job.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use memweir_core::{JobId, Nanos};
use memweir_linux::blocker::SpawnTarget;
use memweir_linux::launch::LaunchError;
use memweir_linux::world::{Live, Occurrence, World};
use memweir_linux::{
    Blocker, Capabilities, Launch, Mechanism, Meter, MeterError, MeterKind, OsError, Reading,
};

use crate::machine::{Allowed, Machine};
use crate::threads::RealThreads;

/// Host time that a program gets to reach its first instruction.
const START: Duration = Duration::from_secs(60);

/// Host time that the kernel gets to report a process that has ended.
const BURIAL: Duration = Duration::from_secs(5);

/// Variables that programs keep of the environment. The environment lies on a program's stack, so
/// any other variable would make results depend on the user who runs an emulation.
const ENVIRONMENT: [&str; 8] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR", "LD_LIBRARY_PATH"];

/// A machine that the world, the blocker and the meter share.
#[derive(Clone)]
pub struct SharedMachine(Arc<Mutex<Machine<RealThreads>>>);

impl SharedMachine {
    /// Shares a machine.
    #[must_use]
    pub fn new(machine: Machine<RealThreads>) -> Self {
        Self(Arc::new(Mutex::new(machine)))
    }

    fn machine(&self) -> MutexGuard<'_, Machine<RealThreads>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Virtual time, and the real processes.
pub struct EmulatedWorld {
    machine: SharedMachine,
    live: Live,
    /// First process of each job that was spawned and has not ended.
    pids: HashMap<JobId, u32>,
    /// Occurrences that [`World::wait`] has not returned yet.
    pending: VecDeque<Occurrence>,
}

impl EmulatedWorld {
    /// Creates a world in which this machine's time passes.
    ///
    /// # Errors
    /// If the kernel refuses a resource for watching processes.
    pub fn new(machine: SharedMachine) -> io::Result<Self> {
        Ok(Self { machine, live: Live::new()?, pids: HashMap::new(), pending: VecDeque::new() })
    }

    /// Collects the occurrences in the host so far.
    fn poll(&mut self) -> io::Result<()> {
        for occurrence in self.live.wait(Nanos::ZERO)? {
            self.pending.push_back(match occurrence {
                Occurrence::Exited { job, code, .. } => {
                    self.pids.remove(&job);
                    // The time in the host says nothing here.
                    Occurrence::Exited { job, code, cpu_time: None }
                }
                other => other,
            });
        }
        Ok(())
    }

    /// Waits until the kernel has reported the end of every first process that has left the
    /// machine, at most for [`BURIAL`].
    fn reap(&mut self) -> io::Result<()> {
        let began = Instant::now();
        loop {
            self.poll()?;
            let views = self.machine.machine().threads().gate().threads();
            let lives = |pid: &u32| views.iter().any(|view| view.pid == *pid);
            if self.pids.values().all(lives) || began.elapsed() > BURIAL {
                return Ok(());
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

impl World for EmulatedWorld {
    fn now(&self) -> Nanos {
        self.machine.machine().now()
    }

    fn wait(&mut self, until: Nanos) -> io::Result<Vec<Occurrence>> {
        loop {
            self.poll()?;
            if !self.pending.is_empty() || self.now() >= until {
                return Ok(self.pending.drain(..).collect());
            }
            let ended = self.machine.machine().advance(until);
            if ended {
                self.reap()?;
                return Ok(self.pending.drain(..).collect());
            }
        }
    }

    fn spawn(
        &mut self,
        job: JobId,
        launch: &Launch,
        target: &SpawnTarget,
    ) -> Result<i32, LaunchError> {
        let pid = self.live.spawn(job, launch, target)?;
        self.pids.insert(job, pid as u32);
        Ok(pid)
    }

    /// Returns when the program is at its gate, so that programs start in the order of the jobs.
    fn exec(&mut self, job: JobId) -> Result<(), LaunchError> {
        self.live.exec(job)?;
        let pid = self.pids.get(&job).copied().unwrap_or_default();
        let began = Instant::now();
        while self.pids.contains_key(&job)
            && !self.machine.machine().has_started(pid)
            && began.elapsed() < START
        {
            std::thread::sleep(Duration::from_micros(200));
            // An error here recurs in the next wait.
            let _ = self.poll();
        }
        Ok(())
    }

    /// Does nothing: the machine's operating system assigns the cores.
    fn bind(&mut self, _: JobId, _: &[usize]) -> io::Result<()> {
        Ok(())
    }

    fn forget(&mut self, job: JobId) {
        self.pids.remove(&job);
        self.live.forget(job);
    }
}

/// Blocks jobs by giving them no turns.
pub struct EmulatedBlocker {
    machine: SharedMachine,
    /// The real blocker, which keeps the processes of each job together.
    holder: Box<dyn Blocker>,
}

impl EmulatedBlocker {
    /// Creates a blocker of this machine's jobs; `holder` keeps the processes of each job together.
    #[must_use]
    pub fn new(machine: SharedMachine, holder: Box<dyn Blocker>) -> Self {
        Self { machine, holder }
    }
}

impl Blocker for EmulatedBlocker {
    fn mechanism(&self) -> Mechanism {
        self.holder.mechanism()
    }

    /// Admits the job: new processes are not blocked.
    fn prepare(&mut self, job: JobId) -> Result<SpawnTarget, OsError> {
        self.machine.machine().admit(job);
        self.holder.prepare(job)
    }

    fn spawned(&mut self, job: JobId, pid: i32) -> Result<(), OsError> {
        self.holder.spawned(job, pid)
    }

    fn block_all(&mut self) -> Result<(), OsError> {
        self.machine.machine().block_all();
        Ok(())
    }

    fn run_only(&mut self, jobs: &[JobId]) -> Result<(), OsError> {
        let jobs = jobs.iter().map(|job| job.0).collect();
        self.machine.machine().allow(Allowed::Only(jobs));
        Ok(())
    }

    fn run_all(&mut self) -> Result<(), OsError> {
        self.machine.machine().allow(Allowed::Everybody);
        Ok(())
    }

    fn cpu_time(&mut self, job: JobId) -> Result<Nanos, OsError> {
        Ok(self.machine.machine().cpu_time(job))
    }

    /// Returns true if the job has threads on the machine or still, after at most `BURIAL` for
    /// the kernel to clean up, processes outside of it.
    fn populated(&mut self, job: JobId) -> Result<bool, OsError> {
        if self.machine.machine().has_threads(job) {
            return Ok(true);
        }
        let began = Instant::now();
        while self.holder.populated(job)? {
            if began.elapsed() > BURIAL {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(false)
    }

    fn signal(&mut self, job: JobId, signal: i32) -> Result<(), OsError> {
        self.holder.signal(job, signal)
    }

    fn retire(&mut self, job: JobId) -> Result<(), OsError> {
        self.holder.retire(job)
    }

    fn notices(&mut self) -> Vec<String> {
        self.holder.notices()
    }
}

/// Meter of the machine's jobs.
pub struct EmulatedMeter {
    machine: SharedMachine,
    /// Per job: names of the variables that the jobs file sets.
    variables: Vec<BTreeSet<OsString>>,
}

impl EmulatedMeter {
    /// Creates the meter of this machine; `variables` has the variables that the jobs file sets,
    /// per job.
    #[must_use]
    pub fn new(machine: SharedMachine, variables: Vec<BTreeSet<OsString>>) -> Self {
        Self { machine, variables }
    }
}

impl Meter for EmulatedMeter {
    fn kind(&self) -> MeterKind {
        MeterKind::Software
    }

    fn capabilities(&self) -> Capabilities {
        let caveats = vec![
            "the caches are simulated with LRU and without prefetching; pages that processes \
             share count for each of them"
                .to_owned(),
        ];
        Capabilities { caveats, ..self.machine.machine().threads().meter().capabilities() }
    }

    fn prepare(&mut self, job: JobId, launch: &mut Launch) -> Result<(), MeterError> {
        let given = self.variables.get(job.index());
        launch.env.retain(|name, _| {
            given.is_some_and(|given| given.contains(name))
                || ENVIRONMENT.iter().any(|kept| name.as_os_str() == *kept)
        });
        self.machine.machine().threads().meter().prepare(job, launch)
    }

    fn attach(&mut self, job: JobId, pid: i32) -> Result<(), MeterError> {
        self.machine.machine().threads().meter().attach(job, pid)
    }

    fn read(&mut self, job: JobId, cpu_time: Nanos, quantum: Nanos) -> Result<Reading, MeterError> {
        self.machine.machine().threads().meter().read(job, cpu_time, quantum)
    }

    fn notices(&self, job: JobId) -> Vec<String> {
        self.machine.machine().threads().meter().notices(job)
    }

    fn detach(&mut self, job: JobId) {
        self.machine.machine().threads().meter().detach(job);
    }
}
