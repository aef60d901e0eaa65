//! Counts of each vCPU, and the table in which its callbacks find them.

use std::ffi::c_uint;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

use memweir_abi::softpmu::layout::REGIONS;

use crate::gate::Turn;
use crate::model::vcpu::VcpuCaches;
use crate::recorder::Recorder;
use crate::together::Operand;

/// vCPUs with an entry of their own; further ones share entries, which spoils their counts a
/// little.
pub(crate) const VCPUS: usize = 1 << 14;

/// Unpublished counts of one thread of the program. Only that thread uses them.
#[repr(C)]
pub(crate) struct Vcpu {
    pub(crate) caches: VcpuCaches,
    pub(crate) instructions: u32,
    /// Instructions at which the vCPU publishes them and checks its turn.
    pub(crate) batch: u32,
    pub(crate) turn: Turn,
    /// True in an exec that no other emulator has taken over: it fails, or the process becomes a
    /// native program, which counts as uncounted already.
    pub(crate) tries_native: bool,
    /// Present if accesses to memory are recorded.
    pub(crate) recorder: Option<Recorder>,
    /// The vector operand that is being accessed.
    pub(crate) operand: Operand,
    pub(crate) regions: [u32; REGIONS],
}

/// The state of each vCPU, null before its start.
pub(crate) static TABLE: [AtomicPtr<Vcpu>; VCPUS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; VCPUS];

/// Returns the state of a vCPU.
///
/// # Safety
/// Must be called on the thread of that vCPU after its start callback, and not while another
/// reference to the state is alive.
#[inline(always)]
pub(crate) unsafe fn vcpu<'a>(index: c_uint) -> &'a mut Vcpu {
    // SAFETY: the index is reduced to the table's size, and the start callback has filled the
    // entry before the vCPU executes anything.
    unsafe { &mut *TABLE.get_unchecked(index as usize % VCPUS).load(Relaxed) }
}
