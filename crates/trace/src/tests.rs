use std::io::Cursor;

use memweir_core::names::Named;
use proptest::prelude::*;

use super::*;

fn open(name: &str, bytes: impl AsRef<[u8]>, format: Option<Format>) -> Result<Trace, InputError> {
    Trace::read(name, Box::new(Cursor::new(bytes.as_ref().to_vec())), format)
}

fn all(mut trace: Trace) -> Result<Vec<Access>, InputError> {
    let mut accesses = Vec::new();
    while let Some(access) = trace.next_access()? {
        accesses.push(access);
    }
    Ok(accesses)
}

fn read(text: impl AsRef<[u8]>) -> Result<Vec<Access>, InputError> {
    all(open("t", text, None)?)
}

fn plain(address: u64, direction: Direction) -> Access {
    Access { address, gap: 0, thread: ThreadId::default(), direction }
}

fn written(format: Format, accesses: &[Access]) -> Vec<u8> {
    let header = Header {
        name: "a trace".to_owned(),
        addresses: AddressSpace::Virtual,
        ..Header::default()
    };
    let mut writer = Writer::start(Vec::new(), format, &header).unwrap();
    for access in accesses {
        writer.push(access).unwrap();
    }
    writer.finish().unwrap().0
}

use Direction::{Read as R, Write as W};

#[test]
fn reads_every_text_format() {
    let wanted = [plain(0x1a40, R), plain(0x80, W)];
    for text in [
        "LD 0x1a40\nST 0x80\n",
        "LD 6720\r\nST 128",
        "R 0X1A40\nW 128\n",
        "0x1a40 R\n0x80 W\n",
        "# a comment\n\n\t6720   R\n0x80 W\n\n",
        "0x1a40 READ 0\n80 WRITE 12\n",
        "1A40 read 3\r\n0x80 P_MEM_WR 12\r\n",
    ] {
        assert_eq!(read(text).unwrap(), wanted, "{text}");
    }
    let cores = read("10 0x1a40 0x80\n0 64\n").unwrap();
    let read_after = |gap, address| Access { gap, ..plain(address, R) };
    assert_eq!(cores, [read_after(11, 0x1a40), plain(0x80, W), read_after(1, 64)]);
}

#[test]
fn the_instructions_of_a_write_come_before_the_next_read_of_a_core() {
    let of = |gap, address, direction| Access { gap, ..plain(address, direction) };
    let accesses = [of(11, 64, R), of(100, 128, W), of(1, 192, R), of(0, 256, W), of(3, 320, R)];
    let text = String::from_utf8(written(Format::SimpleO3, &accesses)).unwrap();
    assert_eq!(text, "10 64 128\n100 192 256\n2 320\n");
}

#[test]
fn refuses_malformed_lines_with_line_and_field() {
    for (text, wanted) in [
        ("LD 0x40\nLD\n", "t:2: address: is missing"),
        ("LD 0x40\n\nLX 0x40\n", "t:3: operation: `LX` is no operation: LD or ST"),
        ("LD 0x40\nLD 0x4g\n", "t:2: address: `0x4g` is no hexadecimal number"),
        ("LD 0x\n", "t:1: address: `0x` is no hexadecimal number"),
        ("LD -64\n", "t:1: address: `-64` is no number"),
        (
            "LD 0x10000000000000000\n",
            "t:1: address: `0x10000000000000000` does not fit into 64 bits",
        ),
        (
            "LD 18446744073709551616\n",
            "t:1: address: `18446744073709551616` does not fit into 64 bits",
        ),
        ("LD 64 12\n", "t:1: end of line: `12` stands behind the last field"),
        ("0x40 R\n0x40 READ\n", "t:2: operation: `READ` is no operation: R or W"),
        ("0x40 READ 1\n0x40 READ\n", "t:2: cycle: is missing"),
        ("0x40 READ x\n", "t:1: cycle: `x` is no number"),
        ("10 64\nten 64\n", "t:2: bubbles: `ten` is no number"),
        ("10 64\n10 64 x\n", "t:2: write address: `x` is no number"),
        ("hello world\n", "t:1: `hello world` is in no known trace format"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.to_string().starts_with(wanted), "{text:?}: {error}");
    }
}

