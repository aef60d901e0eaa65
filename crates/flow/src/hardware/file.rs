//! Machine files: their format and its checks. `docs/sim.md` describes the format.

use std::fs;
use std::path::Path;

use memweir_core::input::{DataFile, InputError, Section, Value};
use memweir_core::medium::MediumKind;
use memweir_core::medium::data::{MEDIA, MediumData, cost, latency, source};
use memweir_core::{MAX_MEDIA, Picos};
use memweir_dram::curve::Fit;

use super::{DEFAULT_CORE_INSTRUCTIONS, Hardware};
use crate::machine::{Interconnect, Machine, Memory, Node};
use crate::service::{Growth, GrowthPoint, ServiceCurve};

/// Keys of a machine file.
const MACHINE_KEYS: [&str; 9] = [
    "name",
    "source",
    "core_peak",
    "core_instructions",
    "nodes",
    "memories",
    "interconnect",
    "core",
    "caches",
];

/// Keys of one memory.
const MEMORY_KEYS: [&str; 11] = [
    "name",
    "medium",
    "node",
    "capacity",
    "curve",
    "read_latency_ns",
    "write_latency_ns",
    "read_cost",
    "write_cost",
    "growth",
    "source",
];

/// More cores than any machine has on a node.
const MOST_CORES: u32 = 65_536;
/// More nodes than any machine has.
const MOST_NODES: usize = 1024;

/// Reads the outermost table of a machine file in `directory`, or one that takes its place.
pub(super) fn parse(mut root: Section<'_>, directory: &Path) -> Result<Hardware, InputError> {
    root.only(&MACHINE_KEYS)?;
    let source = source(&mut root)?;
    let nodes = nodes(root.require("nodes")?)?;
    let mut reader =
        MemoryReader { directory, nodes: nodes.len(), source: &source, memories: Vec::new() };
    let list = root.require("memories")?;
    let none = list.refuse("a machine has at least one memory");
    let too_many = list.refuse(format!("a machine has at most {MAX_MEDIA} memories"));
    for section in list.sections()? {
        reader.memory(section)?;
    }
    let memories = reader.memories;
    if memories.is_empty() {
        return Err(none);
    }
    if memories.len() > MAX_MEDIA {
        return Err(too_many);
    }
    let interconnect = root.map("interconnect", |v| interconnect(v.section()?, nodes.len()))?;
    if interconnect.is_none() && nodes.len() > 1 {
        return Err(root
            .refuse(format!("nothing joins the {} nodes", nodes.len()))
            .help("add an `[interconnect]` table with `latency_ns` and `capacity`"));
    }
    let core_instructions = root
        .map("core_instructions", |v| v.number_in(1e3..=1e12, "rate of instructions per second"))?;
    let core = root.map("core", |v| super::core::core(v.section()?))?.unwrap_or_default();
    let caches = root.map("caches", |v| super::core::caches(v.section()?))?;
    let machine = Machine {
        name: root.require("name")?.string()?.to_owned(),
        nodes,
        memories,
        core_peak: root.require("core_peak")?.capacity()?,
        interconnect,
    };
    // This checks conditions on several keys, such as a node without DRAM.
    machine.check().map_err(|impossible| root.refuse(impossible.reason).key(impossible.key))?;
    Ok(Hardware {
        core,
        caches: caches.unwrap_or_else(super::default_caches),
        machine,
        core_instructions: core_instructions.unwrap_or(DEFAULT_CORE_INSTRUCTIONS),
        source,
    })
}

fn nodes(list: Value<'_>) -> Result<Vec<Node>, InputError> {
    let wrong = list.refuse(format!("a machine has from 1 to {MOST_NODES} nodes"));
    let sections = list.sections()?;
    if sections.is_empty() || sections.len() > MOST_NODES {
        return Err(wrong);
    }
    let node = |mut section: Section<'_>| {
        section.only(&["cores"])?;
        Ok(Node { cores: section.require("cores")?.whole_in(1..=MOST_CORES)? })
    };
    sections.into_iter().map(node).collect()
}

fn interconnect(mut section: Section<'_>, nodes: usize) -> Result<Interconnect, InputError> {
    section.only(&["latency_ns", "capacity"])?;
    if nodes < 2 {
        return Err(section.refuse("a machine of one node has nothing to join"));
    }
    Ok(Interconnect {
        latency: latency(&section.require("latency_ns")?)?,
        capacity: section.require("capacity")?.capacity()?,
    })
}

/// Reads the memories of one machine.
struct MemoryReader<'a> {
    directory: &'a Path,
    nodes: usize,
    /// Source of the whole file, for memories without one.
    source: &'a str,
    memories: Vec<Memory>,
}

