//! The native module of the Python package `memweir`: simulations within the interpreter's
//! process, and policies that are written in Python.
//!
//! The functions take a scenario's text and return reports as JSON, which the Python side
//! (`python/src/memweir`) turns into results. Simulations run on threads of their own without the
//! interpreter's lock; the calling thread shows progress and looks for signals meanwhile.
//!
//! | module | contents |
//! |---|---|
//! | `scenario` | a scenario with the values that replace its own |
//! | `simulate` | the simulations |
//! | `sweep` | sweeps point by point, and their directory |
//! | `supervise` | progress, interruption and failures of a simulation |
//! | `object` | a Python object in one run |
//! | `policy` | a Python object as a policy or a color assignment |
//! | `served` | a Python object as a policy of the command |
//! | `victims` | a Python object as a victim policy of paging |
//! | `view` | the views that Python policies decide by |
//! | `address_map` | address maps and page colors |
//! | `errors` | refusals as Python exceptions |

#![forbid(unsafe_code)]

mod address_map;
mod errors;
mod object;
mod policy;
mod scenario;
mod served;
mod simulate;
mod supervise;
mod sweep;
mod victims;
mod view;

use pyo3::prelude::*;

/// The native part of `memweir`; its functions are for the package's own use.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::address_map::AddressMap;
    #[pymodule_export]
    use crate::scenario::{toml_document, toml_value};
    #[pymodule_export]
    use crate::served::ServedPolicy;
    #[pymodule_export]
    use crate::simulate::sim;
    #[pymodule_export]
    use crate::supervise::StopRequest;
    #[pymodule_export]
    use crate::sweep::{begin, points, reports, run_points};
    #[pymodule_export]
    use crate::view::{Candidate, ColorSupply, Program, Setup, View};

    use pyo3::prelude::*;

    /// Adds the constants of the module.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
