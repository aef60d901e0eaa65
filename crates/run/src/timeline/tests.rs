use std::fs::File;
use std::io::Write;

use super::*;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

fn row(quantum: u64, name: &str) -> Row {
    Row {
        quantum,
        job: 3,
        name: name.to_owned(),
        chosen: quantum.is_multiple_of(2),
        cpu_s: 0.05,
        reads: Some(1000 + quantum),
        predicted: (quantum > 0).then_some(2.5e9),
        ..Row::default()
    }
    .at(Nanos::from_millis(100 * quantum), Nanos::from_millis(100))
    .in_system(Some(BytesPerSec::from_gb(4.0)), None)
}

#[test]
fn only_csv_and_parquet_endings_are_taken() {
    assert_eq!(Format::of(Path::new("a/b.csv")), Ok(Format::Csv));
    assert_eq!(Format::of(Path::new("b.PARQUET")), Ok(Format::Parquet));
    let refusal = Format::of(Path::new("b.parqet")).unwrap_err();
    assert!(refusal.help.is_some_and(|help| help.contains("`parquet`")));
    assert!(Format::of(Path::new("b")).is_err());
}

#[test]
fn csv_rows_are_in_the_file_before_it_is_finished() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("t.csv");
    let mut timeline = create(&path, Format::Csv).expect("a file");
    timeline.append(&[row(0, "a,b"), row(1, "c\"d")]).expect("space");
    let rows: Vec<Row> = csv::Reader::from_path(&path)
        .expect("a file")
        .into_deserialize()
        .collect::<Result<_, _>>()
        .expect("whole rows");
    assert_eq!(rows, [row(0, "a,b"), row(1, "c\"d")]);
    timeline.finish_as_appended().expect("space");
}

#[test]
fn a_timeline_is_followed_byte_by_byte() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = |name: &str| directory.path().join(name);
    let rows = [row(0, "a,b"), row(1, "two\nlines"), row(2, "c\"d"), row(3, "")];
    let mut timeline = create(&place("t.csv"), Format::Csv).expect("a file");
    timeline.append(&rows).expect("space");
    timeline.finish_as_appended().expect("space");
    let mut growing = File::create(place("growing.csv")).expect("a file");
    let mut follower = Follower::open(&place("growing.csv")).expect("a timeline");
    let mut seen = Vec::new();
    for byte in std::fs::read(place("t.csv")).expect("a file") {
        growing.write_all(&[byte]).expect("space");
        seen.extend(follower.rows().expect("a timeline"));
    }
    assert_eq!(seen, rows);
    growing.write_all(b"1,2,3\n4\n").expect("space");
    let error = follower.rows().expect_err("rows of three columns").to_string();
    assert!(error.contains("it is no timeline"), "{error}");
    let error = Follower::open(&place("t.parquet")).expect_err("no CSV").to_string();
    assert!(error.contains("t.parquet.partial.csv"), "{error}");
}

#[test]
fn a_timeline_is_read_as_it_was_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let rows = [
        Row { reason: Some("head".to_owned()), ..row(0, "a,b") },
        Row { writes: Some(5), reads_1: Some(6), ..row(1, "c") },
    ];
    for (name, format) in [("t.csv", Format::Csv), ("t.parquet", Format::Parquet)] {
        let path = directory.path().join(name);
        let mut timeline = create(&path, format).expect("a file");
        timeline.append(&rows).expect("space");
        timeline.finish_as_appended().expect("space");
        assert_eq!(read(&path).expect("a timeline"), rows);
    }
    let whole = std::fs::read(directory.path().join("t.csv")).expect("a file");
    let cut = directory.path().join("cut.csv");
    std::fs::write(&cut, &whole[..whole.len() - 25]).expect("space");
    assert_eq!(read(&cut).expect("a timeline"), rows[..1]);
    std::fs::write(&cut, "a,b\n1,2\n").expect("space");
    let refusal = read(&cut).expect_err("no timeline").to_string();
    assert!(refusal.contains("it is no timeline"), "{refusal}");
    let odd = directory.path().join("odd.parquet");
    std::fs::write(&odd, "odd").expect("space");
    assert!(read(&odd).is_err() && read(Path::new("absent.csv")).is_err());
}

#[test]
fn parquet_rows_are_in_a_journal_until_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("t.parquet");
    let mut timeline = create(&path, Format::Parquet).expect("a file");
    timeline.append(&[row(0, "a"), row(1, "b")]).expect("space");
    let journal = std::fs::read_to_string(directory.path().join("t.parquet.partial.csv"))
        .expect("the journal");
    assert_eq!(journal.lines().count(), 3);
    assert!(!path.exists());

    timeline.finish_as_appended().expect("space");
    let names: Vec<_> = std::fs::read_dir(directory.path())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["t.parquet"]);

    let reader = SerializedFileReader::new(File::open(&path).expect("a file")).expect("Parquet");
    let rows: Vec<_> =
        reader.get_row_iter(None).expect("rows").collect::<Result<_, _>>().expect("whole rows");
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1].get_long(0).ok(), Some(1));
    assert_eq!(rows[1].get_double(1).ok(), Some(0.1));
    assert_eq!(rows[1].get_string(4).ok().map(String::as_str), Some("b"));
    assert_eq!(rows[0].get_bool(5).ok(), Some(true));
    assert!(rows[0].get_long(7).is_err(), "instructions were not counted");
    assert_eq!(rows[1].get_long(8).ok(), Some(1001));
    assert!(rows[0].get_double(11).is_err(), "nothing was predicted for quantum 0");
    assert_eq!(rows[1].get_double(11).ok(), Some(2.5e9));
    assert_eq!(rows[0].get_double(12).ok(), Some(4e9));
}

#[test]
fn an_unfinished_timeline_without_rows_is_still_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("t.parquet");
    create(&path, Format::Parquet).expect("a file").finish_as_appended().expect("space");
    let reader = SerializedFileReader::new(File::open(&path).expect("a file")).expect("Parquet");
    assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
}
