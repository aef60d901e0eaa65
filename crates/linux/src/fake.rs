//! A [`Blocker`] over nothing, for tests of use cases.
//!
//! It obeys the contract of [`Blocker`], records the calls that act on processes, fails where the
//! test plants a fault, and reports the CPU times that the test sets. It starts and stops no
//! process; its target is a session.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use memweir_core::{JobId, Nanos};

use crate::OsError;
use crate::blocker::{Blocker, Demand, Mechanism, SpawnTarget};

/// One call of a [`Blocker`] method that acts on processes, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Blocker::spawned`], with the process id.
    Born(JobId, i32),
    /// [`Blocker::block_all`].
    BlockAll,
    /// [`Blocker::run_only`].
    RunOnly(Vec<JobId>),
    /// [`Blocker::run_all`].
    RunAll,
    /// [`Blocker::signal`], with the signal.
    Signal(JobId, i32),
}

/// Selects calls.
pub type Kind = fn(&Call) -> bool;

#[derive(Debug, Default)]
struct FakeJob {
    blocked: bool,
    cpu_time: Nanos,
    populated: bool,
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<JobId, FakeJob>,
    all_blocked: bool,
    calls: Vec<Call>,
    faults: Vec<(Kind, usize, i32)>,
    demands: Vec<Demand>,
    /// Readings of CPU time that are still to fail.
    failing_readings: usize,
}

/// A blocker that blocks nothing.
#[derive(Debug)]
pub struct FakeBlocker {
    mechanism: Mechanism,
    state: Arc<Mutex<State>>,
}

/// The test's end of a [`FakeBlocker`], usable after the blocker has been given away.
#[derive(Clone, Debug)]
pub struct FakeControl {
    state: Arc<Mutex<State>>,
}

impl FakeBlocker {
    /// Makes a blocker that claims to use `mechanism`, and the handle that controls it.
    #[must_use]
    pub fn new(mechanism: Mechanism) -> (Self, FakeControl) {
        let state = Arc::<Mutex<State>>::default();
        (Self { mechanism, state: Arc::clone(&state) }, FakeControl { state })
    }

    /// Records `call` and fails if a fault was planted for it.
    fn call(&self, call: Call) -> Result<MutexGuard<'_, State>, OsError> {
        let mut state = lock(&self.state);
        let what = format!("{call:?}");
        state.calls.push(call.clone());
        let nth = |kind: &Kind| state.calls.iter().filter(|call| kind(call)).count();
        let fault = state.faults.iter().find(|(kind, at, _)| kind(&call) && nth(kind) == *at);
        match fault {
            Some((.., errno)) => Err(error(&what, *errno)),
            None => Ok(state),
        }
    }
}

impl FakeControl {
    /// Makes the `nth` call of this kind (from one, counted over the blocker's life) fail.
    pub fn fail(&self, kind: Kind, nth: usize, errno: i32) {
        lock(&self.state).faults.push((kind, nth, errno));
    }

    /// Returns every demand that [`Blocker::set_demand`] was called with.
    #[must_use]
    pub fn demands(&self) -> Vec<Demand> {
        lock(&self.state).demands.clone()
    }

    /// Sets the value that [`Blocker::cpu_time`] returns for a prepared job.
    pub fn set_cpu_time(&self, job: JobId, cpu_time: Nanos) {
        if let Some(job) = lock(&self.state).jobs.get_mut(&job) {
            job.cpu_time = cpu_time;
        }
    }

    /// Makes the next `count` readings of CPU time fail.
    pub fn fail_readings(&self, count: usize) {
        lock(&self.state).failing_readings = count;
    }

    /// Adds `span` to the CPU time of every job that is not blocked, as if it had run so long.
    pub fn advance(&self, span: Nanos) {
        let mut state = lock(&self.state);
        if state.all_blocked {
            return;
        }
        for job in state.jobs.values_mut().filter(|job| !job.blocked && job.populated) {
            job.cpu_time += span;
        }
    }

    /// Ends the processes of a job, as far as [`Blocker::populated`] is concerned.
    pub fn empty(&self, job: JobId) {
        if let Some(job) = lock(&self.state).jobs.get_mut(&job) {
            job.populated = false;
        }
    }