#[test]
fn what_comes_before_a_wrong_line_is_served_first() {
    let mut trace = open("t", "LD 64\nST 128\nLD 192 x\n", None).unwrap();
    assert_eq!(trace.next_access().unwrap(), Some(plain(64, R)));
    assert_eq!(trace.next_access().unwrap(), Some(plain(128, W)));
    assert!(trace.next_access().unwrap_err().to_string().starts_with("t:3: end of line"));
    assert_eq!(trace.next_access().unwrap(), None);
}

#[test]
fn refuses_empty_traces() {
    for text in ["", "\n\n", "# nothing\n"] {
        assert!(read(text).unwrap_err().reason.contains("empty"), "{text:?}");
    }
    assert!(all(open("t", "", Some(Format::Binary)).unwrap()).is_err());
    let none = written(Format::Memweir, &[]);
    assert!(read(none).unwrap_err().reason.contains("empty"));
}

#[test]
fn a_binary_trace_that_ends_within_an_access_is_refused() {
    let mut bytes = written(Format::Binary, &[plain(64, R), plain(1 << 40, W)]);
    bytes.pop();
    let error = read(bytes).unwrap_err();
    assert_eq!(error.to_string(), "t: access 2: ends within an access: 7 of 8 bytes");
}

#[test]
fn a_format_can_be_forced() {
    let error = all(open("t", "0x40 R\n", Some(Format::Ramulator2)).unwrap()).unwrap_err();
    assert!(error.reason.contains("`0x40` is no operation"), "{error}");
    assert!(open("t", "LD 64\n", Some(Format::Memweir)).is_err());
    assert!("ramulator".parse::<Format>().unwrap_err().help.unwrap().contains("ramulator2"));
}

#[test]
fn a_refused_access_is_named_by_its_line() {
    let mut trace = open("t", "# one\nLD 64\n\nLD 128\n", None).unwrap();
    trace.next_access().unwrap();
    assert_eq!(trace.refuse("too far").to_string(), "t:2: address: too far");
    trace.next_access().unwrap();
    assert_eq!(trace.refuse("too far").line, Some(4));
    let mut trace = open("t", written(Format::Binary, &[plain(64, R); 3]), None).unwrap();
    trace.next_access().unwrap();
    trace.next_access().unwrap();
    assert_eq!(trace.refuse("too far").to_string(), "t: access 2: too far");
}

/// Three blocks and a half.
fn long() -> Vec<Access> {
    let access = |i: u64| Access {
        address: i * i % 8191 * 64,
        gap: i % 7,
        thread: ThreadId { process: 1, thread: (i % 3) as u32 },
        direction: if i.is_multiple_of(4) { W } else { R },
    };
    (0..16384 * 7 / 2).map(access).collect()
}

#[test]
fn a_file_knows_its_totals_and_its_header() {
    let bytes = written(Format::Memweir, &long());
    let totals = compact::totals(&mut Cursor::new(&bytes)).unwrap().unwrap();
    assert_eq!((totals.accesses(), totals.writes), (57_344, 14_336));
    assert_eq!(totals.instructions, long().iter().map(|access| access.gap).sum::<u64>());
    let trace = open("t", &bytes, None).unwrap();
    assert_eq!(trace.header().name, "a trace");
    assert_eq!(trace.header().addresses, AddressSpace::Virtual);
    assert!(bytes.len() < 57_344 * 4, "{} bytes", bytes.len());
}

/// Reads the first `length` bytes of a file; returns the accesses and the truncation.
fn read_cut(bytes: &[u8], length: usize) -> (Vec<Access>, Option<Truncation>) {
    let mut trace = open("t", &bytes[..length], None).unwrap();
    let mut read = Vec::new();
    while let Some(access) = trace.next_access().unwrap() {
        read.push(access);
    }
    (read, trace.truncation())
}

