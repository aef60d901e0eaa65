//! A Python object as a victim policy of paging.

use std::fmt::{self, Debug};

use memweir_policy::paging::{Entry, Fifo, LearnsBy, Node, Page, Seen, VictimPolicy, VictimSource};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::object::{RunObject, copy};
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
        let copy = copy(self.object.bind(py))?;
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
        let object = RunObject::started(&self.name, &self.supervision, |py| self.start(py, pages));
        let in_dram = Fifo::new(vec![Node::default(); pages]);
        Box::new(RunVictims { object, methods: self.methods, pages, in_dram })
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

impl RunVictims {
    /// Calls a method that answers nothing.
    fn tell(&self, method: &str, arguments: impl for<'py> PyCallArgs<'py>) {
        self.object.ask(None, |object| object.call_method1(method, arguments).map(drop));
    }
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
            self.tell("enter", (page, why));
        }
    }

    fn see(&mut self, page: Page, seen: Seen) {
        if self.methods.see {
            let seen = match seen {
                Seen::Idle => "idle",
                Seen::Read => "read",
                Seen::Written => "written",
            };
            self.tell("see", (page, seen));
        }
    }

    fn leave(&mut self, page: Page) {
        self.in_dram.leave(page);
        if self.methods.leave {
            self.tell("leave", (page,));
        }
    }

    fn victim(&mut self) -> Option<Page> {
        let (in_dram, pages) = (&mut self.in_dram, self.pages);
        let chosen = self.object.ask(None, |object| {
            let page: Page = object.call_method0("victim")?.extract()?;
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
        let wants = self.object.ask(None, |object| object.call_method0("wants_scan")?.extract());
        wants.unwrap_or(false)
    }

    fn scanned(&mut self) {
        if self.methods.scanned {
            self.tell("scanned", ());
        }
    }
}
