//! Values of options: times such as `100ms`, sizes such as `64M`, shares such as `10%`; and the
//! names that shells complete.

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PathBufValueParser, PossibleValue, TypedValueParser};
use jiff::SignedDuration;
use memweir_core::cache::{CacheGeometry, MAX_SIZE, MAX_WAYS};
use memweir_core::names::{Named, by_ending};
use memweir_core::{Bytes, BytesPerSec, Nanos, PhysAddr};
use memweir_linux::meter::{MeterChoice, MeterKind};
use memweir_linux::topology;
use memweir_policy::PredictorKind;
use memweir_run::options::{self, Cores, Refusal, policy_names};

use crate::output::is_stdout;
use crate::render::text::counted;
use crate::shared::names::predictor_name;

/// Cores that this process may use, within a CPU quota.
pub(crate) fn available_cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Cores that this process may run on, whatever a CPU quota pays for.
pub(crate) fn allowed_cores() -> u32 {
    topology::allowed_cpus().map_or(1, |cpus| cpus.len() as u32)
}

/// A number of cores of this machine, or `auto`.
pub(crate) fn cores_or_auto(text: &str) -> Result<Cores, String> {
    options::cores_or_auto(text, allowed_cores()).map_err(refused)
}

/// A time with its unit, more than nothing.
pub(crate) fn duration(text: &str) -> Result<Nanos, String> {
    let help = "write a number and its unit: `100ms`, `1s`, `2m`";
    let parsed: SignedDuration =
        text.parse().map_err(|_| format!("`{text}` is not a time: {help}"))?;
    match std::time::Duration::try_from(parsed) {
        Ok(duration) if !duration.is_zero() => Ok(duration.into()),
        _ => Err(format!("`{text}` is no time longer than 0: {help}")),
    }
}

/// A time that a job takes alone, with its unit.
pub(crate) fn expected_time(text: &str) -> Result<Nanos, String> {
    options::expected_time(duration(text)?.as_secs_f64()).map_err(refused)
}

/// An amount of memory; `K`, `M` and `G` are powers of 1024.
pub(crate) fn size(text: &str) -> Result<Bytes, String> {
    let bytes = parse_size::Config::new()
        .with_binary()
        .parse_size(text)
        .map_err(|_| format!("`{text}` is not a size: write bytes, or a number such as `64M`"))?;
    if bytes == 0 {
        return Err("a size must be more than nothing".to_owned());
    }
    Ok(Bytes(bytes))
}

/// An address, hexadecimal with `0x` or decimal.
pub(crate) fn address(text: &str) -> Result<PhysAddr, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    parsed.map(PhysAddr).ok_or_else(|| format!("`{text}` is no address"))
}

/// An address, or the size of the memory before it.
pub(crate) fn place(text: &str) -> Result<PhysAddr, String> {
    address(text).or_else(|wrong| match size(text) {
        Ok(bytes) => Ok(PhysAddr(bytes.0)),
        Err(_) => Err(format!("{wrong}: write `0x200000000`, `8589934592` or `8G`")),
    })
}

/// A rate in bytes per second below this was meant in another unit if it has none.
const LEAST_WITHOUT_UNIT: u64 = 1_000_000;

/// A rate such as `4GB/s` or `800MB/s`, with decimal prefixes as bandwidth is quoted.
pub(crate) fn bandwidth(text: &str) -> Result<BytesPerSec, String> {
    let help = "write a rate such as `4GB/s`";
    let amount = text.strip_suffix("/s").unwrap_or(text);
    let bytes = parse_size::Config::new()
        .with_decimal()
        .parse_size(amount)
        .map_err(|_| format!("`{text}` is not a bandwidth: {help}"))?;
    if bytes == 0 {
        return Err(format!("a bandwidth must be more than nothing; {help}"));
    }
    if bytes < LEAST_WITHOUT_UNIT && amount.ends_with(|last: char| last.is_ascii_digit()) {
        return Err(format!("`{text}` is {bytes} bytes per second: {help}"));
    }
    options::bandwidth(bytes as f64).map_err(refused)
}

