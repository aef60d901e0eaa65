use proptest::prelude::*;

use super::*;

/// Machine H of the DRAM tests: column, bank group, bank, row from the lowest bit up.
const PLAIN: &str = r#"
name = "row, bank, bank group, column"
bits = 33
function = [
    { role = "bank-group", bits = [13] }, { role = "bank-group", bits = [14] },
    { role = "bank", bits = [15] }, { role = "bank", bits = [16] },
]
row = [17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32]
column = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
"#;

fn hashed(offset: u64, interleave: Option<Interleave>) -> AddressMap {
    let bits = |list: &[u8]| XorFunction::of_bits(list);
    let set = |list: &[u8]| SetFunction { role: Role::Set, function: bits(list) };
    AddressMap {
        name: "hashed".to_owned(),
        source: None,
        offset,
        interleave,
        bits: 30,
        functions: vec![set(&[6, 13]), set(&[14, 17]), set(&[15, 18]), set(&[16, 19])],
        row: (17..30).map(|bit| if bit == 20 { bits(&[14, 20]) } else { bits(&[bit]) }).collect(),
        column: (0..14).filter(|bit| *bit != 6).map(|bit| bits(&[bit])).collect(),
    }
}

#[test]
fn reads_a_file_and_decodes() {
    let map = AddressMap::parse("map.toml", PLAIN).unwrap();
    let location = map.decode(PhysAddr(5 << 17 | 2 << 15 | 3 << 13 | 0x1234));
    assert_eq!(location, Location { way: 0, set: 0b1011, row: 5, column: 0x1234 });
    assert_eq!(map.value_of(Role::Bank, PhysAddr(2 << 15)), 2);
    assert_eq!(map.coloring(12).colors(), 16);
    assert_eq!(map.coloring(16).colors(), 2);
}

#[test]
fn refuses_with_line_key_and_reason() {
    let refused = |text: &str| AddressMap::parse("m.toml", text).unwrap_err().to_string();
    let text = PLAIN.replace("bits = [14]", "bits = [34]");
    assert_eq!(
        refused(&text),
        "m.toml:5: function[1].bits[0]: bit 34 is not in the address\n  help: the map speaks of bits 0 to 32 (`bits = 33`)"
    );
    assert!(refused(&PLAIN.replace("bits = [14]", "bits = [13]")).contains("13 is a sum of"));
    let incomplete = refused(&PLAIN.replace(" 31, 32]", "]"));
    assert!(incomplete.contains("31 functions of banks"), "{incomplete}");
    assert!(incomplete.contains("not bijective") && incomplete.contains("without effect: 31, 32"));
    let twice = PLAIN.replace(" 31, 32]", " 32]").replace("bits = 33", "bits = 34");
    assert!(refused(&twice).contains("without effect: 31, 33"));
    let sixteen: Vec<String> = (13..29).map(|bit| format!("{{ bits = [{bit}] }}")).collect();
    let banks =
        |list: &[String]| format!("name = \"x\"\nbits = 40\nfunction = [{}]", list.join(", "));
    assert!(AddressMap::parse("m.toml", &banks(&sixteen)).is_ok());
    let seventeen = [&sixteen[..], &["{ bits = [29] }".to_owned()]].concat();
    assert!(refused(&banks(&seventeen)).contains("17 functions of banks are more"));
    assert!(refused(&PLAIN.replace("\"bank\"", "\"bnk\"")).contains("did you mean `bank`"));
}

#[test]
fn a_map_says_nothing_of_addresses_outside_of_it() {
    let map = hashed(0x1000, None);
    let refused = |map: &AddressMap, address| {
        map.covers(PhysAddr(address)).err().map(|refusal| refusal.reason)
    };
    assert!(refused(&map, 0xfff).unwrap().contains("below the map's offset 0x1000"));
    assert_eq!(refused(&map, 0x1000), None);
    assert_eq!(refused(&map, (1 << 30) + 0xfff), None);
    assert!(refused(&map, (1 << 30) + 0x1000).unwrap().contains("beyond the 30 address bits"));
    // Without columns it says something of banks.
    let banks = AddressMap { column: Vec::new(), ..map };
    assert_eq!(refused(&banks, 1 << 40), None);
    assert_eq!(banks.encode(banks.decode(PhysAddr(0x1000))), None);
}

#[test]
fn blocks_go_round_three_channels() {
    let interleave = Interleave { channels: 3, granule: Bytes(256) };
    let map = hashed(0, Some(interleave));
    let ways: Vec<u32> = (0..7).map(|block| map.decode(PhysAddr(block * 256)).way).collect();
    assert_eq!(ways, [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(map.enter(PhysAddr(3 * 256 + 7)), (0, 256 + 7));
    assert_eq!(map.coloring(12).colors(), 1);
}

proptest! {
    #[test]
    fn every_location_leads_back_to_its_address(
        inner in 0u64..1 << 30,
        offset in prop::sample::select(vec![0, 512 << 20, 768 << 20]),
        channels in prop::option::of(2u32..13),
    ) {
        let interleave = channels.map(|channels| Interleave { channels, granule: Bytes(4096) });
        let map = hashed(offset, interleave);
        map.validate().unwrap();
        let address = PhysAddr(inner + offset);
        prop_assert_eq!(map.encode(map.decode(address)), Some(address));
    }

    #[test]
    fn files_read_what_they_write(
        name in "[ -~\n]{0,12}",
        offset in prop::sample::select(vec![0, 512 << 20]),
        interleaved: bool,
    ) {
        let interleave = interleaved.then_some(Interleave { channels: 3, granule: Bytes(256) });
        let map = AddressMap { name, source: Some("a \"source\"".to_owned()), ..hashed(offset, interleave) };
        prop_assert_eq!(AddressMap::parse("map.toml", &map.to_toml()), Ok(map));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(bits|row|column|name|offset| = |\\[|\\]|[0-9]|\\n|\"|\\{|\\}|,){0,60}") {
        let _ = AddressMap::parse("map.toml", &text);
    }
}
