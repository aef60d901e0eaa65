//! Traces of other tools: ChampSim, Valgrind's lackey and DynamoRIO's drmemtrace, also compressed.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use memweir_core::Direction::{self, Read as R, Write as W};
use memweir_core::input::InputError;
use memweir_core::names::Named;
use memweir_trace::{Access, AddressSpace, Format, Header, Side, ThreadId, Totals, Trace, Writer};
use proptest::prelude::*;

fn open(bytes: impl AsRef<[u8]>, format: Option<Format>) -> Result<Trace, InputError> {
    Trace::read("t", Box::new(Cursor::new(bytes.as_ref().to_vec())), format)
}

fn all(trace: &mut Trace) -> Result<Vec<Access>, InputError> {
    let mut accesses = Vec::new();
    while let Some(access) = trace.next_access()? {
        accesses.push(access);
    }
    Ok(accesses)
}

fn access(gap: u64, address: u64, direction: Direction) -> Access {
    Access { address, gap, thread: ThreadId::default(), direction }
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A record as ChampSim's tracer lays it out, by hand.
fn record(ip: u64, branch: [u8; 2], written: [u64; 2], read: [u64; 4]) -> Vec<u8> {
    let mut bytes = ip.to_le_bytes().to_vec();
    bytes.extend(branch);
    // Two registers written and four read.
    bytes.extend([6, 0, 6, 25, 0, 0]);
    written.iter().chain(&read).for_each(|address| bytes.extend(address.to_le_bytes()));
    bytes
}

fn champsim() -> Vec<u8> {
    [
        record(0x40_1000, [0, 0], [0; 2], [0; 4]),
        record(0x40_1004, [0, 0], [0; 2], [0x7fff_0010, 0, 0x7fff_1010, 0]),
        record(0x40_1008, [1, 1], [0; 2], [0; 4]),
        record(0x40_1000, [0, 0], [0x5000, 0], [0x5000, 0, 0, 0]),
        record(0x40_1004, [0, 0], [0, 0x6008], [0; 4]),
        record(0x40_1008, [1, 0], [0; 2], [0; 4]),
    ]
    .concat()
}

#[test]
fn a_champsim_record_is_an_instruction() {
    let wanted = [
        access(2, 0x7fff_0010, R),
        access(0, 0x7fff_1010, R),
        access(2, 0x5000, R),
        access(0, 0x5000, W),
        access(1, 0x6008, W),
    ];
    let mut trace = open(champsim(), Some(Format::ChampSim)).unwrap();
    assert_eq!(all(&mut trace).unwrap(), wanted);
    let header = trace.header();
    assert_eq!((header.side, header.addresses), (Side::Core, AddressSpace::Virtual));
}

#[test]
fn champsim_traces_are_recognized_by_their_names() {
    let directory = tempfile::tempdir().unwrap();
    for (name, wanted) in [
        ("a.champsim", Format::ChampSim),
        ("a.champsimtrace", Format::ChampSim),
        ("401.bzip2-38B.trace", Format::ChampSim),
        ("a.bin", Format::Binary),
        ("a", Format::Binary),
    ] {
        let path = directory.path().join(name);
        std::fs::write(&path, champsim()).unwrap();
        assert_eq!(Trace::open(&path, None).unwrap().format(), wanted, "{name}");
    }
}

#[test]
fn what_is_no_champsim_record_is_refused_with_its_number() {
    let mut cut = champsim();
    cut.truncate(5 * 64 + 63);
    let odd = [champsim(), record(0x40_1000, [0, 2], [0; 2], [0; 4]), champsim()].concat();
    for (bytes, wanted, before) in [
        (cut, "t: record 6: ends within a record: 63 of 64 bytes", 5),
        (odd, "t: record 7: bytes 8 and 9 are 0 and 2, no branch flags: they are 0 or 1", 5),
    ] {
        let mut trace = open(bytes, Some(Format::ChampSim)).unwrap();
        for _ in 0..before {
            assert!(trace.next_access().unwrap().is_some());
        }
        assert_eq!(trace.next_access().unwrap_err().to_string(), wanted);
        assert_eq!(trace.next_access().unwrap(), None);
    }
    let idle = record(0x40_1000, [0, 0], [0; 2], [0; 4]);
    let error = all(&mut open(idle, Some(Format::ChampSim)).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "t: the trace is empty: it holds no access");
}

/// Each of the eight rounds of the program in `lackey.s` loads, adds to memory, loads across two
/// lines, stores, pushes and pops; six instructions follow the last access.
#[test]
fn a_lackey_trace_has_every_access_and_instruction() {
    for name in ["lackey.txt", "lackey.txt.xz", "lackey.txt.gz"] {
        let mut trace = Trace::open(&data(name), None).unwrap();
        assert_eq!((trace.format(), trace.header().side), (Format::Lackey, Side::Core), "{name}");
        let accesses = all(&mut trace).unwrap();
        let round = [
            access(3, 0x40_2000, R),
            access(1, 0x40_2008, R),
            access(0, 0x40_2008, W),
            access(1, 0x40_2038, R),
            access(0, 0x40_2040, R),
            access(1, 0x40_2010, W),
            access(1, 0x1f_ff00_0758, W),
            access(1, 0x1f_ff00_0758, R),
        ];
        assert_eq!(accesses[..8], round);
        assert_eq!(accesses[8], access(4, 0x40_2040, R));
        let mut totals = Totals::default();
        accesses.iter().for_each(|access| totals.add(access));
        assert_eq!(totals, Totals { reads: 40, writes: 24, instructions: 77 - 6 });
    }
}

const DRMEMTRACE: &str = "\
Output format:
<--record#-> <--instr#->: <---tid---> <record details>
------------------------------------------------------------
           1           0:        7001 <marker: version 6>
           2           1:        7001 ifetch       6 byte(s) @ 0x0000000000401000 0f 84 5b 01 00 00    jz     $0x401161 (untaken)
           3           2:        7001 ifetch       5 byte(s) @ 0x0000000000401006 48 8b 5c 24 08       mov    0x08(%rsp)[8byte] -> %rbx
           4           2:        7001 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000401006
           5           3:        7002 ifetch       4 byte(s) @ 0x0000000000401020
           6           3:        7002 write       16 byte(s) @ 0x00007fdf64e2adf8 by PC 0x0000000000401020
           7           3:     W0.T7001 ifetch       4 byte(s) @ 0x000000000040100b
           8           4:       T7001 write        4 byte(s) @ 0x0000000000601040 by PC 0x000000000040100b
           9           4:        7001 <thread 7001 exited>
View tool results:
               4 : total instructions
";

/// Lines as DynamoRIO's `tools/view.cpp` prints them: bytes of a long instruction on a second line,
/// a string instruction that is fetched once, an instruction without its text, a kernel's marker
/// without a thread, prefetches and flushes.
const RARE: &str = "\
           1           1:     2765543 ifetch      10 byte(s) @ 0x0000000000404a78 48 b8 88 77 66 55 44 mov    $0x1122334455667788, %rax
           1           1:     2765543                                            33 22 11
           2           2:     2765543 ifetch       3 byte(s) @ 0x0000000000402680 f3 48 a5             rep movsq
           3           2:     2765543 read         8 byte(s) @ 0x00007f8881e37c70 by PC 0x0000000000402680
           4           2:     2765543 write        8 byte(s) @ 0x00007f8881e37a70 by PC 0x0000000000402680
           5           2:     2765543 ifetch       3 byte(s) @ 0x0000000000402680 non-fetched instruction
           6           2:     2765543 read         8 byte(s) @ 0x00007f8881e37c78 by PC 0x0000000000402680
------------------------------------------------------------
<marker: core is idle>
           7           3:     2765543 ifetch       4 byte(s) @ 0x0000000000402683 non-branch
           8           3:     2765543 pref-r-L1    1 byte(s) @ 0x00007f8881e37cc0 by PC 0x0000000000402683
           9           3:     2765543 dflush      64 byte(s) @ 0x00007f8881e37cc0 by PC 0x0000000000402683
          10           4:     2765543 ifetch       2 byte(s) @ 0x0000000000402687 conditional jump
          11           5:     2765543 ifetch       4 byte(s) @ 0x0000000000402689 non-branch
          12           5:     2765543 read        64 byte(s) @ 0x00007f8881e37d00 by PC 0x0000000000402689
View tool results:
              6 : total instructions
";

/// The form before version 5 of the traces.
const OLD: &str = "\
Output format:
<record#>: T<tid> <record details>
------------------------------------------------------------
        1: T1774669 <marker: version 4>
   173369: T1774669 ifetch       3 byte(s) @ 0x0000000000402680 f3 48 a5             rep movsq
   173370: T1774669 read         8 byte(s) @ 0x00007f8881e37c70 by PC 0x0000000000402680
";

#[test]
fn rare_and_old_lines_of_the_view_are_read() {
    let of = |thread, access| Access { thread: ThreadId { process: 0, thread }, ..access };
    let wanted = [
        of(2_765_543, access(2, 0x7f88_81e3_7c70, R)),
        of(2_765_543, access(0, 0x7f88_81e3_7a70, W)),
        of(2_765_543, access(0, 0x7f88_81e3_7c78, R)),
        of(2_765_543, access(3, 0x7f88_81e3_7d00, R)),
    ];
    for text in [RARE, &RARE.replace(" 2765543", "W0.T2765543")] {
        assert_eq!(all(&mut open(text, None).unwrap()).unwrap(), wanted);
    }
    let wanted = [of(1_774_669, access(1, 0x7f88_81e3_7c70, R))];
    assert_eq!(all(&mut open(OLD, None).unwrap()).unwrap(), wanted);
}

/// Ramulator 2 reads the three fields by `std::stoi` and `std::stoll`, to which `0x1a40` is 0.
#[test]
fn simple_o3_is_written_in_decimal() {
    let header = Format::SimpleO3.header();
    let mut writer = Writer::start(Vec::new(), Format::SimpleO3, &header).unwrap();
    for access in [access(11, 0x1a40, R), access(0, 0x2b80, W), access(1, 0x40, R)] {
        writer.push(&access).unwrap();
    }
    let (text, _) = writer.finish().unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), "10 6720 11136\n0 64\n");
}