/// A limit of bandwidth, such as `4GB/s`.
pub(crate) fn bandwidth_limit(text: &str) -> Result<BytesPerSec, String> {
    let rate = options::bandwidth_limit(bandwidth(text)?).map_err(refused)?;
    rate.ok_or_else(|| format!("`{text}` is no limit"))
}

/// A job and the limit of its bandwidth, such as `sort=4GB/s`; 0 is none.
pub(crate) fn limit(text: &str) -> Result<(String, Option<BytesPerSec>), String> {
    let help = "write a job's name and a rate, such as `sort=4GB/s`";
    match text.rsplit_once('=') {
        Some((name, "0")) if !name.is_empty() => Ok((name.to_owned(), None)),
        Some((name, rate)) if !name.is_empty() => {
            Ok((name.to_owned(), Some(bandwidth_limit(rate)?)))
        }
        _ => Err(format!("`{text}` is no limit: {help}")),
    }
}

/// A cache such as `8M:16`.
pub(crate) fn cache(text: &str) -> Result<CacheGeometry, String> {
    let refuse = || format!("`{text}` is no cache: write its size and ways, as `8M:16`");
    let (bytes, ways) = text.split_once(':').ok_or_else(refuse)?;
    let ways: u32 =
        ways.parse().ok().filter(|ways| (1..=MAX_WAYS).contains(ways)).ok_or_else(refuse)?;
    let geometry = CacheGeometry::new(size(bytes)?, ways);
    match geometry.sets() {
        0 => Err(format!("{bytes} is less than one set of {ways} ways")),
        _ if geometry.size > MAX_SIZE => Err(format!("{bytes} is more than {MAX_SIZE}")),
        _ if divides(&geometry) => Ok(geometry),
        _ => {
            let others = (1..=MAX_WAYS).map(|ways| CacheGeometry { ways, ..geometry });
            let nearest = others.filter(divides).min_by_key(|other| other.ways.abs_diff(ways));
            let valid = match nearest {
                Some(other) => format!("the nearest valid choice is `{bytes}:{}`", other.ways),
                None => "write a multiple of 64 bytes".to_owned(),
            };
            let ways = counted(ways.into(), "way");
            Err(format!("{bytes} does not consist of sets of {ways}: {valid}"))
        }
    }
}

/// Returns true if a cache consists of whole sets.
fn divides(cache: &CacheGeometry) -> bool {
    cache.size.0.is_multiple_of(u64::from(cache.ways) * u64::from(cache.line))
}

/// A seed of random numbers.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no seed: a whole number from 0 to {}", u64::MAX))
}

/// A parser of values, with names that shells offer. Other values may be valid, too.
#[derive(Clone)]
pub(crate) struct Offering<P> {
    parser: P,
    names: Vec<&'static str>,
}

impl<P: TypedValueParser> TypedValueParser for Offering<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        option: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<P::Value, clap::Error> {
        self.parser.parse_ref(command, option, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}

type Parser<T> = fn(&str) -> Result<T, String>;

/// Offers `names` of the values that `parser` reads.
pub(crate) fn offering<T>(
    parser: Parser<T>,
    names: impl IntoIterator<Item = &'static str>,
) -> Offering<Parser<T>> {
    Offering { parser, names: names.into_iter().collect() }
}

/// A choice by its name.
pub(crate) fn named<T: Named + Send>() -> Offering<Parser<T>> {
    offering(|name| T::named(name).map_err(refused), T::names())
}

/// A policy with its options, which is looked up with all others of the batch.
pub(crate) fn policy() -> Offering<Parser<String>> {
    offering(|name| Ok(name.to_owned()), policy_names())
}

/// A predictor with its parameter.
pub(crate) fn predictor() -> Offering<Parser<PredictorKind>> {
    offering(parsed, memweir_policy::predictor::names().map(predictor_name))
}

/// A meter, or `auto`.
pub(crate) fn meter() -> Offering<Parser<MeterChoice>> {
    offering(parsed, std::iter::once("auto").chain(MeterKind::names()))
}

/// A value with its own syntax.
pub(crate) fn parsed<T: FromStr<Err = Refusal>>(text: &str) -> Result<T, String> {
    text.parse().map_err(refused)
}

/// A refusal as one text, for clap.
pub(crate) fn refused(refusal: Refusal) -> String {
    match refusal.help {
        Some(help) => format!("{}; {help}", refusal.reason),
        None => refusal.reason,
    }
}

/// A quantum, within the bounds of the scheduler.
pub(crate) fn quantum(text: &str) -> Result<Nanos, String> {
    let span = duration(text)?;
    memweir_run::options::quantum(span.as_millis_f64()).map_err(refused)
}

/// Endings of the formats of memweir's results, and of those into which others compress files.
const FORMATS: [&str; 11] =
    ["csv", "gz", "json", "jsonl", "mwt", "parquet", "prom", "svg", "toml", "xz", "zst"];

/// The file of an output that has one format. An ending of another format is refused; a name that
/// ends otherwise is taken as it is.
fn file<const N: usize>(text: &str, what: &str, endings: [&str; N]) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_known = |ending: &OsStr| FORMATS.iter().any(|known| ending.eq_ignore_ascii_case(known));
    if path.extension().is_some_and(is_known) {
        by_ending(&path, what, endings.map(|ending| (ending, ()))).map_err(refused)?;
    }
    Ok(path)
}

