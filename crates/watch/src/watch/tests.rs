//! A watch of a tree of ordinary files, with a meter that does as it is told.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use memweir_core::Lines;
use memweir_linux::Capabilities;

use super::*;

/// A meter with room for `room` groups whose counts tests set.
#[derive(Clone, Default)]
struct FakeMeter(Arc<Mutex<Fake>>);

#[derive(Default)]
struct Fake {
    room: usize,
    counts: BTreeMap<GroupId, Counts>,
    broken: bool,
}

impl GroupMeter for FakeMeter {
    fn kind(&self) -> MeterKind {
        MeterKind::Perf
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { writes: true, ..Capabilities::default() }
    }

    fn attach(&mut self, group: GroupId, _: &Path) -> Result<(), MeterError> {
        let mut fake = self.0.lock().unwrap();
        if fake.counts.len() == fake.room {
            return Err(MeterError { reason: Reason::Limit, text: "no room".to_owned() });
        }
        fake.counts.insert(group, Counts::default());
        Ok(())
    }

    fn read(&mut self, group: GroupId) -> Result<GroupReading, MeterError> {
        let fake = self.0.lock().unwrap();
        if fake.broken {
            return Err(MeterError { reason: Reason::Other, text: "broken".to_owned() });
        }
        Ok(GroupReading { counts: fake.counts[&group], domains: Vec::new() })
    }

    fn detach(&mut self, group: GroupId) {
        self.0.lock().unwrap().counts.remove(&group);
    }
}

struct World {
    top: tempfile::TempDir,
    meter: FakeMeter,
}

impl World {
    fn new(room: usize) -> Self {
        let meter = FakeMeter::default();
        meter.0.lock().unwrap().room = room;
        Self { top: tempfile::tempdir().unwrap(), meter }
    }

    fn group(&self, path: &str, micros: u64, events: &str) {
        let directory = self.top.path().join(path);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("cpu.stat"), format!("usage_usec {micros}\n")).unwrap();
        fs::write(directory.join("cgroup.events"), events).unwrap();
    }

    fn end(&self, path: &str) {
        fs::remove_dir_all(self.top.path().join(path)).unwrap();
    }

    fn count(&self, path: &str, reads: u64, writes: u64) {
        let id = self.tree().groups().unwrap().into_iter().find(|g| g.path == Path::new(path));
        let counts = Counts::new(0, Lines(reads), Lines(writes));
        self.meter.0.lock().unwrap().counts.insert(id.unwrap().id, counts);
    }

    fn tree(&self) -> CgroupTree {
        CgroupTree::at(self.top.path())
    }

    fn watch(&self) -> Watch {
        Watch::new(self.tree(), Selection::default(), Some(Box::new(self.meter.clone())))
    }
}

const RUNNING: &str = "populated 1\nfrozen 0\n";
const FROZEN: &str = "populated 1\nfrozen 1\n";

fn seconds(seconds: u64) -> Nanos {
    Nanos::from_millis(1000 * seconds)
}

#[test]
fn a_row_has_what_happened_since_the_last_tick() {
    let world = World::new(9);
    world.group("a.service", 1_000_000, RUNNING);
    let mut watch = world.watch();
    assert_eq!(watch.tick(Nanos::ZERO).unwrap(), []);
    world.group("a.service", 1_500_000, FROZEN);
    world.count("a.service", 1000, 250);
    let rows = watch.tick(seconds(2)).unwrap();
    let row = &rows[0];
    assert_eq!((row.name.as_str(), row.state), ("a.service", State::Blocked));
    assert_eq!((row.t_s, row.span_s), (2.0, 2.0));
    assert_eq!((row.cpu_s, row.cpu_total_s), (Some(0.5), Some(1.5)));
    assert_eq!((row.read_bytes, row.write_bytes), (Some(64_000), Some(16_000)));
    assert_eq!((row.bandwidth, row.instructions), (Some(40_000.0), None));
    let rows = watch.tick(seconds(3)).unwrap();
    assert_eq!((rows[0].cpu_s, rows[0].bandwidth), (Some(0.0), Some(0.0)));
}

#[test]
fn a_frozen_group_without_processes_is_empty() {
    let world = World::new(9);
    world.group("a.service", 0, FROZEN);
    let mut watch = world.watch();
    watch.tick(Nanos::ZERO).unwrap();
    world.group("a.service", 0, "populated 0\nfrozen 1\n");
    assert_eq!(watch.tick(seconds(1)).unwrap()[0].state, State::Empty);
}

