//! Simulations on a thread of their own, while the calling thread shows progress and looks for
//! signals.

use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
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

/// A simulation as its supervisor and the policies in it see it.
#[derive(Clone, Default)]
pub(crate) struct Supervision {
    stop: Stop,
    failure: Arc<Mutex<Option<PyErr>>>,
}

impl Supervision {
    /// Creates the supervision of a simulation that another thread may stop.
    pub(crate) fn stopped_by(request: &StopRequest) -> Self {
        Self { stop: request.0.clone(), ..Self::default() }
    }

    /// Stops the simulation because of an exception. Of several, the first counts.
    pub(crate) fn fail(&self, error: PyErr) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        self.stop.request();
    }

    /// Returns true if the simulation is about to stop.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stop.is_requested()
    }

    /// Calls `work` on a thread of its own, with the request to stop and a function that reports a
    /// finished run. Calls `progress` with the finished runs and the `total` meanwhile.
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
            if let Err(error) = watch(py, &mut receiver, progress, total) {
                self.fail(error);
            }
            let result = py.detach(|| worker.join()).unwrap_or_else(|panic| resume_unwind(panic));
            let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
            failure.map_or(Ok(result), Err)
        })
    }
}

/// Watches a simulation until it ends.
fn watch(
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
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        py.check_signals()?;
        if let Some(progress) = progress {
            progress.call1((done, total))?;
        }
    }
}
