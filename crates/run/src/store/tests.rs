use std::collections::BTreeMap;
use std::ffi::OsString;

use memweir_core::{Counts, Lines, Media};

use super::*;

fn recording(command: &[&str], reads: u64) -> Recording {
    let counts = Counts::new(10 * reads, Lines(reads), Lines(reads / 2));
    Recording {
        command: command.iter().map(|&argument| argument.to_owned()).collect(),
        meter: "software".to_owned(),
        machine: "a machine".to_owned(),
        date: Timestamp::from_second(1_700_000_000).unwrap(),
        media: Media::dram_only(),
        profile: Profile {
            interval: Nanos::MILLI,
            intervals: vec![counts; 5],
            cpu_time: Nanos::from_millis(5),
            wall_time: Nanos::from_millis(6),
        },
    }
}

/// A directory with a store and a program of its own.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("program"), "version one").unwrap();
        Self { dir }
    }

    fn store(&self) -> Store {
        Store::open(Some(&self.dir.path().join("deep/profiles.sqlite"))).unwrap()
    }

    fn invocation(&self, arguments: &[&str]) -> Invocation {
        let program = self.dir.path().join("program");
        let argv = [program.as_os_str().to_owned()]
            .into_iter()
            .chain(arguments.iter().map(OsString::from))
            .collect();
        let (directory, env) = (self.dir.path().to_owned(), BTreeMap::new());
        Invocation { program, argv, directory, env, stdin: None }
    }

    fn key(&self, arguments: &[&str]) -> ProgramKey {
        ProgramKey::of(&self.invocation(arguments)).unwrap()
    }
}

#[test]
fn what_was_put_is_what_is_got_after_reopening() {
    let bench = Bench::new();
    let (key, put) = (bench.key(&["-9", "x"]), recording(&["program", "-9", "x"], 100));
    bench.store().put(&key, &put, &Provenance::default()).unwrap();
    let got = bench.store().get(&key).unwrap().unwrap();
    let expected = StoredProfile {
        key: key.as_str().to_owned(),
        recording: put,
        program: ProgramState::Unchanged,
        inputs: InputState::Unchanged,
        exit_code: Some(0),
    };
    assert_eq!(got, expected);
    assert_eq!(bench.store().get(&bench.key(&["-9", "y"])).unwrap(), None);
}

#[test]
fn an_invocation_is_told_apart_by_everything_that_changes_behavior() {
    let bench = Bench::new();
    let base = bench.invocation(&["a", "bc"]);
    let key = |change: &dyn Fn(&mut Invocation)| {
        let mut invocation = base.clone();
        change(&mut invocation);
        ProgramKey::of(&invocation).unwrap()
    };
    let same = key(&|_| ());
    fs::write(bench.dir.path().join("input"), "x").unwrap();
    std::os::unix::fs::symlink("program", bench.dir.path().join("link")).unwrap();
    assert_ne!(same, key(&|i| i.argv[1] = "ab".into()));
    assert_ne!(same, key(&|i| i.argv = vec!["program".into(), "ab".into(), "c".into()]));
    assert_ne!(same, key(&|i| i.directory = "/".into()));
    assert_ne!(same, key(&|i| i.stdin = Some(bench.dir.path().join("input"))));
    assert_ne!(same, key(&|i| i.argv[0] = "other-applet".into()));
    // Spellings of one and the same thing.
    assert_eq!(same, key(&|i| i.argv[0] = "program".into()));
    assert_eq!(same, key(&|i| i.program = bench.dir.path().join("link")));
    assert_eq!(same, key(&|i| i.directory = bench.dir.path().join(".")));
}