#[test]
fn the_view_of_drmemtrace_has_threads() {
    let of = |thread, access| Access { thread: ThreadId { process: 0, thread }, ..access };
    let wanted = [
        of(7001, access(2, 0x7fdf_64e2_adc8, R)),
        of(7002, access(1, 0x7fdf_64e2_adf8, W)),
        of(7002, access(0, 0x7fdf_64e2_ae00, W)),
        of(7001, access(1, 0x60_1040, W)),
    ];
    let mut trace = open(DRMEMTRACE, None).unwrap();
    assert_eq!(trace.format(), Format::Drmemtrace);
    assert_eq!(all(&mut trace).unwrap(), wanted);
}

#[test]
fn lines_that_are_not_of_the_tool_are_refused() {
    for (text, wanted) in [
        ("I  400,4\n L 1000\n", "t:2: address: `1000` is not followed by a comma and a size"),
        ("I  400,4\n L 10g0,8\n", "t:2: address: `10g0` is no hexadecimal number"),
        ("I  400,4\n L 1000,0\n", "t:2: size: 0 is no size of an access"),
        ("I  400,4\n L ffffffffffffffff,8\n", "t:2: address: 0xffffffffffffffff ends beyond"),
        ("I  400,4\nhello world\n", "t:2: operation: `hello` is no operation: I, L, S or M"),
        ("I  400,4\n L 1000,8 9\n", "t:2: end of line: `9` stands behind the last field"),
        ("1 1: 7 read 8 byte(s) @ 0x40\nread 8\n", "t:2: record: is no line of the `view` tool"),
        ("1 1: x read 8 byte(s) @ 0x40\n", "t:1: thread: `x` is no number"),
        ("1 1: 7 read 8 bytes at 0x40\n", "t:1: size: is not followed by `byte(s) @`"),
    ] {
        let error = all(&mut open(text, None).unwrap()).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{text:?}: {error}");
    }
}

