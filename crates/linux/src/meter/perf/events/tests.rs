use proptest::prelude::*;

use super::*;

const SMALL: &str = r#"format = 1
[[cpu]]
name = "A"
vendor = "GenuineIntel"
family = 6
models = [0x55, "0x60-0x6f"]
steppings = ["0-4"]
[[cpu.source]]
counts = "reads"
caveats = ["Half of the truth."]
events = [{ name = "E", type = "raw", config = 0x412e, config1 = 7, lines_per_event = 0.5 }]
"#;

fn cpu(vendor: &str, family: u32, model: u32, stepping: u32) -> CpuModel {
    CpuModel { vendor: vendor.into(), family, model, stepping }
}

fn shipped_entry(cpu: &CpuModel) -> Option<CpuEvents> {
    let files = EventFile::shipped().unwrap();
    files.iter().find_map(|file| file.find(cpu)).cloned()
}

#[test]
fn reads_every_field() {
    let file = EventFile::parse("x", SMALL).unwrap();
    let encoding = Encoding::Raw { config: 0x412e, config1: 7 };
    let event = EventSpec { name: "E".into(), encoding, weight: 0.5, medium: None };
    let source = Source {
        counts: Quantity::Reads,
        caveats: vec!["Half of the truth.".into()],
        events: vec![event],
    };
    assert_eq!(file.cpus[0].sources, [source]);
    assert!(file.find(&cpu("GenuineIntel", 6, 0x6f, 4)).is_some());
    assert!(file.find(&cpu("GenuineIntel", 6, 0x6f, 5)).is_none());
    assert!(file.find(&cpu("GenuineIntel", 6, 0x70, 4)).is_none());
    assert!(file.find(&cpu("GenuineIntel", 7, 0x55, 4)).is_none());
    assert!(file.find(&cpu("AuthenticAMD", 6, 0x55, 4)).is_none());
}

#[test]
fn shipped_files_parse_and_never_match_one_cpu_twice() {
    let files = EventFile::shipped().unwrap();
    assert!(files.iter().all(|file| !file.test));
    let all: Vec<_> = files.iter().flat_map(|file| &file.cpus).collect();
    for (index, entry) in all.iter().enumerate() {
        assert_ne!(entry.matches, CpuMatch::Any, "{}", entry.name);
        for other in &all[..index] {
            let both = entry.matches.overlaps(&other.matches);
            assert!(!both, "{} and {}", entry.name, other.name);
        }
        let blind_to_writes = !entry.sources.iter().any(|s| s.counts == Quantity::Writes);
        let told = entry.caveats.iter().any(|c| c.contains("rite"));
        assert!(!blind_to_writes || told, "{} must say that writes are missing", entry.name);
    }
}

#[test]
fn every_file_in_the_folder_is_shipped() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("events");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| format!("events/{}", entry.unwrap().file_name().display()))
        .collect();
    found.sort();
    let mut shipped: Vec<_> = SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect();
    shipped.sort();
    assert_eq!(found, shipped);
}

