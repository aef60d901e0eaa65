//! The paper's unit of bandwidth: transactions of 128 bytes per microsecond.

use memweir_core::BytesPerSec;
use memweir_flow::Machine;

/// Bytes per second of one transaction per microsecond.
pub(super) const TRANSACTION: f64 = 128e6;

/// Its name in reports.
pub(super) const UNIT: &str = "trans./us";

/// A rate in the paper's unit.
pub(super) fn btr(rate: BytesPerSec) -> f64 {
    rate.0 / TRANSACTION
}

/// The peak bandwidth of a machine's first memory in the paper's unit.
pub(super) fn peak(machine: &Machine) -> f64 {
    btr(machine.memories[0].service.capacity)
}

/// A rate given in the paper's unit.
pub(super) fn rate(btr: f64) -> BytesPerSec {
    BytesPerSec(btr * TRANSACTION)
}
