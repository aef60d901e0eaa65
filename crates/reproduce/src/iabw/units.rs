//! The paper's unit of bandwidth: transactions of 128 bytes per microsecond.

use memweir_core::BytesPerSec;

/// Bytes per second of one transaction per microsecond.
pub(super) const TRANSACTION: f64 = 128e6;

/// Its name in reports.
pub(super) const UNIT: &str = "trans./us";

/// A rate in the paper's unit.
pub(super) fn btr(rate: BytesPerSec) -> f64 {
    rate.0 / TRANSACTION
}

/// A rate given in the paper's unit.
pub(super) fn rate(btr: f64) -> BytesPerSec {
    BytesPerSec(btr * TRANSACTION)
}
