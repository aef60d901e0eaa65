//! The text format of command traces.

use proptest::prelude::*;

use super::super::Checker;
use super::super::text::{CommandWriter, Reader};
use crate::MemoryConfig;
use crate::command::{BankAddress, Command, CommandKind};
use crate::spec::{MemorySpec, SHIPPED};
use memweir_core::Cycles;
use memweir_core::names::Named;

fn read(text: &str) -> Result<Vec<Command>, String> {
    let lines = Reader::new("x.txt", text.as_bytes());
    lines.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

prop_compose! {
    fn commands()(
        at in 0..=Checker::LAST_CYCLE.0,
        kind in 0..CommandKind::COUNT,
        to: (u16, u16, u16, u16),
        row: u32,
        column: u32,
    ) -> Command {
        let (channel, rank, group, bank) = to;
        let to = BankAddress { channel, rank, group, bank };
        Command { at: Cycles(at), kind: CommandKind::ALL[kind], to, row, column }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(commands in prop::collection::vec(commands(), 0..20)) {
        let mut writer = CommandWriter::new(Vec::new());
        commands.iter().for_each(|command| writer.write(command));
        let text = String::from_utf8(writer.finish().unwrap()).unwrap();
        prop_assert_eq!(read(&text), Ok(commands));
    }

    #[test]
    fn no_text_makes_it_fall(text in "[a-z0-9# \n-]{0,80}") {
        let _ = read(&text);
    }
}

#[test]
fn reads_lines_with_comments_between() {
    let text = "# cycle command\n\n12 activate 0 1 2 3 4711 0\r\n  29 read 0 1 2 3 4711 17  \n";
    let commands = read(text).unwrap();
    assert_eq!(commands.len(), 2);
    assert_eq!(commands[0].row, 4711);
    assert_eq!((commands[1].at, commands[1].column, commands[1].to.bank), (Cycles(29), 17, 3));
}

#[test]
fn refuses_with_line_and_field() {
    let refused = |text: &str| read(text).unwrap_err();
    let error = refused("1 activate 0 0 0 0 0 0\n2 reed 0 0 0 0 0 0\n");
    assert!(error.starts_with("x.txt:2: command: unknown command `reed`"), "{error}");
    assert!(error.contains("`read`"), "{error}");
    assert!(refused("1 read 0 0").starts_with("x.txt:1: group: is missing"));
    assert!(refused("-1 read 0 0 0 0 0 0").starts_with("x.txt:1: cycle: `-1` is no number"));
    assert!(refused("1 read 0 70000 0 0 0 0").starts_with("x.txt:1: rank: "));
    assert!(refused("1 read 0 0 0 0 0 0 0").contains("`0` follows the last field"));
}

#[test]
fn what_is_no_text_is_refused_without_being_read_to_its_end() {
    let error = read(&"7".repeat(1 << 20)).unwrap_err();
    assert!(error.starts_with("x.txt:1: line: is too long"), "{error}");
    let lines = Reader::new("x.txt", &b"1 read\xff 0 0 0 0 0 0\n"[..]);
    assert!(lines.collect::<Result<Vec<_>, _>>().unwrap_err().to_string().contains("UTF-8"));
}

fn lines() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(CommandKind::names().collect::<Vec<_>>());
    let cycle = prop_oneof![0u64..2000, Just(0), (0u64..=Checker::LAST_CYCLE.0)];
    (cycle, kind, 0u16..3, 0u16..3, 0u16..9, 0u16..9, 0u32..3, 0u32..3).prop_map(
        |(at, kind, channel, rank, group, bank, row, column)| {
            format!("{at} {kind} {channel} {rank} {group} {bank} {row} {column}\n")
        },
    )
}

proptest! {
    /// For any commands in any order, the checker reports for each rule how often it was broken,
    /// and nothing overflows.
    #[test]
    fn no_commands_make_the_checker_fall(
        text in prop::collection::vec(lines(), 0..60),
        memory in prop::sample::select(SHIPPED.iter().map(|(name, _)| *name).collect::<Vec<_>>()),
    ) {
        let config = MemoryConfig::new(MemorySpec::shipped(memory).unwrap());
        let mut checker = Checker::new(&config).unwrap();
        for command in read(&text.concat()).unwrap() {
            checker.check(&command);
        }
        checker.finish(checker.last());
        prop_assert_eq!(checker.count(), checker.counts().values().sum::<u64>());
        prop_assert_eq!(checker.commands(), text.len() as u64);
    }
}
