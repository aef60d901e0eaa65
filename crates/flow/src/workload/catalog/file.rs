//! Catalog files: their format and its checks.

use std::collections::BTreeMap;

use memweir_core::input::{Document, InputError, Section, Value};
use memweir_core::names::suggestion;

use super::{Entry, Figure};

/// Keys of a whole file.
const KEYS: [&str; 3] = ["sources", "defaults", "programs"];

/// Each figure's key with its least and its largest value. A year in seconds and a terabyte catch
/// mistakes of unit.
const FIGURES: [(&str, f64, f64); 15] = [
    ("mpki", 0.0, 1000.0),
    ("write_share", 0.0, 0.9),
    ("overlap", 0.01, 1.0),
    ("speed", 0.01, 100.0),
    ("run_time_s", 0.001, 31_536_000.0),
    ("degree", 0.0, 10.0),
    ("period_ms", 1.0, 1e6),
    ("regularity", 0.0, 1.0),
    ("phases", 1.0, 64.0),
    ("phase_ms", 1.0, 1e6),
    ("phase_spread", 0.0, 10.0),
    ("footprint_mib", 0.001, 1_048_576.0),
    ("hotness", 0.0, 4.0),
    ("row_buffer_locality", 0.0, 1.0),
    ("bank_level_parallelism", 1.0, 1024.0),
];

type Figures = BTreeMap<&'static str, Figure>;

pub(super) fn parse(name: &str, text: &str) -> Result<Vec<Entry>, InputError> {
    let mut root = Document { name, text }.parse()?;
    root.only(&KEYS)?;
    let sources = sources(&root.require("sources")?)?;
    let defaults = match root.take("defaults") {
        Some(value) => {
            let mut section = value.section()?;
            section.only(&FIGURES.map(|(key, ..)| key))?;
            figures(&mut section, &sources)?
        }
        None => Figures::new(),
    };
    let mut entries: Vec<Entry> = Vec::new();
    for mut section in root.require("programs")?.sections()? {
        let entry = entry(&mut section, &sources, &defaults)?;
        if entries.iter().any(|other| other.name == entry.name) {
            return Err(section.refuse(format!("`{}` is in the file twice", entry.name)));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn sources(value: &Value<'_>) -> Result<BTreeMap<String, String>, InputError> {
    let entry = |(name, value): (String, Value<'_>)| {
        let reference = value.string()?.trim().to_owned();
        if reference.is_empty() {
            return Err(value.refuse("is empty").help("say where the figures come from"));
        }
        Ok((name, reference))
    };
    value.entries()?.into_iter().map(entry).collect()
}

/// Reads the figures in a table.
fn figures(
    section: &mut Section<'_>,
    sources: &BTreeMap<String, String>,
) -> Result<Figures, InputError> {
    let mut figures = Figures::new();
    for (key, from, to) in FIGURES {
        if let Some(value) = section.take(key) {
            let figure = figure(&value, from, to, sources)?;
            if key == "phases" && figure.value.fract() != 0.0 {
                return Err(value.refuse(format!("{} is no number of phases", figure.value)));
            }
            figures.insert(key, figure);
        }
    }
    Ok(figures)
}

/// Reads a pair of a value and the name of its source.
fn figure(
    value: &Value<'_>,
    from: f64,
    to: f64,
    sources: &BTreeMap<String, String>,
) -> Result<Figure, InputError> {
    const WHAT: &str = "a pair [value, \"source\"]";
    let [number, source] = <[Value<'_>; 2]>::try_from(value.array(WHAT)?)
        .map_err(|_| value.refuse(format!("must be {WHAT}")))?;
    let name = source.string()?;
    let Some(reference) = sources.get(name) else {
        let names = sources.keys().map(String::as_str);
        return Err(source
            .refuse(format!("there is no source `{name}`"))
            .help(suggestion(name, names)));
    };
    Ok(Figure {
        value: number.number_in(from..=to, "value for this figure")?,
        source: name.to_owned(),
        reference: reference.clone(),
    })
}

fn entry(
    section: &mut Section<'_>,
    sources: &BTreeMap<String, String>,
    defaults: &Figures,
) -> Result<Entry, InputError> {
    let known: Vec<&str> =
        ["name", "suite"].into_iter().chain(FIGURES.map(|(key, ..)| key)).collect();
    section.only(&known)?;
    let name = section.require("name")?.string()?.to_owned();
    let suite = section.require("suite")?.named()?;
    let mut all = defaults.clone();
    all.extend(figures(section, sources)?);
    let row_buffer_locality = all.remove("row_buffer_locality");
    let bank_level_parallelism = all.remove("bank_level_parallelism");
    let mut require = |key: &str| {
        all.remove(key).ok_or_else(|| {
            section
                .refuse(format!("`{key}` of `{name}` is missing"))
                .help("give it here or in `[defaults]`, with its source or as estimated")
        })
    };
    Ok(Entry {
        suite,
        mpki: require("mpki")?,
        write_share: require("write_share")?,
        overlap: require("overlap")?,
        speed: require("speed")?,
        run_time_s: require("run_time_s")?,
        degree: require("degree")?,
        period_ms: require("period_ms")?,
        regularity: require("regularity")?,
        phases: require("phases")?,
        phase_ms: require("phase_ms")?,
        phase_spread: require("phase_spread")?,
        footprint_mib: require("footprint_mib")?,
        hotness: require("hotness")?,
        row_buffer_locality,
        bank_level_parallelism,
        name: name.clone(),
    })
}