/// Refuses `-` as the name of a file of `what`, which does not go to standard output.
fn not_stdout(path: PathBuf, what: &str) -> Result<PathBuf, String> {
    match is_stdout(Some(&path)) {
        true => Err(format!("{what} goes into a file; `./-` is one of that name")),
        false => Ok(path),
    }
}

/// The file of an output that does not go to standard output, and may have any name but `-`.
pub(crate) fn result_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| not_stdout(path, "this result"))
}

/// The file of a plot. Only this ending is taken, because plots are often asked for in other
/// formats; a name without an ending, such as a device's, is taken as it is.
pub(crate) fn svg(text: &str) -> Result<PathBuf, String> {
    let path = not_stdout(text.into(), "a plot")?;
    if path.extension().is_some() {
        by_ending(&path, "a plot", [("svg", ())]).map_err(refused)?;
    }
    Ok(path)
}

/// The file of a result in JSON, or `-`.
pub(crate) fn json(text: &str) -> Result<PathBuf, String> {
    file(text, "JSON", ["json"])
}

/// The file of records in JSON, one per line.
pub(crate) fn json_lines(text: &str) -> Result<PathBuf, String> {
    let what = "a record per line";
    not_stdout(file(text, what, ["jsonl", "json"])?, what)
}

/// The file of a recording.
pub(crate) fn parquet(text: &str) -> Result<PathBuf, String> {
    not_stdout(file(text, "a recording", ["parquet"])?, "a recording")
}

/// The file of an address map or a service curve, or `-`.
pub(crate) fn toml(text: &str) -> Result<PathBuf, String> {
    file(text, "TOML", ["toml"])
}

/// The file of a calibration.
pub(crate) fn calibration(text: &str) -> Result<PathBuf, String> {
    not_stdout(toml(text)?, "a calibration")
}

