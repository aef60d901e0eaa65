use memweir_core::names::Named;
use proptest::prelude::*;

use super::*;

fn functions(map: &AddressMap) -> Vec<Vec<u8>> {
    map.functions.iter().map(|f| f.function.bits().collect()).collect()
}

fn imported(text: &str) -> Imported {
    import("map.txt", text, None).unwrap()
}

fn refused(text: &str, format: Option<Format>) -> String {
    import("map.txt", text, format).unwrap_err().to_string()
}

#[test]
fn lists_of_bits() {
    let plain = imported("14 18\n15 19\n16 20\n17 21\n8 9 12 13 14 15\n");
    assert_eq!(functions(&plain.map)[4], [8, 9, 12, 13, 14, 15]);
    assert_eq!((plain.map.bits, plain.notes.len()), (22, 0));
    let rated =
        imported("6 13  (Correct: 95%)\r\n14 17 (Correct: 100%)\r\n6 13 14 17 (Correct: 90%)\r\n");
    assert_eq!(functions(&rated.map), [[6, 13], [14, 17]]);
    assert_eq!(rated.notes, ["1 of 3 functions are sums of the others and were left out"]);
    assert_eq!(
        refused("14 18\n15 x\n", None),
        "map.txt:2: `x` is no address bit\n  help: numbers from 0 to 62"
    );
    assert!(refused("# nothing\n", None).contains("no function"));
    let explained = imported("# palloc's xormap\n14 18 # 0x44000\n15 19 (0x88000)\n");
    assert_eq!(functions(&explained.map), [[14, 18], [15, 19]]);
}

#[test]
fn dramdig_tells_rows_and_columns() {
    let text = "reading...\n=== bank addr funs (5): ===\n17, 20,\n16, 19,\n15, 18,\n7, 14,\n8, 9, 12, 13, 18, 19,\n \
        === row bits: (16) ===\n18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33,\n \
        === column bits: (13)===\n0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13,\n";
    let dramdig = imported(text);
    assert_eq!(dramdig.notes, Vec::<String>::new());
    assert!(dramdig.map.is_complete());
    assert_eq!((dramdig.map.functions.len(), dramdig.map.row.len(), dramdig.map.bits), (5, 16, 34));
    let short = imported(&text.replace("0, 1, 2,", "0, 1,"));
    assert!(!short.map.is_complete());
    assert!(
        short.notes[0].starts_with("rows and columns were left out: 33 functions"),
        "{:?}",
        short.notes
    );
}

#[test]
fn trrespass_prints_masks_or_is_compiled_with_a_layout() {
    let printed = imported("0x4080\n0x48000\n0x3ffc0000\n");
    assert_eq!(functions(&printed.map), [[7, 14], [15, 18]]);
    assert_eq!(printed.map.row.len(), 12);
    let compiled =
        imported("DRAMLayout g_mem_layout = {{{0x2000,0x4000}, 2}, 0x3fff8000, ROW_SIZE-1};\n");
    assert_eq!(functions(&compiled.map), [[13], [14]]);
    assert!(compiled.map.is_complete());
    assert!(refused("DRAMLayout g = {{{0x2000", None).contains("cut short"));
    for wrong in ["0xzz", "0x0", "0x8000000000000000"] {
        let said = refused(&format!("0x4080\n{wrong}\n"), None);
        assert!(said.contains(&format!("map.txt:2: `{wrong}` is no mask")), "{said}");
    }
}

#[test]
fn palloc_pairs_bits_of_its_mask() {
    let text = "echo 0x0001e000 > /sys/kernel/debug/palloc/palloc_mask\necho xor 13 17 > control\necho xor 14 18 > control\n";
    assert_eq!(functions(&imported(text).map), [vec![13, 17], vec![14, 18], vec![15], vec![16]]);
    assert!(
        refused(&text.replace("xor 14", "xor 19"), None)
            .contains("map.txt:3: bit 19 is not in the mask")
    );
    assert!(refused("xor 1 2", None).contains("no `palloc_mask`"));
}

#[test]
fn dramsys_names_the_roles() {
    let text = r#"{"addressmapping": {"BYTE_BIT": [0, 1, 2], "COLUMN_BIT": [3, 4, 5, 6],
        "BANKGROUP_BIT": [[7, 11]], "BANK_BIT": [8, 9], "RANK_BIT": [10], "ROW_BIT": [11, 12, 13]}}"#;
    let map = imported(text).map;
    assert!(map.is_complete());
    assert_eq!(
        map.functions_of(Role::BankGroup).collect::<Vec<_>>(),
        [XorFunction::of_bits(&[7, 11])]
    );
    assert!(refused(&text.replace("[8, 9]", "[8, -9]"), None).contains("BANK_BIT"));
    let twice = refused(&text.replace("[7, 11]", "[11, 11, 7]"), None);
    assert!(twice.contains("BANKGROUP_BIT: must be"), "{twice}");
    assert!(refused("{\"BANK_BIT\": [", None).contains("map.txt:1"));
}

#[test]
fn dramsys_pairs_bits_before_it_reads_them() {
    let text = r#"{"addressmapping": {"BYTE_BIT": [0, 1, 2], "COLUMN_BIT": [3, 4, 5, 6, 7],
        "BANK_BIT": [8, 9], "ROW_BIT": [10, 11],
        "XOR": [{"FIRST": 8, "SECOND": 11}, {"FIRST": 9, "SECOND": 8}]}}"#;
    let map = imported(text).map;
    assert!(map.is_complete());
    // Bit 8 is the sum of both already when it is added to bit 9.
    assert_eq!(functions(&map), [vec![8, 11], vec![8, 9, 11]]);
    for wrong in [r#""SECOND": 8"#, r#""SECOND": 63"#, r#""second": 11"#] {
        let refusal = refused(&text.replace(r#""SECOND": 11"#, wrong), None);
        assert!(refusal.contains("XOR: must be an array of pairs"), "{refusal}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(
        text in "(0x[0-9a-f]{1,17}|[0-9]{1,3}| |,|\\n|===|bank addr funs|row bits|xor |palloc_mask|\\{\\{\\{|\\}|\\[|\\]|\"BANK_BIT\": |\\(){0,40}",
        format in prop::sample::select(Format::ALL.to_vec()),
    ) {
        for format in [None, Some(format)] {
            if let Ok(imported) = import("x", &text, format) {
                imported.map.validate().unwrap();
            }
        }
    }
}
