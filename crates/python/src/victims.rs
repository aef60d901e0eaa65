//! A Python object as a victim policy of paging.

use std::fmt::{self, Debug};

use memweir_policy::paging::{Entry, Fifo, LearnsBy, Node, Page, Seen, VictimPolicy, VictimSource};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::policy_failed;
use crate::supervise::Supervision;

/// A victim policy that is written in Python: an object with `victim()`. Each run has a deep copy
/// of it, so that runs share no state.
pub(crate) struct PythonVictims {
    name: String,
    object: Py<PyAny>,
    methods: Methods,
    supervision: Supervision,
}

/// The optional methods that a policy has.
#[derive(Clone, Copy, Debug)]
struct Methods {
    start: bool,
    enter: bool,
    leave: bool,
    wants_scan: bool,
    see: bool,
    scanned: bool,
}

impl PythonVictims {
    pub(crate) fn new(name: String, object: Py<PyAny>, supervision: Supervision) -> Self {
        let methods = Python::attach(|py| {
            let has = |method| object.bind(py).getattr(method).is_ok();
            Methods {
                start: has("start"),
                enter: has("enter"),
                leave: has("leave"),
                wants_scan: has("wants_scan"),
                see: has("see"),
                scanned: has("scanned"),
            }
        });
        Self { name, object, methods, supervision }
    }

    /// Returns the object of one run, which has been told the number of pages if it has
    /// `start(pages)`.
    fn start(&self, py: Python<'_>, pages: usize) -> PyResult<Py<PyAny>> {
        let copy = py.import("copy")?.call_method1("deepcopy", (&self.object,))?;
        if self.methods.start {
            copy.call_method1("start", (pages,))?;
        }
        Ok(copy.unbind())
    }
}

/// The name alone, from which keys of points follow: an object's address differs in every process.
impl Debug for PythonVictims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl VictimSource for PythonVictims {
    fn name(&self) -> &str {
        &self.name
    }

    fn learns_by(&self) -> LearnsBy {
        if self.methods.wants_scan { LearnsBy::Scans } else { LearnsBy::Faults }
    }

    fn create(&self, pages: usize) -> Box<dyn VictimPolicy> {
        let object = Python::attach(|py| match self.start(py, pages) {
            Ok(object) => Some(object),
            Err(cause) => {
                self.supervision.fail(policy_failed(py, &self.name, None, cause));
                None
            }
        });
        let object =
            RunObject { name: self.name.clone(), object, supervision: self.supervision.clone() };
        let in_dram = Fifo::new(vec![Node::default(); pages]);
        Box::new(RunVictims { object, methods: self.methods, pages, in_dram })
    }
}

/// The object of one run.
struct RunObject {
    name: String,
    /// Absent if it could not be started.
    object: Option<Py<PyAny>>,
    supervision: Supervision,
}

impl RunObject {
    /// Calls a method and hands its answer to `read`. If either raises, the simulation is about to
    /// stop, and nothing is called from then on.
    fn ask<T>(
        &self,
        method: &str,
        arguments: impl for<'py> PyCallArgs<'py>,
        read: impl FnOnce(Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let object = self.object.as_ref().filter(|_| !self.supervision.has_stopped())?;
        Python::attach(|py| {
            let answer = object.bind(py).call_method1(method, arguments).and_then(read);
            let failed = |cause| policy_failed(py, &self.name, None, cause);
            answer.map_err(|cause| self.supervision.fail(failed(cause))).ok()
        })
    }

    /// Calls a method that answers nothing.
    fn tell(&self, method: &str, arguments: impl for<'py> PyCallArgs<'py>) {
        self.ask(method, arguments, |_| Ok(()));
    }
}

/// The victim policy of one run.
struct RunVictims {
    object: RunObject,
    methods: Methods,
    pages: usize,
    /// The pages in DRAM, against which choices are checked. Once the simulation is about to stop,
    /// its victims bring the run to its end.
    in_dram: Fifo,
}

impl VictimPolicy for RunVictims {
    fn enter(&mut self, page: Page, why: Entry) {
        self.in_dram.enter(page, why);
        if self.methods.enter {
            let why = match why {
                Entry::New => "new",
                Entry::Returned => "returned",
                Entry::Kept => "kept",
            };
            self.object.tell("enter", (page, why));
        }
    }

    fn see(&mut self, page: Page, seen: Seen) {
        if self.methods.see {
            let seen = match seen {
                Seen::Idle => "idle",
                Seen::Read => "read",
                Seen::Written => "written",
            };
            self.object.tell("see", (page, seen));
        }
    }

    fn leave(&mut self, page: Page) {
        self.in_dram.leave(page);
        if self.methods.leave {
            self.object.tell("leave", (page,));
        }
    }

    fn victim(&mut self) -> Option<Page> {
        let (in_dram, pages) = (&mut self.in_dram, self.pages);
        let chosen = self.object.ask("victim", (), |answer| {
            let page: Page = answer.extract()?;
            let before = in_dram.resident();
            if (page as usize) < pages {
                in_dram.leave(page);
            }
            if in_dram.resident() == before {
                let reason = format!("victim() chose page {page}, which is not in DRAM");
                return Err(PyValueError::new_err(reason));
            }
            Ok(page)
        });
        chosen.or_else(|| self.in_dram.victim())
    }

    fn resident(&self) -> u32 {
        self.in_dram.resident()
    }

    fn wants_scan(&self) -> bool {
        self.object.ask("wants_scan", (), |answer| answer.extract()).unwrap_or(false)
    }

    fn scanned(&mut self) {
        if self.methods.scanned {
            self.object.tell("scanned", ());
        }
    }
}