#[test]
fn a_truncated_file_keeps_its_whole_blocks_and_says_what_is_lost() {
    let accesses = long();
    let bytes = written(Format::Memweir, &accesses);
    let whole = bytes.len();
    let cut = |accesses, loss| Some(Truncation { accesses, loss });
    assert_eq!(read_cut(&bytes, whole), (accesses.clone(), None));
    let (read, truncation) = read_cut(&bytes, whole * 2 / 3);
    assert_eq!(read, accesses[..2 * 16384]);
    assert_eq!(truncation, cut(32768, Loss::Certain));
    // The last 12 bytes lead to the end block from behind.
    let tail = &bytes[whole - 12..];
    let end_block = 12 + u32::from_le_bytes(tail[..4].try_into().unwrap()) as usize;
    let (read, truncation) = read_cut(&bytes, whole - end_block);
    assert_eq!((read, truncation), (accesses.clone(), cut(57_344, Loss::Possible)));
    let (read, truncation) = read_cut(&bytes, whole - end_block + 1);
    assert_eq!((read, truncation), (accesses, cut(57_344, Loss::None)));
}

fn any_access() -> impl Strategy<Value = Access> {
    let thread = (0u32..3, any::<u32>().prop_map(|t| t % 4))
        .prop_map(|(process, thread)| ThreadId { process, thread });
    (any::<u64>(), any::<u64>(), thread, any::<bool>()).prop_map(|(line, gap, thread, write)| {
        Access {
            address: line / 64 * 64,
            gap: gap >> (line % 64),
            thread,
            direction: if write { W } else { R },
        }
    })
}

proptest! {
    #[test]
    fn our_format_reads_what_it_writes(accesses in prop::collection::vec(any_access(), 1..300)) {
        prop_assert_eq!(read(written(Format::Memweir, &accesses)).unwrap(), accesses);
    }

    #[test]
    fn plain_formats_read_what_they_write(accesses in prop::collection::vec(any_access(), 1..50)) {
        let wanted: Vec<_> = accesses.iter().map(|a| plain(a.address, a.direction)).collect();
        for format in [Format::Binary, Format::Ramulator2, Format::Ramulator1, Format::Dramsim3] {
            let trace = open("t", written(format, &accesses), Some(format)).unwrap();
            prop_assert_eq!(all(trace).unwrap(), wanted.clone(), "{:?}", format);
        }
    }

    #[test]
    fn texts_are_recognized(accesses in prop::collection::vec(any_access(), 1..5)) {
        for format in [Format::Ramulator2, Format::Ramulator1, Format::Dramsim3, Format::Memweir] {
            prop_assert_eq!(open("t", written(format, &accesses), None).unwrap().format(), format);
        }
    }

    #[test]
    fn whatever_is_read_is_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..400), which in 0usize..9,
    ) {
        let _ = open("t", &bytes, Some(Format::ALL[which])).map(all);
        let _ = read(&bytes);
    }

    #[test]
    fn texts_of_likely_bytes_are_read_or_refused(text in "[0-9a-fxLDSTRWEAI# \t\r\n-]{0,200}", which in 1usize..6) {
        let _ = open("t", &text, Some(Format::ALL[which])).map(all);
        let _ = read(&text);
    }

    #[test]
    fn damage_is_noticed(at in 0usize..10_000, flip in 1u8..) {
        let accesses = &long()[..2000];
        let mut bytes = written(Format::Memweir, accesses);
        let at = at % bytes.len();
        bytes[at] ^= flip;
        let mut trace = match open("t", &bytes, Some(Format::Memweir)) {
            Ok(trace) => trace,
            Err(_) => return Ok(()),
        };
        let mut read = Vec::new();
        while let Ok(Some(access)) = trace.next_access() {
            read.push(access);
        }
        // The last twelve bytes lead to the end block and say nothing of the accesses.
        prop_assert!(read.is_empty() || read == accesses);
    }
}