#[test]
fn a_replaced_program_is_noticed_and_a_new_profile_replaces_the_old() {
    let bench = Bench::new();
    let (store, key) = (bench.store(), bench.key(&[]));
    store.put(&key, &recording(&["program"], 1), &Provenance::default()).unwrap();
    fs::write(bench.dir.path().join("program"), "version two, longer").unwrap();
    assert_eq!(store.get(&key).unwrap().unwrap().program, ProgramState::Changed);
    assert_eq!(store.list().unwrap()[0].program, ProgramState::Changed);
    // The profile of a run that began before says nothing of the new program.
    store.put(&key, &recording(&["program"], 3), &Provenance::default()).unwrap();
    assert_eq!(store.get(&key).unwrap().unwrap().program, ProgramState::Changed);
    store.put(&bench.key(&[]), &recording(&["program"], 2), &Provenance::default()).unwrap();
    let got = store.get(&key).unwrap().unwrap();
    assert_eq!(got.program, ProgramState::Unchanged);
    assert_eq!(got.recording.profile.total().reads, Lines(10));
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn an_input_whose_name_is_not_utf_8_is_not_taken_for_another() {
    let bench = Bench::new();
    let store = bench.store();
    let path = |name: &OsStr| bench.dir.path().join(name);
    let (name, similar) = (OsStr::from_bytes(b"in\xff"), OsStr::new("in\u{fffd}"));
    fs::write(path(name), "old").unwrap();
    let mut invocation = bench.invocation(&[]);
    invocation.argv.push(name.to_owned());
    let key = ProgramKey::of(&invocation).unwrap();
    let provenance = Provenance { exit_code: 0, inputs: inputs(&invocation) };
    store.put(&key, &recording(&["program"], 1), &provenance).unwrap();
    fs::write(path(similar), "another file").unwrap();
    let state = || store.get(&key).unwrap().unwrap().inputs;
    assert_eq!(state(), InputState::Unchanged);
    fs::write(path(name), "new data").unwrap();
    assert!(matches!(state(), InputState::Changed(_)));
    let stored = serde_json::to_string(&key).unwrap();
    assert_eq!(serde_json::from_str::<ProgramKey>(&stored).unwrap(), key);
}

#[test]
fn new_content_of_an_input_is_noticed_and_other_files_are_not() {
    let bench = Bench::new();
    let store = bench.store();
    let file = |name: &str, text: &str| fs::write(bench.dir.path().join(name), text).unwrap();
    file("input", "old");
    let invocation = bench.invocation(&["input", "-o", "output"]);
    let key = ProgramKey::of(&invocation).unwrap();
    let provenance = Provenance { exit_code: 2, inputs: inputs(&invocation) };
    store.put(&key, &recording(&["program", "input"], 1), &provenance).unwrap();
    // The output did not exist when the program was profiled.
    file("output", "made since");
    let got = store.get(&key).unwrap().unwrap();
    assert_eq!((got.inputs, got.exit_code), (InputState::Unchanged, Some(2)));
    file("input", "new data");
    let input = bench.dir.path().join("input").display().to_string();
    let changed = InputState::Changed(vec![input]);
    assert_eq!(store.get(&key).unwrap().unwrap().inputs, changed);
    assert_eq!(store.list().unwrap()[0].inputs, changed);
}

#[test]
fn entries_are_listed_shown_and_forgotten_by_the_beginning_of_their_key() {
    let bench = Bench::new();
    let store = bench.store();
    let (one, two) = (bench.key(&["1"]), bench.key(&["2"]));
    store.put(&one, &recording(&["program", "1"], 100), &Provenance::default()).unwrap();
    store.put(&two, &recording(&["program", "2"], 200), &Provenance::default()).unwrap();
    let entries = store.list().unwrap();
    assert_eq!(entries.len(), 2);
    let entry = entries.iter().find(|entry| entry.key == one.as_str()).unwrap();
    assert_eq!(entry.command, ["program", "1"]);
    // 5 intervals of 150 lines of 64 bytes in 5 ms.
    assert_eq!(entry.bandwidth, BytesPerSec(5.0 * 150.0 * 64.0 / 0.005));

    let prefix = &one.as_str()[..12];
    assert_eq!(store.show(prefix).unwrap().recording.command, ["program", "1"]);
    for (prefix, expected) in [("", 0), ("zz", 0), ("%", 0)] {
        let error = store.forget(prefix).unwrap_err();
        assert!(matches!(error, StoreError::NoSuchEntry { matches, .. } if matches == expected));
    }
    assert_eq!(store.forget(prefix).unwrap(), one.as_str());
    assert_eq!(store.list().unwrap().len(), 1);
    assert!(store.forget("").is_err(), "an unset variable is no key");
    assert_eq!(store.forget_all().unwrap(), 1);
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn many_writers_and_readers_at_once_lose_nothing() {
    const WRITERS: usize = 8;
    const EACH: usize = 12;
    let bench = Bench::new();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let bench = &bench;
            scope.spawn(move || {
                let store = bench.store();
                for number in 0..EACH {
                    let argument = format!("{writer}-{number}");
                    let key = bench.key(&[&argument]);
                    store
                        .put(&key, &recording(&["program", &argument], 1), &Provenance::default())
                        .unwrap();
                    assert!(store.get(&key).unwrap().is_some());
                }
            });
        }
    });
    assert_eq!(bench.store().list().unwrap().len(), WRITERS * EACH);
}

