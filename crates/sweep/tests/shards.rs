//! Shards of a sweep in one directory: nothing twice, nothing lost, and differences refused.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use memweir_core::Stop;
use memweir_core::input::InputError;
use memweir_run::table::{Cell, Column, Kind};
use memweir_study::sweep::{Grid, Sweep};
use memweir_sweep::partition::{Partition, all};
use memweir_sweep::plan::{Origin, Plan};
use memweir_sweep::run::{Ran, Work, missing};
use memweir_sweep::simulation::{Simulated, Simulation};
use memweir_sweep::{Shard, SweepError, merge};

/// Squares of the swept `n`, plus a `bias`: the results, of which the key says nothing, that a
/// broken machine would add.
struct Squares {
    grid: Grid,
    bias: f64,
    /// Stands for the code and the data of a simulation, on which its keys depend.
    data: u32,
    /// The points that have been simulated, by value.
    simulated: Arc<Mutex<Vec<String>>>,
    /// A value that is refused.
    refused: Option<&'static str>,
    /// Name of the column with the squares.
    result: &'static str,
}

impl Squares {
    fn of(sweeps: &[&str]) -> Self {
        let sweeps = sweeps.iter().map(|text| text.parse::<Sweep>().expect("a sweep")).collect();
        let grid = Grid::new(sweeps).expect("a grid");
        let simulated = Arc::default();
        Self { grid, bias: 0.0, data: 0, simulated, refused: None, result: "square" }
    }

    /// Returns the same at the points of another grid.
    fn at(&self, grid: Grid) -> Self {
        Self { grid, simulated: Arc::clone(&self.simulated), ..*self }
    }

    fn shard(&self, shard: &Shard) -> Self {
        self.at(self.grid.only(&shard.points(self.grid.len()).collect::<Vec<_>>()))
    }

    fn name(&self) -> String {
        Plan::new(&self.at(self.grid.star()), &[]).name_of_sweep()
    }

    fn simulated(&self) -> Vec<String> {
        std::mem::take(&mut self.simulated.lock().expect("no panic"))
    }
}

impl Simulation for Squares {
    fn command(&self) -> &'static str {
        "squares"
    }

    fn grid(&self) -> &Grid {
        &self.grid
    }

    fn keys(&self) -> Vec<String> {
        let key = |point| {
            let mut at = self.grid.at(point);
            at.sort();
            format!("{at:?} by {}", self.data)
        };
        (0..self.grid.len()).map(key).collect()
    }

    fn columns(&self) -> Vec<Column> {
        let column = |(name, kind): (&str, _)| Column { name: name.to_owned(), kind };
        let columns = [("run", Kind::Integer), (self.result, Kind::Float), ("n", Kind::Float)];
        columns.map(column).into()
    }

    fn simulate(
        &self,
        point: usize,
        _: NonZeroUsize,
        _: &Stop,
    ) -> Result<Option<Simulated>, InputError> {
        let at = self.grid.at(point);
        let (_, n) = at.iter().find(|(key, _)| key == "n").expect("a value");
        if self.refused == Some(n.as_str()) {
            return Err(InputError::new("squares", format!("no square of {n}")));
        }
        self.simulated.lock().expect("no panic").push(n.clone());
        let n: f64 = n.parse().expect("a number");
        let row = |run: u64| vec![run.into(), (n * n + self.bias).into(), n.into()];
        // Reports have their swept keys in the order of the sweeps.
        let fields: Vec<String> = at.iter().map(|(key, n)| format!("{key:?}: {n:?}")).collect();
        let report = format!("{{{}}}", fields.join(", "));
        Ok(Some(Simulated { rows: vec![row(0), row(1)], report }))
    }
}

/// Runs the missing points of a shard.
fn run(out: &Path, squares: &Squares, shard: &str) -> Result<Ran, SweepError> {
    let shard: Shard = shard.parse().expect("a shard");
    let part = squares.shard(&shard);
    let plan = Plan::new(&part, &[]);
    let partition = Partition::begin(out, &squares.name(), &plan, &Origin::default())?;
    let points = missing(&plan, &partition)?;
    let work = Work { plan: &plan, partition: &partition, threads: NonZeroUsize::MIN };
    work.run(&shard, &points, &Stop::default(), || ())
}

