//! Checks that a machine is possible.

use memweir_core::MAX_MEDIA;
use memweir_core::medium::MediumKind;

use super::{Machine, Memory};
use crate::service::{GrowthLine, ServiceCurve};

/// Refusal of an impossible machine, or of an impossible task on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct Impossible {
    /// The key at fault, such as `memories[1].capacity`.
    pub key: String,
    /// The reason.
    pub reason: String,
}

impl Impossible {
    pub(crate) fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), reason: reason.into() }
    }
}

/// Returns an error unless `holds`.
fn require(holds: bool, key: impl Into<String>, reason: &str) -> Result<(), Impossible> {
    if holds { Ok(()) } else { Err(Impossible::new(key, reason)) }
}

fn is_positive(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

impl Machine {
    /// Checks that the machine is possible.
    ///
    /// # Errors
    /// Names the first impossible value, in the order of the fields.
    pub fn check(&self) -> Result<(), Impossible> {
        require(!self.nodes.is_empty(), "nodes", "a machine has at least one node")?;
        for (place, node) in self.nodes.iter().enumerate() {
            require(node.cores > 0, format!("nodes[{place}].cores"), "a node has cores")?;
        }
        self.check_memories()?;
        require(is_positive(self.core_peak.0), "core_peak", "must be more than zero")?;
        let Some(joint) = self.interconnect else {
            let joined = self.nodes.len() == 1;
            return require(joined, "interconnect", "several nodes must be joined by something");
        };
        require(joint.latency.0 > 0, "interconnect.latency", "must be more than zero")?;
        require(is_positive(joint.capacity.0), "interconnect.capacity", "must be more than zero")
    }

    fn check_memories(&self) -> Result<(), Impossible> {
        let count = self.memories.len();
        require(
            (1..=MAX_MEDIA).contains(&count),
            "memories",
            &format!("a machine has from one to {MAX_MEDIA} memories, not {count}"),
        )?;
        for (place, memory) in self.memories.iter().enumerate() {
            let key = |field: &str| format!("memories[{place}].{field}");
            require(memory.node < self.nodes.len(), key("node"), "there is no such node")?;
            let twin = self.memories[..place].iter().any(|other| other.name == memory.name);
            require(!twin, key("name"), "another memory has this name")?;
            let latency = "must be more than zero";
            require(memory.read_latency.0 > 0, key("read_latency"), latency)?;
            require(memory.write_latency.0 > 0, key("write_latency"), latency)?;
            memory
                .service
                .check()
                .map_err(|error| Impossible::new(key(&error.key), error.reason))?;
        }
        let is_local_dram = |memory: &Memory| memory.kind == MediumKind::Dram && memory.node == 0;
        require(
            is_local_dram(&self.memories[0]),
            "memories[0]",
            "the first memory must be DRAM of the first node: the others are measured by it",
        )?;
        for node in 0..self.nodes.len() {
            let dram = |memory: &&Memory| memory.kind == MediumKind::Dram && memory.node == node;
            let has = self.memories.iter().any(|memory| dram(&memory));
            require(has, format!("nodes[{node}]"), "a node with cores has DRAM of its own")?;
        }
        Ok(())
    }
}

impl ServiceCurve {
    /// Checks that a memory can serve like this.
    ///
    /// # Errors
    /// Names the first impossible figure.
    pub fn check(&self) -> Result<(), Impossible> {
        let figures = [
            ("capacity", self.capacity.0),
            ("read_cost", self.read_cost),
            ("write_cost", self.write_cost),
        ];
        for (key, value) in figures {
            require(is_positive(value), key, "must be more than zero")?;
        }
        let mut share = None;
        for (place, line) in self.growth.lines.iter().enumerate() {
            let key = format!("growth[{place}]");
            let follows = (0.0..=1.0).contains(&line.read_share) && share < Some(line.read_share);
            require(follows, format!("{key}.read_share"), "must ascend from 0 to at most 1")?;
            share = Some(line.read_share);
            line.check(&key)?;
        }
        Ok(())
    }
}

impl GrowthLine {
    /// Checks that latency can grow like this; `key` is the line's place in the machine.
    fn check(&self, key: &str) -> Result<(), Impossible> {
        let mut last = (0.0, 1.0);
        for (place, point) in self.points.iter().enumerate() {
            let key = |field: &str| format!("{key}.points[{place}].{field}");
            let range = (last.0..=1.0).contains(&point.utilization);
            require(range, key("utilization"), "must ascend from 0 to at most 1")?;
            let grows = point.stretch >= last.1 && point.stretch.is_finite();
            require(grows, key("stretch"), "latency starts at 1 and does not shrink under load")?;
            let idle = point.utilization > 0.0 || point.stretch == 1.0;
            require(idle, key("stretch"), "is 1 at utilization 0, by definition")?;
            last = (point.utilization, point.stretch);
        }
        Ok(())
    }
}