/// A store of a version that knew no media, with a profile of `true`.
#[test]
fn a_store_of_an_earlier_version_is_brought_up_to_date_with_what_it_holds() {
    let bench = Bench::new();
    let path = bench.dir.path().join("old.sqlite");
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/schema-1.sqlite");
    fs::copy(old, &path).unwrap();
    let store = Store::open(Some(&path)).unwrap();
    let entries = store.list().unwrap();
    assert_eq!(
        (entries[0].command.as_slice(), &entries[0].media),
        (&["true".to_owned()][..], &vec![])
    );
    assert_eq!((entries[0].exit_code, &entries[0].inputs), (None, &InputState::Unrecorded));
    let stored = store.show(&entries[0].key[..8]).unwrap();
    assert_eq!(stored.recording.profile.total().reads, Lines(1_244));
    let version: u32 =
        store.connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, SCHEMA);
    store.put(&bench.key(&[]), &recording(&["program"], 1), &Provenance::default()).unwrap();
    drop(store);
    assert_eq!(Store::open(Some(&path)).unwrap().list().unwrap().len(), 2);
}

#[test]
fn traffic_by_medium_is_kept_and_listed() {
    let bench = Bench::new();
    let (store, key) = (bench.store(), bench.key(&[]));
    let pram = memweir_core::medium::data::MediumData::shipped("pram").unwrap();
    let mut put = recording(&["program"], 100);
    put.media = Media::with_dram(&[pram]).unwrap();
    for counts in &mut put.profile.intervals {
        *counts = memweir_core::placement::divide(counts, &[0.4, 0.6, 0.0, 0.0]);
    }
    store.put(&key, &put, &Provenance::default()).unwrap();
    assert_eq!(store.get(&key).unwrap().unwrap().recording, put);
    // Five intervals of 100 lines read and 50 written.
    let lines = |name: &str, reads, writes| MediumLines {
        name: name.to_owned(),
        reads,
        writes: Some(writes),
    };
    assert_eq!(store.list().unwrap()[0].media, [lines("dram", 200, 100), lines("pram", 300, 150)]);
}

#[test]
fn a_store_from_a_later_version_is_left_alone() {
    let bench = Bench::new();
    let path = bench.store().path().to_owned();
    let later = Connection::open(&path).unwrap();
    later.pragma_update(None, "user_version", 99).unwrap();
    let message = Store::open(Some(&path)).unwrap_err().to_string();
    assert!(message.contains("schema 99 is from a later memweir"), "{message}");
}

#[test]
fn a_file_that_is_no_store_is_refused_by_name_and_kept() {
    let bench = Bench::new();
    let path = bench.dir.path().join("letter.txt");
    let content = "dear all, ".repeat(100);
    fs::write(&path, &content).unwrap();
    for open in [Store::open, Store::read] {
        let message = open(Some(&path)).unwrap_err().to_string();
        assert!(message.contains("letter.txt: no profile store: "), "{message}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    let foreign = bench.dir.path().join("queue.sqlite");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE jobs (id INTEGER)").unwrap();
    for wrong in [foreign.as_path(), bench.dir.path(), &bench.dir.path().join("absent")] {
        assert!(matches!(Store::read(Some(wrong)), Err(StoreError::Invalid(_))), "{wrong:?}");
    }
    let message = Store::open(Some(&foreign)).unwrap_err().to_string();
    assert!(message.contains("a database of another program"), "{message}");
}

#[test]
fn a_reader_leaves_an_empty_file_as_it_is() {
    let bench = Bench::new();
    let path = bench.dir.path().join("empty");
    fs::write(&path, "").unwrap();
    assert!(Store::read(Some(&path)).unwrap().list().unwrap().is_empty());
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
}

#[test]
fn a_reader_does_not_wait_for_a_writer() {
    let bench = Bench::new();
    let path = bench.store().path().to_owned();
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE; DELETE FROM profiles").unwrap();
    assert!(Store::read(Some(&path)).unwrap().list().unwrap().is_empty());
}

#[test]
fn a_damaged_row_is_an_error_with_its_key() {
    let bench = Bench::new();
    let (store, key) = (bench.store(), bench.key(&[]));
    store.put(&key, &recording(&["program"], 1), &Provenance::default()).unwrap();
    store.connection.execute("UPDATE profiles SET recording = x'00ff'", []).unwrap();
    let message = store.get(&key).unwrap_err().to_string();
    assert!(message.contains(key.as_str()), "{message}");
}

#[test]
fn a_very_long_profile_is_coarsened_and_keeps_its_total() {
    let long = recording(&["program"], 7);
    let short = compact(&long, 2);
    assert_eq!(short.profile.intervals.len(), 2);
    assert_eq!(short.profile.interval, Nanos::from_millis(3));
    assert_eq!(short.profile.total(), long.profile.total());
    assert_eq!(compact(&long, 5), long);
}