fn partition(out: &Path, squares: &Squares) -> PathBuf {
    Partition::of(out, &squares.name()).directory().to_owned()
}

fn squares_of(merged: &merge::Merged) -> Vec<f64> {
    let (columns, rows) = merged.table();
    let place = columns.iter().position(|column| column.name == "square").expect("a column");
    let number = |row: &Vec<Cell>| match row[place] {
        Cell::Float(number) => number,
        _ => panic!("a square is a number"),
    };
    rows.iter().step_by(2).map(number).collect()
}

#[test]
fn shards_in_any_order_are_the_whole_sweep() {
    let out = tempfile::tempdir().expect("a directory");
    let squares = Squares::of(&["n=1..7"]);
    for shard in ["3/3", "1/3", "2/3"] {
        run(out.path(), &squares, shard).expect("space");
    }
    let merged = merge::read(&partition(out.path(), &squares)).expect("files");
    assert_eq!(squares_of(&merged), [1.0, 4.0, 9.0, 16.0, 25.0, 36.0, 49.0]);
    assert!(merged.missing.is_empty() && merged.repeated.is_empty());
    assert_eq!(merged.files.len(), 3);
    assert_eq!(squares.simulated().len(), 7);
    let names: Vec<String> = merged.table().0.into_iter().map(|column| column.name).collect();
    assert_eq!(names, ["at.n", "run", "square", "n"], "a swept key gives way to a result");
}

#[test]
fn another_division_takes_what_is_there() {
    let out = tempfile::tempdir().expect("a directory");
    let squares = Squares::of(&["n=1..9"]);
    run(out.path(), &squares, "1/4").expect("space");
    assert_eq!(squares.simulated(), ["1", "5", "9"]);
    run(out.path(), &squares, "1/2").expect("space");
    assert_eq!(squares.simulated(), ["3", "7"]);
    let rest = run(out.path(), &squares, "1/1").expect("space");
    assert_eq!((rest.simulated, rest.adopted), (4, 0));
    let none = run(out.path(), &squares, "1/1").expect("space");
    assert_eq!((none.simulated, none.file), (0, None));
}

#[test]
fn points_of_other_code_or_data_are_run_anew() {
    let out = tempfile::tempdir().expect("a directory");
    let before = Squares::of(&["n=1..3"]);
    run(out.path(), &before, "1/1").expect("space");
    let after = Squares { data: 1, ..Squares::of(&["n=1..3"]) };
    let anew = run(out.path(), &after, "1/1").expect("space");
    assert_eq!((anew.simulated, anew.adopted), (3, 0));
    assert_eq!(after.simulated(), ["1", "2", "3"]);
    let none = run(out.path(), &before, "1/1").expect("space");
    assert_eq!((none.simulated, none.adopted), (0, 0), "those of before are still there");
}

#[test]
fn a_refused_point_does_not_cost_the_others() {
    let out = tempfile::tempdir().expect("a directory");
    let squares = Squares { refused: Some("2"), ..Squares::of(&["n=1..4"]) };
    let error = run(out.path(), &squares, "1/1").expect_err("a refusal").to_string();
    assert!(error.contains("no square of 2"), "{error}");
    let merged = merge::read(&partition(out.path(), &squares)).expect("files");
    assert_eq!(squares_of(&merged), [1.0, 9.0, 16.0]);
    assert_eq!(merged.grid.place(merged.missing[0]), "n=2");
}