    /// Returns every call so far, failed ones included.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.state).calls.clone()
    }

    /// Returns the jobs that run now.
    #[must_use]
    pub fn running(&self) -> BTreeSet<JobId> {
        let state = lock(&self.state);
        if state.all_blocked {
            return BTreeSet::new();
        }
        state.jobs.iter().filter(|(_, job)| !job.blocked).map(|(id, _)| *id).collect()
    }

    /// Returns the jobs that are prepared and not retired.
    #[must_use]
    pub fn known(&self) -> BTreeSet<JobId> {
        lock(&self.state).jobs.keys().copied().collect()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // A test that panicked with the lock held has failed already.
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn error(what: &str, errno: i32) -> OsError {
    OsError::new(what, io::Error::from_raw_os_error(errno))
}

impl State {
    fn job(&mut self, job: JobId) -> Result<&mut FakeJob, OsError> {
        self.jobs.get_mut(&job).ok_or_else(|| error(&format!("job {job}"), libc::ENOENT))
    }
}

impl Blocker for FakeBlocker {
    fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    fn prepare(&mut self, job: JobId) -> Result<SpawnTarget, OsError> {
        let mut state = lock(&self.state);
        if state.all_blocked {
            return Err(error(&format!("preparing job {job} while all are blocked"), libc::EBUSY));
        }
        if state.jobs.contains_key(&job) {
            return Err(error(&format!("preparing job {job} twice"), libc::EEXIST));
        }
        state.jobs.insert(job, FakeJob::default());
        Ok(SpawnTarget::Session)
    }

    fn spawned(&mut self, job: JobId, pid: i32) -> Result<(), OsError> {
        self.call(Call::Born(job, pid))?.job(job)?.populated = true;
        Ok(())
    }

    fn block_all(&mut self) -> Result<(), OsError> {
        self.call(Call::BlockAll)?.all_blocked = true;
        Ok(())
    }

    fn run_only(&mut self, jobs: &[JobId]) -> Result<(), OsError> {
        let mut state = self.call(Call::RunOnly(jobs.to_vec()))?;
        for (id, job) in &mut state.jobs {
            job.blocked = !jobs.contains(id);
        }
        state.all_blocked = false;
        Ok(())
    }

    fn run_all(&mut self) -> Result<(), OsError> {
        let mut state = self.call(Call::RunAll)?;
        state.all_blocked = false;
        state.jobs.values_mut().for_each(|job| job.blocked = false);
        Ok(())
    }

    fn set_demand(&mut self, demand: Demand) {
        lock(&self.state).demands.push(demand);
    }

    fn cpu_time(&mut self, job: JobId) -> Result<Nanos, OsError> {
        let mut state = lock(&self.state);
        if state.failing_readings > 0 {
            state.failing_readings -= 1;
            return Err(error(&format!("reading the CPU time of job {job}"), libc::EMFILE));
        }
        Ok(state.job(job)?.cpu_time)
    }

    fn populated(&mut self, job: JobId) -> Result<bool, OsError> {
        Ok(lock(&self.state).job(job)?.populated)
    }

    /// Empties the job at SIGKILL; other signals do nothing.
    fn signal(&mut self, job: JobId, signal: i32) -> Result<(), OsError> {
        let mut state = self.call(Call::Signal(job, signal))?;
        let job = state.job(job)?;
        job.populated &= signal != libc::SIGKILL;
        Ok(())
    }

    fn retire(&mut self, job: JobId) -> Result<(), OsError> {
        let mut state = lock(&self.state);
        if state.job(job)?.populated {
            return Err(error(&format!("retiring job {job} with processes left"), libc::EBUSY));
        }
        state.jobs.remove(&job);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_contract_and_records() {
        let (mut blocker, control) = FakeBlocker::new(Mechanism::CgroupV2);
        let (a, b) = (JobId(0), JobId(1));
        for (job, pid) in [(a, 10), (b, 11)] {
            blocker.prepare(job).unwrap();
            blocker.spawned(job, pid).unwrap();
        }
        blocker.block_all().unwrap();
        assert!(control.running().is_empty());
        assert!(blocker.prepare(JobId(2)).is_err());
        blocker.run_only(&[b]).unwrap();
        assert_eq!(control.running(), BTreeSet::from([b]));
        control.advance(Nanos(5));
        assert_eq!(blocker.cpu_time(a).unwrap(), Nanos(0));
        assert_eq!(blocker.cpu_time(b).unwrap(), Nanos(5));
        assert!(blocker.retire(a).is_err());
        blocker.signal(a, libc::SIGKILL).unwrap();
        assert!(!blocker.populated(a).unwrap());
        blocker.retire(a).unwrap();
        assert_eq!(control.known(), BTreeSet::from([b]));
        assert!(control.calls().contains(&Call::RunOnly(vec![b])));
    }

    #[test]
    fn fails_on_the_planted_call_alone() {
        let (mut blocker, control) = FakeBlocker::new(Mechanism::Sigstop);
        control.fail(|call| *call == Call::BlockAll, 2, libc::EACCES);
        blocker.block_all().unwrap();
        blocker.run_all().unwrap();
        let error = blocker.block_all().unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(libc::EACCES));
        // The failed call changed nothing.
        blocker.prepare(JobId(0)).unwrap();
        blocker.block_all().unwrap();
    }
}