#[test]
fn a_compressed_file_that_ends_early_is_refused() {
    let whole = std::fs::read(data("lackey.txt.xz")).unwrap();
    let error = match open(&whole[..whole.len() - 30], None) {
        Ok(mut trace) => all(&mut trace).unwrap_err(),
        Err(error) => error,
    };
    assert!(error.to_string().starts_with("t: "), "{error}");
}

#[test]
fn a_trace_before_the_caches_stays_one_in_our_format() {
    for side in [Side::Core, Side::Memory] {
        let header = Header { name: "p".to_owned(), addresses: AddressSpace::Virtual, side };
        let mut writer = Writer::start(Vec::new(), Format::Memweir, &header).unwrap();
        writer.push(&access(1, 0x40, R)).unwrap();
        let trace = open(writer.finish().unwrap().0, None).unwrap();
        assert_eq!(trace.header(), &header);
    }
}

#[test]
fn a_format_that_is_only_read_has_no_writer() {
    for format in [Format::Lackey, Format::Drmemtrace] {
        let refused = Writer::start(Vec::new(), format, &Header::default()).map(|_| ());
        assert!(refused.unwrap_err().to_string().contains("is read and not written"));
        assert!(!format.is_writable());
    }
}

fn written(accesses: &[Access]) -> Vec<u8> {
    let header = Format::ChampSim.header();
    let mut writer = Writer::start(Vec::new(), Format::ChampSim, &header).unwrap();
    accesses.iter().for_each(|access| writer.push(access).unwrap());
    writer.finish().unwrap().0
}

proptest! {
    /// A further access of an instruction has no gap; at most four reads, then at most two writes.
    #[test]
    fn champsim_traces_survive_writing_and_reading(
        instructions in prop::collection::vec(
            (1u64..6, prop::collection::vec(1u64.., 0..=4), prop::collection::vec(1u64.., 0..=2)),
            1..60,
        ),
    ) {
        let mut accesses = Vec::new();
        let mut gap = 0;
        for (distance, reads, writes) in instructions {
            gap += distance;
            let reads = reads.into_iter().map(|address| (address, R));
            let writes = writes.into_iter().map(|address| (address, W));
            for (address, direction) in reads.chain(writes) {
                accesses.push(access(std::mem::take(&mut gap), address, direction));
            }
        }
        prop_assume!(!accesses.is_empty());
        let bytes = written(&accesses);
        prop_assert_eq!(bytes.len() as u64, 64 * accesses.iter().map(|a| a.gap).sum::<u64>());
        let mut trace = open(bytes, Some(Format::ChampSim)).unwrap();
        prop_assert_eq!(all(&mut trace).unwrap(), accesses);
    }

    #[test]
    fn texts_of_likely_bytes_are_read_or_refused(
        text in "[0-9a-fxILSMTW@:,= \n-]{0,200}", which in 6usize..9,
    ) {
        let _ = open(&text, Some(Format::ALL[which])).map(|mut trace| all(&mut trace));
        let _ = open(&text, None).map(|mut trace| all(&mut trace));
    }
}