impl MemoryReader<'_> {
    fn memory(&mut self, mut section: Section<'_>) -> Result<(), InputError> {
        section.only(&MEMORY_KEYS)?;
        let medium_value = section.require("medium")?;
        let medium = self.medium(&medium_value)?;
        let node = section.map("node", |v| self.node(&v))?.unwrap_or(0);
        if self.memories.is_empty() && (medium.kind, node) != (MediumKind::Dram, 0) {
            return Err(medium_value
                .refuse("the first memory must be DRAM of node 0: the others are measured by it"));
        }
        let (read_latency, write_latency) = self.latencies(&mut section, &medium)?;
        let name = self.name(&mut section, &medium)?;
        self.memories.push(Memory {
            name,
            kind: medium.kind,
            node,
            read_latency,
            write_latency,
            service: self.service(&mut section, &medium)?,
        });
        Ok(())
    }

    fn medium(&self, value: &Value<'_>) -> Result<MediumData, InputError> {
        let found =
            DataFile::find("medium", value.string()?, &MEDIA, self.directory, fs::read_to_string);
        let file = value.checked(found)?;
        MediumData::parse(&file.name, &file.text)
    }

    fn node(&self, value: &Value<'_>) -> Result<usize, InputError> {
        let node = value.integer()?;
        usize::try_from(node).ok().filter(|node| *node < self.nodes).ok_or_else(|| {
            value
                .refuse(format!("there is no node {node}"))
                .help(format!("nodes count from 0 to {}", self.nodes - 1))
        })
    }

    /// Returns the read and write latencies of the file, else those of the medium beside this
    /// machine's DRAM.
    fn latencies(
        &self,
        section: &mut Section<'_>,
        medium: &MediumData,
    ) -> Result<(Picos, Picos), InputError> {
        let dram = self.memories.first().map_or(medium.dram_latency, |first| first.read_latency);
        let (read, write) = medium.latencies_beside(dram);
        Ok((
            section.map("read_latency_ns", |v| latency(&v))?.unwrap_or(read),
            section.map("write_latency_ns", |v| latency(&v))?.unwrap_or(write),
        ))
    }

    fn name(&self, section: &mut Section<'_>, medium: &MediumData) -> Result<String, InputError> {
        let given = section.take("name");
        let name = match &given {
            Some(value) => value.string()?.to_owned(),
            None => medium.name.clone(),
        };
        let twice = self.memories.iter().any(|memory| memory.name == name);
        let refusal = |reason: String| match &given {
            Some(value) => value.refuse(reason),
            None => section.refuse(reason),
        };
        if twice {
            return Err(refusal(format!("two memories are called `{name}`")));
        }
        if name.trim().is_empty() {
            return Err(refusal("is empty".to_owned()));
        }
        Ok(name)
    }

    fn service(
        &self,
        section: &mut Section<'_>,
        medium: &MediumData,
    ) -> Result<ServiceCurve, InputError> {
        let given = section.map("source", |v| v.string().map(str::to_owned))?;
        let base = match section.map("curve", |v| self.measured(&v))? {
            Some(measured) => measured,
            None => ServiceCurve {
                capacity: section.require("capacity")?.capacity()?,
                read_cost: medium.read_cost,
                write_cost: medium.write_cost,
                growth: Growth::default(),
                source: format!("{}; {}", self.source, medium.source),
            },
        };
        Ok(ServiceCurve {
            capacity: section.map("capacity", |v| v.capacity())?.unwrap_or(base.capacity),
            read_cost: section.map("read_cost", |v| cost(&v))?.unwrap_or(base.read_cost),
            write_cost: section.map("write_cost", |v| cost(&v))?.unwrap_or(base.write_cost),
            growth: section.map("growth", |v| growth(&v))?.map_or(base.growth, Growth::from),
            source: given.unwrap_or(base.source),
        })
    }

    /// Reads a curve that `memweir dram curve` has measured and written into a file.
    fn measured(&self, value: &Value<'_>) -> Result<ServiceCurve, InputError> {
        let path = self.directory.join(value.string()?);
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path)
            .map_err(|error| value.refuse(format!("{name} cannot be read: {error}")))?;
        Ok(ServiceCurve::measured(&name, Fit::parse(&name, &text)?))
    }
}

/// Reads pairs of utilization and stretch, both ascending.
fn growth(value: &Value<'_>) -> Result<Vec<GrowthPoint>, InputError> {
    const WHAT: &str = "an array of pairs [utilization, stretch]";
    let mut points: Vec<GrowthPoint> = Vec::new();
    for pair in value.array(WHAT)? {
        let [utilization, stretch] = <[Value<'_>; 2]>::try_from(pair.array(WHAT)?)
            .map_err(|_| pair.refuse("must be a pair [utilization, stretch]"))?;
        let point = GrowthPoint {
            utilization: utilization.number_in(0.0..=1.0, "share of the memory's time")?,
            stretch: stretch.number_in(1.0..=1e4, "stretch of the latency")?,
        };
        if point.utilization == 0.0 && point.stretch > 1.0 {
            return Err(stretch.refuse("is 1 at utilization 0, by definition"));
        }
        if points.last().is_some_and(|last| {
            last.utilization >= point.utilization || last.stretch > point.stretch
        }) {
            return Err(pair
                .refuse("does not follow the point before it")
                .help("utilization rises from pair to pair, and the stretch does not fall"));
        }
        points.push(point);
    }
    Ok(points)
}
