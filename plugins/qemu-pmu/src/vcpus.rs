//! What each vCPU counts for itself, and where its callbacks find that.

use std::ffi::c_uint;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

use memweir_core::softpmu::layout::REGIONS;

use crate::gate::Turn;
use crate::model::vcpu::VcpuCaches;
use crate::recorder::Recorder;

/// vCPUs that are told apart; further ones share, which spoils their counts a little.
pub(crate) const VCPUS: usize = 1 << 14;

/// What one thread of the program has counted and not published yet. Only that thread uses it.
#[repr(C)]
pub(crate) struct Vcpu {
    pub(crate) caches: VcpuCaches,
    pub(crate) instructions: u32,
    /// Instructions at which it publishes them and looks around.
    pub(crate) batch: u32,
    pub(crate) turn: Turn,
    /// Present where accesses to memory are recorded.
    pub(crate) recorder: Option<Recorder>,
    pub(crate) regions: [u32; REGIONS],
}

/// The state of each vCPU, null before its start.
pub(crate) static TABLE: [AtomicPtr<Vcpu>; VCPUS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; VCPUS];

/// The state of a vCPU.
///
/// # Safety
/// Called on the thread of that vCPU after its start callback, and not while another reference
/// to it is alive.
#[inline(always)]
pub(crate) unsafe fn vcpu<'a>(index: c_uint) -> &'a mut Vcpu {
    // SAFETY: the index is reduced to the table's size, and the start callback has filled the
    // entry before the vCPU executes anything.
    unsafe { &mut *TABLE.get_unchecked(index as usize % VCPUS).load(Relaxed) }
}
