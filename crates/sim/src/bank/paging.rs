//! What the machine asks of an operating system: a frame for every page, when it is first touched.
//!
//! The machine keeps the page tables; who owns which frames, and why, is decided behind [`Os`].

use memweir_core::input::Refusal;
use memweir_core::{PhysAddr, Picos};

/// A process, counted from zero over the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process(pub u16);

/// A thread, counted from zero within its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thread(pub u16);

/// The number of a virtual page: its address over the page size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualPage(pub u64);

/// Whom the data of a page is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageKind {
    /// For the thread that touches it first.
    Private,
    /// For all threads of the process.
    Shared,
}

/// What came of the first touch of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first byte of the frame that the page is in from now on.
    pub frame: PhysAddr,
    /// How long the thread stands still for it.
    pub cost: Picos,
}

/// The operating system of a machine.
pub trait Os {
    /// Bits of the offset within a page: 12 for pages of 4 KiB.
    fn page_bits(&self) -> u32 {
        12
    }

    /// Gives a frame to a page that is touched for the first time. The machine asks once per page
    /// and process.
    ///
    /// # Errors
    /// If there is no frame that the process may have.
    fn touch(
        &mut self,
        process: Process,
        thread: Thread,
        page: VirtualPage,
        kind: PageKind,
    ) -> Result<Fault, Refusal>;
}
