use proptest::prelude::*;

use super::*;

fn sample(intervals: Vec<Counts>, interval: u64, cpu_time: u64) -> Recording {
    Recording {
        command: vec!["sort".to_owned(), "-k 2".to_owned(), "naïve\n".to_owned()],
        meter: "software".to_owned(),
        machine: "a machine".to_owned(),
        date: Timestamp::from_second(1_700_000_000).unwrap(),
        media: Media::dram_only(),
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

/// DRAM, PRAM and CXL memory.
fn three_media() -> Media {
    let shipped = |name| memweir_core::medium::data::MediumData::shipped(name).unwrap();
    Media::with_dram(&[shipped("pram"), shipped("cxl")]).unwrap()
}

fn counts_of_three() -> impl Strategy<Value = Counts> {
    let lines = || (0..1_u64 << 40, 0..1_u64 << 40);
    (lines(), lines(), lines()).prop_map(|media| {
        let traffic = |(reads, writes)| Traffic { reads: Lines(reads), writes: Lines(writes) };
        Counts::by_medium(
            7,
            [traffic(media.0), traffic(media.1), traffic(media.2), Traffic::default()],
        )
    })
}

/// A recording of `true` by a version that knew no media.
#[test]
fn recordings_of_format_one_are_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/format-1.parquet");
    let recording = Recording::load(&path).unwrap();
    assert_eq!(
        (recording.command.as_slice(), &recording.media),
        (&["true".to_owned()][..], &Media::dram_only())
    );
    assert_eq!(recording.profile.total(), Counts::new(107_549, Lines(1_244), Lines(0)));
    assert_eq!(recording.profile.cpu_time, Nanos(671_000));
}

#[test]
fn a_recording_of_dram_alone_is_what_older_versions_read() {
    let reader = SerializedFileReader::new(Buffer::from(small().to_bytes())).unwrap();
    let metadata = Metadata(reader.metadata().file_metadata());
    assert_eq!(metadata.number("format"), Ok(1));
    assert!(metadata.text("media").is_err());
    assert_eq!(metadata.expect_columns(&columns(1)), Ok(()));
}

#[test]
fn media_that_have_more_lines_than_there_are_are_refused() {
    // Counts cannot say so; a file can.
    let columns = |figures: &[u64]| figures.iter().map(|n| vec![*n]).collect::<Vec<_>>();
    let refused = |figures: &[u64]| row_counts(&columns(figures), 0).is_err();
    assert!(refused(&[0, 1, 5, 5, 60, 0]));
    assert!(refused(&[0, 1, 5, 5, 0, 60]));
    assert!(refused(&[0, 1, 50, 50, 30, 0, 30, 0]));
    assert!(refused(&[0, 1, 5, 5, u64::MAX, 0, u64::MAX, 0]));
    // Halves that were rounded up are no damage, and come back as they are.
    let counts = row_counts(&columns(&[0, 1, 1, 0, 1, 0, 1, 0]), 0).unwrap();
    assert_eq!((counts.reads, counts.traffic(MediumId::LOCAL_DRAM).reads), (Lines(1), Lines(0)));
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
    fn media_are_written_and_read(rows in prop::collection::vec(counts_of_three(), 1..50)) {
        let cpu_time = rows.len() as u64 * 100;
        let recording = Recording { media: three_media(), ..sample(rows, 100, cpu_time) };
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
        media in prop::sample::select(vec![Media::dram_only(), three_media()]),
    ) {
        let mut bytes = Recording { media, ..small() }.to_bytes();
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
            // The arithmetic on profiles must work on every recording that was accepted.
            let profile = recording.profile;
            let _ = (profile.total().lines().bytes(), profile.mean_bandwidth());
            let _ = (profile.peak_bandwidth(), profile.between(Nanos(1), profile.cpu_time));
        }
    }
}
