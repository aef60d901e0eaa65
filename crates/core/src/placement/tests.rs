use proptest::prelude::*;

use super::*;
use crate::medium::{Distance, Medium, MediumKind};
use crate::units::Picos;

/// DRAM, PRAM and CXL memory.
fn media() -> Media {
    let medium = |name: &str, kind, nanos| {
        Medium::new(name, kind, Distance::Local, [Picos::from_nanos(nanos); 2])
    };
    Media::new(vec![
        medium("dram", MediumKind::Dram, 25),
        medium("pram", MediumKind::Nvm, 67),
        medium("cxl", MediumKind::Nvm, 200),
    ])
    .unwrap()
}

fn resolved(text: &str) -> Placement {
    text.parse::<PlacementSpec>().unwrap().resolve(&media()).unwrap()
}

fn refused(text: &str) -> crate::input::Refusal {
    text.parse::<PlacementSpec>().and_then(|spec| spec.resolve(&media())).unwrap_err()
}

#[test]
fn every_form_is_read() {
    let (pram, cxl) = (MediumId::new(1).unwrap(), MediumId::new(2).unwrap());
    assert_eq!(resolved("dram"), Placement::default());
    assert_eq!(resolved("cxl"), Placement::Share([0.0, 0.0, 1.0, 0.0]));
    assert_eq!(resolved("pram=25%, cxl=50%"), Placement::Share([0.25, 0.25, 0.5, 0.0]));
    let range = |from, to, medium| AddressRange { from, to, medium };
    assert_eq!(
        resolved("0x1000-0x2000=pram,0x2000-0xffff=cxl"),
        Placement::Ranges(vec![range(0x1000, 0x2000, pram), range(0x2000, 0xffff, cxl)])
    );
    assert_eq!(
        resolved("hot=64MiB"),
        Placement::Hot(HotPages { pages: 16_384, rest: pram, interval: 4_194_304 })
    );
    assert_eq!(
        resolved("hot=8KiB,rest=cxl,every=10"),
        Placement::Hot(HotPages { pages: 2, rest: cxl, interval: 10 })
    );
}

#[test]
fn only_a_placement_by_share_tells_the_medium_of_a_number_of_lines() {
    assert_eq!(resolved("pram=25%").shares(), Some([0.75, 0.25, 0.0, 0.0]));
    assert_eq!(resolved("0x0-0x10=dram").shares(), Some([1.0, 0.0, 0.0, 0.0]));
    assert_eq!(resolved("0x0-0x10=pram").shares(), None);
    assert_eq!(resolved("hot=4096").shares(), None);
    assert!(resolved("dram").is_local() && resolved("pram=0%").is_local());
    assert!(!resolved("pram=1%").is_local());
    assert!(!resolved("0x0-0x10=dram,0x20-0x30=pram").is_local());
}

#[test]
fn what_is_no_placement_is_refused_with_what_to_write() {
    for text in
        ["", ",", "0x", "hot", "pram=", "=70%", "pram=70", "pram=-1%", "pram=101%", "pram=nan%"]
    {
        let error = refused(text);
        assert!(error.help.as_ref().unwrap().contains("pram=70%"), "{text}: {error:?}");
    }
    let starts = |text: &str, reason: &str| {
        let error = refused(text);
        assert!(error.reason.starts_with(reason), "{text}: {error:?}");
    };
    starts("pram=60%,cxl=50%", "the shares are more than 100 %");
    starts("pram=10%,pram=10%", "`pram` has two shares");
    starts("0x10-0x10=pram", "`0x10-0x10` is no range");
    starts("0x10-0x30=pram,0x20-0x40=pram", "0x20-0x40 lies in two ranges");
    starts("hot=1", "`1` of DRAM cannot be had");
    starts("hot=4097", "`4097` of DRAM cannot be had");
    starts("hot=4096,rest=pram,rest=cxl", "`rest` says nothing");
    starts("hot=4096,every=1,every=2", "`every` says nothing");
    let many: Vec<String> =
        (0..=MAX_RANGES).rev().map(|n| format!("{:#x}-{:#x}=pram", n, n + 1)).collect();
    assert!(many[1..].join(",").parse::<PlacementSpec>().is_ok());
    starts(&many.join(","), &format!("{} ranges", MAX_RANGES + 1));
    starts("hot=2GiB", "`2GiB` of DRAM");
    starts("hot=99999999999GiB", "`99999999999GiB` of DRAM");
    starts("hot=4096,every=0", "`0` is no number");
    starts("hot=4096,rest=dram", "pages that are not hot have no medium");
    assert!(refused("hot=4096,res=pram").help.unwrap().contains("did you mean `rest`?"));
    assert!(refused("prm=70%").help.unwrap().contains("did you mean `pram`?"));
    let alone = "hot=4096".parse::<PlacementSpec>().unwrap().resolve(&Media::dram_only());
    assert!(alone.unwrap_err().help.unwrap().contains("pram"));
}

#[test]
fn lines_are_divided_and_what_rounding_leaves_stays_in_dram() {
    let counts = Counts::new(7, Lines(10), Lines(3));
    let divided = divide(&counts, &[0.25, 0.25, 0.5, 0.0]);
    let of = |medium| divided.traffic(MediumId::new(medium).unwrap());
    // 2.5 and 0.75 are rounded up, 5 and 1.5 too.
    assert_eq!(of(1), Traffic { reads: Lines(3), writes: Lines(1) });
    assert_eq!(of(2), Traffic { reads: Lines(5), writes: Lines(2) });
    assert_eq!(of(0), Traffic { reads: Lines(2), writes: Lines(0) });
    // Of one line, only one half can be rounded up.
    let one = divide(&Counts::new(0, Lines(1), Lines(1)), &[0.0, 0.5, 0.5, 0.0]);
    let each = Traffic { reads: Lines(1), writes: Lines(1) };
    let found = MediumId::ALL.map(|medium| one.traffic(medium));
    assert_eq!(found[..3], [Traffic::default(), each, Traffic::default()]);
}

#[test]
fn placements_are_written_as_they_are_read() {
    for text in
        ["pram=25%,cxl=50%", "0x1000-0x2000=pram,0x2000-0xffff=cxl", "hot=8192,rest=cxl,every=10"]
    {
        assert_eq!(text.parse::<PlacementSpec>().unwrap().to_string(), text);
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
        let _ = text.parse::<PlacementSpec>().map(|spec| spec.resolve(&media()));
    }

    #[test]
    fn any_combination_of_words_is_read_or_refused(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "hot", "rest", "every", "pram", "dram", "=", ",", "%", "-", "0x", "1", "64MiB", "70%",
            ]),
            0..12,
        )
    ) {
        if let Ok(spec) = words.concat().parse::<PlacementSpec>() {
            prop_assert_eq!(spec.to_string().parse::<PlacementSpec>(), Ok(spec));
        }
    }

    #[test]
    fn no_line_is_lost_or_made(
        reads in 0_u64..1 << 40,
        writes in 0_u64..1 << 40,
        weights in prop::array::uniform4(0.0_f64..1.0),
    ) {
        let sum: f64 = weights.iter().sum::<f64>().max(1e-9);
        let counts = Counts::new(1, Lines(reads), Lines(writes));
        let divided = divide(&counts, &weights.map(|weight| weight / sum));
        prop_assert_eq!((divided.reads, divided.writes), (counts.reads, counts.writes));
        let total = MediumId::ALL.map(|id| divided.traffic(id)).into_iter().fold(
            Traffic::default(),
            |sum, traffic| sum + traffic,
        );
        prop_assert_eq!(total, Traffic { reads: counts.reads, writes: counts.writes });
    }
}