#[test]
fn known_machines_find_their_events() {
    let raw = |cpu: &CpuModel| {
        let entry = shipped_entry(cpu).unwrap_or_else(|| panic!("{cpu}"));
        let mut sources = entry.sources.iter();
        let reads = sources.find(|s| s.counts == Quantity::Reads && !s.separates()).unwrap();
        reads.events.iter().map(|event| event.encoding).collect::<Vec<_>>()
    };
    let one = |config, config1| vec![Encoding::Raw { config, config1 }];
    // Values of intel/perfmon for the named models.
    assert_eq!(raw(&cpu("GenuineIntel", 6, 0x8f, 8)), one(0x012a, 0x73C004477));
    assert_eq!(raw(&cpu("GenuineIntel", 6, 0x6a, 6)), one(0x01b7, 0x73C000477));
    assert_eq!(raw(&cpu("GenuineIntel", 6, 0x55, 7)), one(0x01b7, 0x3FBC0007F7));
    assert_eq!(raw(&cpu("GenuineIntel", 6, 0x55, 4)), one(0x412e, 0));
    assert_eq!(raw(&cpu("AuthenticAMD", 0x1a, 2, 1)), one(0x4844, 0));
    // Genoa (0x11) is Zen 4 and Vermeer (0x21) is Zen 3: one family, different events.
    assert_eq!(raw(&cpu("AuthenticAMD", 0x19, 0x11, 1)), one(0x4844, 0));
    assert_eq!(raw(&cpu("AuthenticAMD", 0x19, 0x21, 0)).len(), 2);
    assert_eq!(raw(&cpu("0x41", 8, 0xd0c, 1)), one(0x37, 0));
    let by_medium = |cpu: &CpuModel| {
        let entry = shipped_entry(cpu).unwrap_or_else(|| panic!("{cpu}"));
        let source = entry.sources.into_iter().find(Source::separates).unwrap();
        source.events.iter().map(|e| (e.encoding, e.medium.unwrap().kind)).collect::<Vec<_>>()
    };
    let dram_and_cxl = |dram: (u64, u64), cxl: (u64, u64)| {
        let raw = |(config, config1)| Encoding::Raw { config, config1 };
        vec![(raw(dram), MediumKind::Dram), (raw(cxl), MediumKind::Nvm)]
    };
    assert_eq!(
        by_medium(&cpu("GenuineIntel", 6, 0xad, 1)),
        dram_and_cxl((0x012a, 0x73C004477), (0x012b, 0x703C04477))
    );
    for zen in [cpu("AuthenticAMD", 0x1a, 2, 1), cpu("AuthenticAMD", 0x19, 0x11, 1)] {
        assert_eq!(by_medium(&zen), dram_and_cxl((0x4844, 0), (0x8044, 0)));
    }
    // Zen 1 and hybrid clients are left out.
    assert_eq!(shipped_entry(&cpu("AuthenticAMD", 0x17, 0x01, 2)), None);
    assert_eq!(shipped_entry(&cpu("GenuineIntel", 6, 0x97, 2)), None);
}

#[test]
fn refusals_name_line_key_reason_and_choice() {
    let refusal = |from: &str, to: &str| {
        assert!(SMALL.contains(from), "{from}");
        EventFile::parse("x.toml", &SMALL.replace(from, to)).unwrap_err().to_string()
    };
    assert_eq!(
        refusal("family = 6", "famly = 6"),
        "x.toml:5: cpu[0].famly: unknown key\n  help: did you mean `family`?"
    );
    assert_eq!(
        refusal("\"reads\"", "\"read\""),
        "x.toml:9: cpu[0].source[0].counts: unknown quantity `read`\n  \
         help: did you mean `reads`? valid: instructions, reads, writes"
    );
    let starts = |text: String, start: &str| assert!(text.starts_with(start), "{text}");
    starts(refusal("format = 1", "format = 2"), "x.toml:1: format: this build reads");
    starts(refusal("family = 6", "family = -6"), "x.toml:5: cpu[0].family: -6 is out of range");
    starts(
        refusal("family = 6", "family = true"),
        "x.toml:5: cpu[0].family: must be a whole number",
    );
    starts(refusal("family = 6\n", ""), "x.toml:2: cpu[0]: `family` is missing");
    starts(refusal("0x60-0x6f", "0x6f-0x60"), "x.toml:6: cpu[0].models[1]: must be a number");
    starts(refusal("\"A\"", "\"\""), "x.toml:3: cpu[0].name: must not be empty");
    starts(refusal("0.5", "0"), "x.toml:11: cpu[0].source[0].events[0].lines_per_event: must be");
    starts(refusal("0.5", "nan"), "x.toml:11: cpu[0].source[0].events[0].lines_per_event: must");
    starts(refusal("vendor = \"GenuineIntel\"", "any = true"), "x.toml:5: cpu[0].family: `any");
    starts(refusal("[[cpu]]", "[[cpu"), "x.toml:2: ");
    let writes_only = refusal("\"reads\"", "\"writes\"");
    starts(writes_only, "x.toml:8: cpu[0].source: no source counts `reads`");
}

