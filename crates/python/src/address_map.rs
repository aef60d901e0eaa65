//! Address maps and the page colors that they allow.

use std::hash::{DefaultHasher, Hash, Hasher};

use memweir_core::PhysAddr;
use memweir_core::address_map::{self, Coloring, Role};
use memweir_core::input::Refusal;
use memweir_core::names::Named;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::refused;

/// The functions by which a memory controller chooses channel, rank, bank, row and column.
#[pyclass(frozen, module = "memweir.maps")]
pub(crate) struct AddressMap(address_map::AddressMap);

#[pymethods]
impl AddressMap {
    /// Makes a map anew from the arguments of which [`Self::__getnewargs__`] tells: copies, and
    /// maps in other processes.
    #[new]
    fn new(py: Python<'_>, text: &str, name: &str) -> PyResult<Self> {
        Self::parse(py, text, name)
    }

    fn __getnewargs__(&self) -> (String, String) {
        (self.0.to_toml(), self.0.name.clone())
    }

    /// Reads a map from the text of a map file; `name` is its name in refusals.
    #[staticmethod]
    fn parse(py: Python<'_>, text: &str, name: &str) -> PyResult<Self> {
        address_map::AddressMap::parse(name, text).map(Self).map_err(|error| refused(py, &error))
    }

    /// Name of the map.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Number of address bits.
    #[getter]
    fn bits(&self) -> u32 {
        self.0.bits
    }

    /// The bank functions: role and address bits.
    #[getter]
    fn functions(&self) -> Vec<(&'static str, Vec<u32>)> {
        let functions = self.0.functions.iter();
        // Bytes would become one value of Python, and not a list.
        functions.map(|f| (f.role.name(), f.function.bits().map(u32::from).collect())).collect()
    }

    /// Returns the number of colors that pages of `page_bytes` can have.
    ///
    /// # Errors
    /// `ValueError` if that is not the size of a page.
    #[pyo3(signature = (page_bytes = 4096))]
    fn colors(&self, page_bytes: u64) -> PyResult<u32> {
        Ok(self.coloring(page_bytes)?.colors())
    }

    /// Returns the color of the page at each of these physical addresses.
    ///
    /// # Errors
    /// `ValueError` if `page_bytes` is not the size of a page, or if the map says nothing of an
    /// address.
    #[pyo3(signature = (addresses, page_bytes = 4096))]
    fn color_of(&self, addresses: Vec<u64>, page_bytes: u64) -> PyResult<Vec<u32>> {
        let coloring = self.coloring(page_bytes)?;
        let color = |address| Ok(coloring.color_of(self.covered(address)?).0);
        addresses.into_iter().map(color).collect()
    }

    /// Returns the place of each of these physical addresses: a value for each role that the map
    /// knows, `set`, and `row` and `column` where it knows them.
    ///
    /// # Errors
    /// `ValueError` if the map says nothing of an address.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        addresses: Vec<u64>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        addresses.into_iter().map(|address| self.place(py, address)).collect()
    }

    /// Returns true for a map of the same name, source and functions.
    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.to_toml().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        format!("AddressMap({:?}, {} bank functions)", self.0.name, self.0.functions.len())
    }
}

impl AddressMap {
    fn coloring(&self, page_bytes: u64) -> PyResult<Coloring> {
        if !page_bytes.is_power_of_two() || !(4096..=1 << 30).contains(&page_bytes) {
            let valid = "powers of 2 from 4096 to 1073741824";
            let reason = format!("a page has no {page_bytes} bytes; valid: {valid}");
            return Err(PyValueError::new_err(reason));
        }
        Ok(self.0.coloring(page_bytes.trailing_zeros()))
    }

    fn covered(&self, address: u64) -> PyResult<PhysAddr> {
        let at = PhysAddr(address);
        let refuse = |refusal: Refusal| PyValueError::new_err(refusal.reason);
        self.0.covers(at).map(|()| at).map_err(refuse)
    }

    fn place<'py>(&self, py: Python<'py>, address: u64) -> PyResult<Bound<'py, PyDict>> {
        let (place, at) = (PyDict::new(py), self.covered(address)?);
        let location = self.0.decode(at);
        place.set_item("address", address)?;
        for &role in Role::ALL {
            if role != Role::Set && self.0.functions.iter().any(|f| f.role == role) {
                place.set_item(role.name(), self.0.value_of(role, at))?;
            }
        }
        place.set_item("set", location.set)?;
        if !self.0.row.is_empty() {
            place.set_item("row", location.row)?;
        }
        if !self.0.column.is_empty() {
            place.set_item("column", location.column)?;
        }
        Ok(place)
    }
}
