//! Device files: accepted and refused contents.

use memweir_core::{Cycles, Picos};

use super::*;
use crate::command::CommandKind;

const H: &str = include_str!("../../data/ddr4-2400.toml");

fn refusal(from: &str, to: &str) -> String {
    assert!(H.contains(from), "`{from}` is not in the file");
    MemorySpec::parse("x.toml", &H.replace(from, to)).unwrap_err().to_string()
}

#[test]
fn reads_the_machine_of_the_common_experiment() {
    let spec = MemorySpec::shipped("ddr4-2400").unwrap();
    assert_eq!(spec.organization.rank_bytes().0, 8 << 30);
    assert_eq!(spec.organization.lines_of_row(), 128);
    assert_eq!(spec.organization.devices(), 8);
    assert_eq!(spec.refresh_interval(), Some(Cycles(9360)));
    assert_eq!((spec.read_latency, spec.write_latency), (Cycles(17), Cycles(12)));
    let wait = |from, to, level, window| {
        let found = spec.constraints.iter().find(|c| {
            (c.from, c.to, c.level, c.window, c.scope) == (from, to, level, window, Scope::Same)
        });
        found.map(|c| c.wait.0)
    };
    use CommandKind::{Activate, Precharge, Read, Write};
    assert_eq!(wait(Write, Read, Level::Rank, 1), Some(19));
    assert_eq!(wait(Write, Read, Level::BankGroup, 1), Some(25));
    assert_eq!(wait(Read, Write, Level::Rank, 1), Some(11));
    assert_eq!(wait(Write, Precharge, Level::Bank, 1), Some(34));
    assert_eq!(wait(Activate, Activate, Level::Rank, 4), Some(26));
}

#[test]
fn rounds_spans_of_time_as_the_standards_say() {
    let clock = Picos(833);
    // 14.16 ns are 16.9988 cycles; 14.17 ns 17.0108.
    assert_eq!(Rounding::Up.cycles(Picos(14_160), clock), Cycles(17));
    assert_eq!(Rounding::Up.cycles(Picos(14_170), clock), Cycles(18));
    assert_eq!(Rounding::Ddr4.cycles(Picos(14_170), clock), Cycles(17));
    // 14.19 ns are 17.0348 cycles.
    assert_eq!(Rounding::Ddr4.cycles(Picos(14_190), clock), Cycles(18));
    // DDR5-4800, 416 ps: 16 ns are 38.46 cycles, and 0.3 % less does not change it.
    assert_eq!(Rounding::Ddr5.cycles(Picos(16_000), Picos(416)), Cycles(39));
    assert_eq!(Rounding::Ddr5.cycles(Picos(16_640), Picos(416)), Cycles(40));
    // 417.043 ns are 1002.5 cycles, and 0.3 % less 999.5.
    assert_eq!(Rounding::Ddr5.cycles(Picos(417_043), Picos(416)), Cycles(1000));
    for rounding in [Rounding::Up, Rounding::Ddr4, Rounding::Ddr5] {
        assert_eq!(rounding.cycles(Picos(0), clock), Cycles(0));
    }
}

#[test]
fn the_greater_of_both_counts() {
    let spec = MemorySpec::shipped("ddr4-2400").unwrap();
    // 5 ns are 6.002 cycles of 0.833 ns, forgiven down to 6; 6 ns 7.2.
    assert_eq!(spec.timing.get("tCKE"), Some(Cycles(6)));
    assert_eq!(spec.timing.get("tXP"), Some(Cycles(8)));
}

#[test]
fn refuses_what_is_wrong_with_line_and_key() {
    let unknown = refusal("tRCD = 17", "tRCD = 17\ntRCDx = 17");
    assert!(unknown.contains("timing.tRCDx: unknown key"), "{unknown}");
    assert!(unknown.starts_with("x.toml:"), "{unknown}");
    assert!(refusal("tRCD = 17\n", "").contains("`tRCD` is missing"));
    assert!(refusal("tRFC = 420", "tRFC = -1").contains("-1 is out of range"));
    assert!(refusal("tRFC = 420", "tRFC = {}").contains("says nothing"));
    let endless = refusal("tREFI = 9360", "tREFI = { ns = 7.8 }");
    assert!(endless.contains("timing.tREFI: refreshes are due faster"), "{endless}");
    assert!(refusal("tRFC = 420", "tRFC = 9360").contains("timing.tREFI"));
    assert!(refusal("rows = 65536", "rows = 65535").contains("`rows` is 65535"));
    assert!(refusal("bus_bits = 64", "bus_bits = 32").contains("a burst carries 32 bytes"));
    assert!(refusal("device_bits = 8", "device_bits = 128").contains("wider than the bus"));
    assert!(refusal("columns = 1024", "columns = 4").contains("shorter than a line"));
    assert!(refusal("columns = 1024", "columns = 1048576").contains("a row has 131072 lines"));
    let ranks = refusal("ranks = 1", "ranks = 16777216");
    assert!(ranks.contains("16777216 ranks"), "{ranks}");
    assert!(refusal("\"ddr4\"", "\"ddr44\"").contains("did you mean `ddr4`"));
    assert!(refusal("idd0 = 48", "idd0 = -1").contains("idd0"));
}

#[test]
fn refuses_commands_that_would_draw_negative_energy() {
    // 34 mA with closed banks and 43 with open ones, of which half is for the first of 16:
    // 38.5 + 4.5 / 16.
    for (from, to, key, background) in [
        ("idd0 = 48", "idd0 = 38.7", "idd0: 38.7 mA is less than", "38.8 mA"),
        ("idd4r = 135", "idd4r = 42", "idd4r: 42 mA is less than", "all banks open, 43.0 mA"),
        ("idd4w = 123", "idd4w = 42", "idd4w: 42 mA is less than", "all banks open, 43.0 mA"),
        ("idd5b = 250", "idd5b = 42", "idd5b: 42 mA is less than", "all banks open, 43.0 mA"),
        ("idd2n = 34", "idd2n = 49", "idd0: 48 mA is less than", "or none, 49.0 mA"),
        ("idd3n = 43", "idd3n = 140", "currents.rails[0].idd0", "or none, 90.3 mA"),
    ] {
        let refused = refusal(from, to);
        assert!(refused.contains(key) && refused.contains(background), "{refused}");
        assert!(refused.starts_with("x.toml:"), "{refused}");
    }
    for (from, to) in [("idd0 = 48", "idd0 = 38.8"), (", idd5b = 250", "")] {
        assert!(MemorySpec::parse("x.toml", &H.replace(from, to)).is_ok(), "{to}");
    }
}

#[test]
fn a_device_may_add_constraints() {
    let own =
        "constraint = [{ level = \"bank\", from = \"write\", to = \"read\", wait = \"tWR\" }]\n";
    let spec = MemorySpec::parse("x", &format!("{own}{H}")).unwrap();
    let last = spec.constraints.last().unwrap();
    assert_eq!((last.level, last.wait), (Level::Bank, Cycles(18)));
    let wrong = MemorySpec::parse("x", &format!("{}{H}", own.replace("tWR", "tWX"))).unwrap_err();
    assert!(wrong.to_string().contains("no parameter `tWX`"), "{wrong}");
}
