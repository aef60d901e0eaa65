//! Simulations on a thread of their own, while the calling thread shows progress and looks for
//! signals.

use std::cell::OnceCell;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use memweir_core::Stop;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Time after which the calling thread looks for signals, with or without progress.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A request to stop simulations on other threads of this process.
#[pyclass(frozen, module = "memweir._native")]
#[derive(Default)]
pub(crate) struct StopRequest(Stop);

#[pymethods]
impl StopRequest {
    /// Creates a request that is not made yet.
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Lets a copy in another process, which no call here reaches, start anew.
    fn __getnewargs__<'py>(&self, py: Python<'py>) -> Bound<'py, PyTuple> {
        PyTuple::empty(py)
    }

    /// Makes the request: simulations that watch it end at their next event.
    fn make(&self) {
        self.0.request();
    }
}

thread_local! {
    /// Identity of this thread in Python.
    static IDENTITY: OnceCell<u64> = const { OnceCell::new() };
}

/// A simulation as its supervisor and the policies in it see it.
#[derive(Clone, Default)]
pub(crate) struct Supervision {
    stop: Stop,
    failure: Arc<Mutex<Option<PyErr>>>,
    /// Identities of the threads that are in a policy.
    in_policies: Arc<Mutex<Vec<u64>>>,
}

impl Supervision {
    /// Creates the supervision of a simulation that another thread may stop.
    pub(crate) fn stopped_by(request: &StopRequest) -> Self {
        Self { stop: request.0.clone(), ..Self::default() }
    }

    /// Stops the simulation because of an exception. Of several, the first counts.
    pub(crate) fn fail(&self, error: PyErr) {
        lock(&self.failure).get_or_insert(error);
        self.stop.request();
    }

    /// Calls a policy on this thread, which is interrupted if the policy does not return although
    /// the simulation is about to stop.
    pub(crate) fn in_policy<T>(&self, call: impl FnOnce(Python<'_>) -> T) -> T {
        Python::attach(|py| {
            let Ok(identity) = identity(py) else { return call(py) };
            lock(&self.in_policies).push(identity);
            let result = call(py);
            let mut threads = lock(&self.in_policies);
            if let Some(place) = threads.iter().position(|thread| *thread == identity) {
                threads.swap_remove(place);
            }
            result
        })
    }

    /// Interrupts the policies that do not return. As the lock of the interpreter is held, each of
    /// these threads is in its policy. A policy that waits outside of Python is interrupted when
    /// that wait ends; without the module `ctypes` none is.
    fn interrupt_policies(&self, py: Python<'_>) {
        let threads = lock(&self.in_policies).clone();
        if !threads.is_empty() {
            let interrupt = py.import("memweir._interrupt").and_then(|m| m.getattr("interrupt"));
            let _ = interrupt.and_then(|interrupt| interrupt.call1((threads,)));
        }
    }

    /// Returns true if the simulation is about to stop.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stop.is_requested()
    }

    /// Calls `work` on a thread of its own, with the request to stop and a function that reports a
    /// finished run. Calls `progress` with the finished runs and the `total` meanwhile, until it
    /// raises. Policies that do not return after a request to stop are interrupted.
    ///
    /// # Errors
    /// The exception of a policy, of `progress`, or of a signal's handler, after `work` has ended.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        progress: Option<&Bound<'_, PyAny>>,
        total: usize,
        work: impl FnOnce(&Stop, &mut dyn FnMut()) -> T + Send,
    ) -> PyResult<T> {
        let (sender, mut receiver) = mpsc::channel();
        thread::scope(|scope| {
            let stop = &self.stop;
            let worker = scope.spawn(move || {
                work(stop, &mut || {
                    // A supervisor that has failed does not listen any more.
                    let _ = sender.send(());
                })
            });
            let mut progress = progress;
            while let Err(error) = self.watch(py, &mut receiver, progress.take(), total) {
                self.fail(error);
            }
            let result = py.detach(|| worker.join()).unwrap_or_else(|panic| resume_unwind(panic));
            lock(&self.failure).take().map_or(Ok(result), Err)
        })
    }

    /// Watches a simulation until it ends.
    fn watch(
        &self,
        py: Python<'_>,
        receiver: &mut Receiver<()>,
        progress: Option<&Bound<'_, PyAny>>,
        total: usize,
    ) -> PyResult<()> {
        let mut done = 0;
        loop {
            let waiting = &mut *receiver;
            match py.detach(move || waiting.recv_timeout(LOOK_EVERY)) {
                Ok(()) => done += 1 + receiver.try_iter().count(),
                Err(RecvTimeoutError::Timeout) if self.has_stopped() => self.interrupt_policies(py),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            py.check_signals()?;
            if let Some(progress) = progress {
                progress.call1((done, total))?;
            }
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the identity of this thread in Python.
fn identity(py: Python<'_>) -> PyResult<u64> {
    if let Some(known) = IDENTITY.with(|identity| identity.get().copied()) {
        return Ok(known);
    }
    let found = py.import("threading")?.call_method0("get_ident")?.extract()?;
    Ok(IDENTITY.with(|identity| *identity.get_or_init(|| found)))
}