#[test]
fn a_shard_that_ran_twice_counts_once() {
    let out = tempfile::tempdir().expect("a directory");
    let squares = Squares::of(&["n=1..4"]);
    let plan = Plan::new(&squares, &[]);
    let partition =
        Partition::begin(out.path(), &squares.name(), &plan, &Origin::default()).expect("space");
    let work = Work { plan: &plan, partition: &partition, threads: NonZeroUsize::MIN };
    for _ in 0..2 {
        // As two processes would that began at the same time.
        work.run(&Shard::WHOLE, &[0, 1, 2, 3], &Stop::default(), || ()).expect("space");
    }
    let merged = merge::read(partition.directory()).expect("equal rows");
    assert_eq!(squares_of(&merged), [1.0, 4.0, 9.0, 16.0]);
    assert_eq!(merged.repeated.len(), 4);

    let one = merged.replace_files(partition.directory()).expect("space").expect("two files");
    assert_eq!(partition.files().expect("a directory"), [one]);
    let again = merge::read(partition.directory()).expect("a file");
    assert_eq!((squares_of(&again), again.repeated.len()), (squares_of(&merged), 0));
}

#[test]
fn a_point_with_two_results_is_refused() {
    let out = tempfile::tempdir().expect("a directory");
    let right = Squares::of(&["n=1..4"]);
    run(out.path(), &right, "1/1").expect("space");
    let wrong = Squares { bias: 0.5, ..Squares::of(&["n=1..4"]) };
    let plan = Plan::new(&wrong, &[]);
    let partition =
        Partition::begin(out.path(), &wrong.name(), &plan, &Origin::default()).expect("space");
    let work = Work { plan: &plan, partition: &partition, threads: NonZeroUsize::MIN };
    work.run(&Shard::WHOLE, &[2], &Stop::default(), || ()).expect("space");
    let refused = merge::read(partition.directory()).expect_err("two results").to_string();
    assert!(refused.contains("n=3") && refused.contains("other results"), "{refused}");
    assert_eq!(partition.files().expect("a directory").len(), 2, "nothing is removed");
}

#[test]
fn a_file_that_grows_during_a_merge_stays() {
    let out = tempfile::tempdir().expect("a directory");
    let squares = Squares::of(&["n=1..4"]);
    let first = run(out.path(), &squares, "1/2").expect("space").file.expect("a file");
    run(out.path(), &squares, "2/2").expect("space");
    let directory = partition(out.path(), &squares);
    let merged = merge::read(&directory).expect("files");
    // Its process replaces the file by one that has more points.
    let content = std::fs::read(&first).expect("the file");
    std::fs::write(out.path().join("new"), content).expect("space");
    std::fs::rename(out.path().join("new"), &first).expect("one file system");
    let one = merged.replace_files(&directory).expect("space").expect("two files");
    let files = Partition::at(&directory).files().expect("a directory");
    assert_eq!(files, [one, first]);
}

#[test]
fn more_values_take_the_points_of_the_smaller_sweep() {
    let out = tempfile::tempdir().expect("a directory");
    let small = Squares::of(&["n=1..4", "m=a,b"]);
    run(out.path(), &small, "1/1").expect("space");
    let large = Squares::of(&["m=b,a", "n=6,4,1"]);
    let ran = run(out.path(), &large, "1/1").expect("space");
    assert_eq!((ran.simulated, ran.adopted), (2, 4));
    assert_eq!(large.simulated(), ["6", "6"]);
    let merged = merge::read(&partition(out.path(), &large)).expect("files");
    assert_eq!(squares_of(&merged), [36.0, 16.0, 1.0, 36.0, 16.0, 1.0]);
    assert_eq!(all(out.path()).expect("a directory").len(), 2);
    let untouched = merge::read(&partition(out.path(), &small)).expect("files");
    assert_eq!(untouched.points.len(), 8);
}

#[test]
fn a_file_that_a_merge_has_removed_is_passed_over() {
    let out = tempfile::tempdir().expect("a directory");
    let small = Squares::of(&["n=1..3"]);
    run(out.path(), &small, "1/1").expect("space");
    // It is in the list of files, and gone when it is read.
    let gone = partition(out.path(), &small).join("shard-00001-of-00001-0.parquet");
    std::os::unix::fs::symlink("nowhere", gone).expect("a link");
    let ran = run(out.path(), &Squares::of(&["n=1..4"]), "1/1").expect("a sweep");
    assert_eq!((ran.simulated, ran.adopted), (1, 3));
}