#[test]
fn a_source_of_media_suits_machines_that_have_them() {
    let events = r#"[{ name = "D", type = "raw", config = 1, medium = "dram" },
            { name = "C", type = "raw", config = 2, medium = "nvm" }]"#;
    let from = SMALL.find("events = ").unwrap();
    let text = format!("{}events = {events}", &SMALL[..from]);
    let source = EventFile::parse("x", &text).unwrap().cpus[0].sources[0].clone();
    assert!(source.separates() && !source.suits(&Media::dram_only()));
    let cxl = memweir_core::medium::data::MediumData::shipped("cxl").unwrap();
    assert!(source.suits(&Media::with_dram(&[cxl]).unwrap()));
    let error = EventFile::parse("x", &text.replace("\"nvm\"", "\"cxl\"")).unwrap_err();
    assert_eq!(error.line, Some(12));
    assert!(error.help.unwrap().contains("valid: dram, remote-dram, nvm, remote-nvm"));
    let one = text.replace("\"nvm\"", "\"dram\"");
    assert!(!EventFile::parse("x", &one).unwrap().cpus[0].sources[0].separates());
    let plain = EventFile::parse("x", SMALL).unwrap();
    assert!(!plain.cpus[0].sources[0].separates());
    let counted = SMALL.replace("\"reads\"", "\"instructions\"");
    let counted = counted.replace("lines_per_event = 0.5", "medium = \"dram\"");
    assert!(EventFile::parse("x", &counted).unwrap_err().reason.contains("have none"));
}

#[test]
fn generic_cache_misses_are_refused_with_the_reason() {
    let text = SMALL.replace(
        "type = \"raw\", config = 0x412e, config1 = 7",
        "type = \"hardware\", config = \"cache-misses\"",
    );
    let error = EventFile::parse("x", &text).unwrap_err();
    assert!(error.reason.contains("L2 misses on AMD"), "{error}");
    assert!(error.help.unwrap().contains("raw"));
}

#[test]
fn two_entries_for_one_cpu_are_refused() {
    let second = &SMALL["format = 1\n".len()..].replace("\"A\"", "\"B\"");
    let error = EventFile::parse("x", &format!("{SMALL}{second}")).unwrap_err();
    assert_eq!(error.reason, "`B` and `A` match the same CPUs");
    let other = second.replace("0-4", "5-15");
    assert!(EventFile::parse("x", &format!("{SMALL}{other}")).is_ok());
}

#[test]
fn the_test_file_is_marked_as_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/software-events.toml");
    let file = EventFile::read(&path).unwrap();
    assert!(file.test);
    assert!(file.find(&cpu("anything", 0, 0, 0)).is_some());
}

#[test]
fn unreadable_files_are_refused_by_name() {
    let error = EventFile::read(Path::new("/nonexistent/e.toml")).unwrap_err();
    assert_eq!(error.source_name, "/nonexistent/e.toml");
    assert!(EventFile::read(Path::new("/dev")).is_err());
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = EventFile::parse("x", &text);
    }

    #[test]
    fn a_damaged_file_is_read_or_refused(
        start in 0usize..SMALL.len(),
        length in 0usize..40,
        junk in "[-a-z0-9x\\[\\]{}=\"\n .]{0,12}",
    ) {
        let end = (start + length).min(SMALL.len());
        let text = format!("{}{junk}{}", &SMALL[..start], &SMALL[end..]);
        if let Err(error) = EventFile::parse("x", &text) {
            prop_assert!(!error.reason.is_empty());
            prop_assert!(error.line.is_none_or(|l| l <= text.matches('\n').count() + 1));
        }
    }

    #[test]
    fn overlap_is_what_covering_says(
        a in prop::collection::vec((0u32..12, 0u32..12), 1..4),
        b in prop::collection::vec((0u32..12, 0u32..12), 1..4),
    ) {
        let entry = |ranges: &[(u32, u32)]| CpuMatch::Models {
            vendor: "v".into(),
            family: 1,
            models: ranges.iter().map(|(x, y)| (*x.min(y), *x.max(y))).collect(),
            steppings: vec![(0, u32::MAX)],
        };
        let (a, b) = (entry(&a), entry(&b));
        let both = (0..12).any(|m| a.covers(&cpu("v", 1, m, 0)) && b.covers(&cpu("v", 1, m, 0)));
        prop_assert_eq!(a.overlaps(&b), both);
    }
}