#[test]
fn subjects_come_and_go_and_the_last_counts_are_kept() {
    let world = World::new(9);
    let mut watch = world.watch();
    watch.tick(Nanos::ZERO).unwrap();
    world.group("b.scope", 0, RUNNING);
    assert_eq!(watch.tick(seconds(1)).unwrap(), []);
    assert_eq!(watch.subjects(), 1);
    world.count("b.scope", 100, 0);
    world.end("b.scope");
    let rows = watch.tick(seconds(2)).unwrap();
    assert_eq!((rows[0].state, rows[0].cpu_s), (State::Ended, None));
    assert_eq!(rows[0].bandwidth, Some(6400.0));
    assert_eq!((watch.subjects(), watch.tick(seconds(3)).unwrap().len()), (0, 0));
    assert!(world.meter.0.lock().unwrap().counts.is_empty(), "the meter is free again");
}

#[test]
fn a_group_made_again_under_its_name_starts_from_zero() {
    let world = World::new(9);
    world.group("a.service", 5_000_000, RUNNING);
    let mut watch = world.watch();
    watch.tick(Nanos::ZERO).unwrap();
    // A new inode for certain: the file system may reuse that of a directory that is gone.
    fs::rename(world.top.path().join("a.service"), world.top.path().join("old.slice")).unwrap();
    world.group("a.service", 10, RUNNING);
    let rows = watch.tick(seconds(1)).unwrap();
    assert_eq!((rows.len(), rows[0].state), (1, State::Ended));
    world.group("a.service", 1_000_010, RUNNING);
    let rows = watch.tick(seconds(2)).unwrap();
    assert_eq!((rows[0].state, rows[0].cpu_s), (State::Running, Some(1.0)));
}

#[test]
fn room_in_the_meter_goes_to_the_busiest_and_is_given_on() {
    let world = World::new(1);
    world.group("a.service", 0, RUNNING);
    let mut watch = world.watch();
    watch.tick(Nanos::ZERO).unwrap();
    world.group("b.service", 0, RUNNING);
    world.group("c.service", 0, RUNNING);
    watch.tick(seconds(1)).unwrap();
    let failures = watch.take_failures();
    assert_eq!(failures.len(), 1, "the first refusal ends the round");
    assert_eq!(failures[0].error.reason, Reason::Limit);
    world.group("c.service", 900_000, RUNNING);
    let rows = watch.tick(seconds(2)).unwrap();
    let bandwidths: Vec<_> = rows.iter().map(|row| row.bandwidth).collect();
    assert_eq!(bandwidths, [Some(0.0), None, None]);
    assert_eq!(rows[2].cpu_s, Some(0.9));
    world.end("a.service");
    world.group("c.service", 1_800_000, RUNNING);
    watch.tick(seconds(3)).unwrap();
    world.count("c.service", 10, 0);
    let rows = watch.tick(seconds(4)).unwrap();
    let bandwidths: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.bandwidth)).collect();
    assert_eq!(bandwidths, [("b.service", None), ("c.service", Some(640.0))]);
}

#[test]
fn a_meter_that_fails_leaves_cpu_time_and_a_gap() {
    let world = World::new(9);
    world.group("a.service", 0, RUNNING);
    let mut watch = world.watch();
    watch.tick(Nanos::ZERO).unwrap();
    world.meter.0.lock().unwrap().broken = true;
    world.group("a.service", 100_000, RUNNING);
    let rows = watch.tick(seconds(1)).unwrap();
    assert_eq!((rows[0].cpu_s, rows[0].bandwidth, rows[0].total), (Some(0.1), None, None));
    assert_eq!(watch.take_failures().len(), 1);
    world.meter.0.lock().unwrap().broken = false;
    world.count("a.service", 10, 0);
    let row = &watch.tick(seconds(2)).unwrap()[0];
    assert_eq!(row.read_bytes, None, "these belong to two intervals");
    assert_eq!(row.total.map(|total| total.reads), Some(Lines(10)));
    world.count("a.service", 15, 0);
    assert_eq!(watch.tick(seconds(3)).unwrap()[0].bandwidth, Some(320.0));
    assert!(watch.take_failures().is_empty());
}

#[test]
fn without_a_meter_there_is_cpu_time_alone() {
    let world = World::new(0);
    world.group("a.service", 0, "populated 0\n");
    let mut watch = Watch::new(world.tree(), Selection::default(), None);
    watch.tick(Nanos::ZERO).unwrap();
    let rows = watch.tick(seconds(1)).unwrap();
    assert_eq!((rows[0].cpu_s, rows[0].read_bytes), (Some(0.0), None));
    assert_eq!(rows[0].state, State::Empty);
    fs::remove_dir_all(world.top.path()).unwrap();
    assert!(watch.tick(seconds(2)).is_err());
    fs::create_dir(world.top.path()).unwrap();
}