/// The file of a trace of addresses.
pub(crate) fn trace(text: &str) -> Result<PathBuf, String> {
    let what = "a trace of addresses";
    not_stdout(file(text, what, ["mwt"])?, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_unit() {
        assert_eq!(duration("100ms"), Ok(Nanos::from_millis(100)));
        assert_eq!(duration("1s"), Ok(Nanos::from_millis(1000)));
        assert_eq!(duration("1m 30s"), Ok(Nanos::from_millis(90_000)));
        assert_eq!(duration("0.5s"), Ok(Nanos::from_millis(500)));
        for wrong in ["100", "", "ms", "-1s", "0s", "1s ago", "ten"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_powers_of_two() {
        assert_eq!(size("64M"), Ok(Bytes(64 << 20)));
        assert_eq!(size("64MiB"), Ok(Bytes(64 << 20)));
        assert_eq!(size("4096"), Ok(Bytes(4096)));
        for wrong in ["", "0", "-4M", "64Q", "big"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bandwidths_have_decimal_prefixes() {
        assert_eq!(bandwidth("4GB/s"), Ok(BytesPerSec(4e9)));
        assert_eq!(bandwidth("2.5GB/s"), Ok(BytesPerSec(2.5e9)));
        assert_eq!(bandwidth("800M"), Ok(BytesPerSec(800e6)));
        assert_eq!(bandwidth("4000000000"), Ok(BytesPerSec(4e9)));
        assert_eq!(bandwidth("64kB/s"), Ok(BytesPerSec(64e3)));
        for wrong in ["", "0", "-1GB/s", "fast", "101TB/s", "4", "4.5/s", "999999"] {
            assert!(bandwidth(wrong).is_err(), "{wrong}");
        }
        let told = "`4` is 4 bytes per second: write a rate such as `4GB/s`";
        assert_eq!(bandwidth("4"), Err(told.to_owned()));
    }

    #[test]
    fn a_cache_has_whole_sets() {
        assert_eq!(cache("8M:16"), Ok(CacheGeometry::new(Bytes(8 << 20), 16)));
        assert_eq!(cache("33M:11").map(|cache| cache.sets()), Ok(49_152));
        for (wrong, valid) in [
            ("8M:17", "the nearest valid choice is `8M:16`"),
            ("8M:30", "the nearest valid choice is `8M:32`"),
            ("8000001:16", "write a multiple of 64 bytes"),
            ("512:16", "less than one set of 16 ways"),
            ("8M:65", "as `8M:16`"),
        ] {
            assert!(cache(wrong).unwrap_err().contains(valid), "{wrong}");
        }
    }

    #[test]
    fn limits_name_a_job_and_a_rate() {
        assert_eq!(limit("sort=4GB/s"), Ok(("sort".to_owned(), Some(BytesPerSec(4e9)))));
        assert_eq!(limit("sort.1=0"), Ok(("sort.1".to_owned(), None)));
        for wrong in ["", "sort", "=1GB/s", "sort=", "sort=fast", "sort=1kB/s"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
        assert!(limit("sort=1kB/s").unwrap_err().contains("the lowest is 64e3"));
    }

    #[test]
    fn a_seed_is_a_whole_number_that_is_not_negative() {
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        for wrong in ["-1", "1.5", "x", "18446744073709551616"] {
            assert!(seed(wrong).unwrap_err().contains("from 0 to 18446744073709551615"), "{wrong}");
        }
    }

    #[test]
    fn a_plot_has_a_file() {
        assert_eq!(svg("x.svg"), Ok(PathBuf::from("x.svg")));
        assert!(svg("-").unwrap_err().contains("goes into a file"));
    }

    #[test]
    fn an_ending_that_an_output_cannot_have_is_refused() {
        for taken in ["x.json", "x.JSON", "run.12", "-", "/dev/null", "a.csv/x"] {
            assert_eq!(json(taken), Ok(PathBuf::from(taken)));
        }
        assert!(json_lines("x.json").is_ok());
        assert_eq!(json("x.csv"), Err("JSON cannot be written as `.csv`; valid: json".to_owned()));
        for parser in [svg, parquet, toml, trace] {
            assert!(parser("x.json").unwrap_err().contains("cannot be written as `.json`"));
        }
    }

    #[test]
    fn a_result_that_cannot_go_to_standard_output_is_not_written_to_a_file_of_that_name() {
        assert!(toml("-").is_ok(), "maps and curves go there");
        for parser in [svg, parquet, calibration, trace, json_lines] {
            let refusal = parser("-").unwrap_err();
            assert!(refusal.contains("goes into a file; `./-` is one"), "{refusal}");
            assert!(parser("./-").is_ok() && parser("/dev/stdout").is_ok());
        }
        let command = clap::Command::new("x");
        let taken = |name: &str| result_file().parse_ref(&command, None, name.as_ref()).is_ok();
        assert_eq!(["x", "./-", "x.svg", "-"].map(taken), [true, true, true, false]);
    }

    #[test]
    fn a_quantum_has_bounds() {
        assert_eq!(quantum("50ms"), Ok(Nanos::from_millis(50)));
        assert!(quantum("5ms").unwrap_err().contains("shortest is 10 ms"));
        assert!(quantum("11s").unwrap_err().contains("longest"));
    }
}