#[test]
fn a_sweep_with_other_results_is_not_looked_at() {
    let out = tempfile::tempdir().expect("a directory");
    run(out.path(), &Squares::of(&["n=1..3"]), "1/1").expect("space");
    let other = Squares { data: 1, result: "area", ..Squares::of(&["n=1..3"]) };
    let ran = run(out.path(), &other, "1/1").expect("no reason to refuse");
    assert_eq!((ran.simulated, ran.adopted), (3, 0));
}

#[test]
fn the_order_of_the_sweeps_does_not_name_another() {
    let out = tempfile::tempdir().expect("a directory");
    let first = Squares::of(&["n=1..2", "m=a,b"]);
    run(out.path(), &first, "1/2").expect("space");
    let second = Squares::of(&["m=b,a", "n=2,1"]);
    run(out.path(), &second, "1/1").expect("space");
    assert_eq!(second.simulated().len(), 2);
    let merged = merge::read(&partition(out.path(), &first)).expect("files");
    assert_eq!(squares_of(&merged), [1.0, 1.0, 4.0, 4.0]);
}

#[test]
fn points_of_sweeps_in_another_order_are_equal() {
    let out = tempfile::tempdir().expect("a directory");
    let whole = Squares::of(&["n=1..2", "m=a,b"]);
    run(out.path(), &whole, "1/1").expect("space");
    let again = Squares::of(&["m=b,a", "n=2,1"]);
    let plan = Plan::new(&again, &[]);
    let partition =
        Partition::begin(out.path(), &again.name(), &plan, &Origin::default()).expect("space");
    let work = Work { plan: &plan, partition: &partition, threads: NonZeroUsize::MIN };
    work.run(&Shard::WHOLE, &[0, 1], &Stop::default(), || ()).expect("space");
    let merged = merge::read(partition.directory()).expect("equal points");
    assert_eq!((merged.points.len(), merged.repeated.len()), (4, 2));
}

#[test]
fn a_shard_of_a_large_sweep_reads_few_points() {
    let out = tempfile::tempdir().expect("a directory");
    let squares = Squares::of(&["n=1..1000", "m=1..1000"]);
    let ran = run(out.path(), &squares, "7/100000").expect("space");
    assert_eq!(ran.simulated, 10);
    let directory = partition(out.path(), &squares);
    let manifest = std::fs::metadata(directory.join("manifest.json")).expect("a manifest");
    assert!(manifest.len() < 100_000, "{} bytes", manifest.len());
    let merged = merge::read(&directory).expect("files");
    assert_eq!((merged.points.len(), merged.missing.len()), (10, 999_990));
    assert_eq!(merged.grid.place(merged.points[1].point), "n=101 m=7");
}

#[test]
fn half_a_file_is_named() {
    let out = tempfile::tempdir().expect("a directory");
    let squares = Squares::of(&["n=1..4"]);
    let file = run(out.path(), &squares, "1/1").expect("space").file.expect("a file");
    let content = std::fs::read(&file).expect("the file");
    std::fs::write(&file, &content[..content.len() - 9]).expect("space");
    for refused in [
        merge::read(&partition(out.path(), &squares)).expect_err("half a file").to_string(),
        run(out.path(), &squares, "1/1").expect_err("half a file").to_string(),
    ] {
        let name = file.file_name().expect("a name").to_string_lossy();
        assert!(refused.contains(&*name), "{refused}");
    }
}

#[test]
fn versions_are_part_of_the_keys() {
    let squares = Squares::of(&["n=1..2"]);
    let with = |versions: &[&str]| {
        let versions: Vec<String> = versions.iter().map(|text| (*text).to_owned()).collect();
        Plan::new(&squares.at(squares.grid.star()), &versions).name_of_sweep()
    };
    assert_eq!(with(&["1"]), with(&["1"]));
    assert_ne!(with(&["1"]), with(&["2"]));
    assert_ne!(with(&[]), with(&["1"]));
}
