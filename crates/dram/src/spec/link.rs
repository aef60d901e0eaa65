//! Link between a host and a memory that is not on its own pins (CXL).

use memweir_core::{BytesPerSec, Picos};
use serde::Serialize;

/// A link with a fixed latency and a bandwidth, the same each way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Link {
    /// Latency from one end to the other.
    #[serde(rename = "latency_ps")]
    pub latency: Picos,
    /// Payload bandwidth in each direction: lines written to the memory, lines read back.
    pub bandwidth: BytesPerSec,
}
