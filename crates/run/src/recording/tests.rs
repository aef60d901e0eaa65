use proptest::prelude::*;

use super::*;

fn sample(intervals: Vec<Counts>, interval: u64, cpu_time: u64) -> Recording {
    Recording {
        command: vec!["sort".to_owned(), "-k 2".to_owned(), "naïve\n".to_owned()],
        meter: "software".to_owned(),
        machine: "a machine".to_owned(),
        date: Timestamp::from_second(1_700_000_000).unwrap(),
        profile: Profile {
            interval: Nanos(interval),
            intervals,
            cpu_time: Nanos(cpu_time),
            wall_time: Nanos(cpu_time + 17),
        },
    }
}

fn counts() -> impl Strategy<Value = Counts> {
    (0..1_u64 << 40, 0..1_u64 << 40, 0..1_u64 << 40).prop_map(|(instructions, reads, writes)| {
        Counts::new(instructions, Lines(reads), Lines(writes))
    })
}

fn small() -> Recording {
    let row = |n| Counts::new(1000 * n, Lines(7 * n), Lines(n));
    sample((0..200).map(row).collect(), 1_000_000, 199_500_000)
}

#[test]
fn more_than_one_row_group_comes_back() {
    let row = |n: usize| Counts { instructions: n as u64, ..Counts::default() };
    let rows = ROWS_PER_GROUP + 3;
    let recording = sample((0..rows).map(row).collect(), 10, 10 * rows as u64);
    assert_eq!(Recording::from_bytes(recording.to_bytes(), "x").unwrap(), recording);
}

#[test]
fn a_program_that_did_nothing_comes_back() {
    let recording = sample(Vec::new(), 1, 0);
    assert_eq!(Recording::from_bytes(recording.to_bytes(), "x").unwrap(), recording);
}

#[test]
fn a_file_of_something_else_is_refused_with_its_name_and_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    fs::write(&path, "not Parquet at all, but long enough to hold a footer").unwrap();
    let message = Recording::load(&path).unwrap_err().to_string();
    assert!(message.contains("notes.txt is not a memweir recording"), "{message}");
}

#[test]
fn impossible_profiles_are_refused() {
    let huge = Counts { reads: Lines(u64::MAX / 2), ..Counts::default() };
    for (recording, reason) in [
        (sample(vec![Counts::default()], 0, 5), "interval of zero"),
        (sample(vec![Counts::default(); 3], 100, 150), "after the end"),
        (sample(vec![huge; 3], 100, 300), "beyond any program"),
    ] {
        let error = Recording::from_bytes(recording.to_bytes(), "x").unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_read(
        rows in prop::collection::vec(counts(), 1..300),
        interval in 1_u64..1 << 32,
    ) {
        let cpu_time = rows.len() as u64 * interval - interval / 2;
        let recording = sample(rows, interval, cpu_time);
        prop_assert_eq!(Recording::from_bytes(recording.to_bytes(), "x").unwrap(), recording);
    }

    #[test]
    fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(Recording::from_bytes(bytes, "x").is_err());
    }

    #[test]
    fn damage_is_refused_or_harmless(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        keep in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = small().to_bytes();
        if cut {
            bytes.truncate(keep.index(bytes.len()));
        }
        for (place, value) in damage {
            if !bytes.is_empty() {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
        }
        if let Ok(recording) = Recording::from_bytes(bytes, "x") {
            // Whatever was accepted must bear the arithmetic that is done with profiles.
            let profile = recording.profile;
            let _ = (profile.total().lines().bytes(), profile.mean_bandwidth());
            let _ = (profile.peak_bandwidth(), profile.between(Nanos(1), profile.cpu_time));
        }
    }
}
