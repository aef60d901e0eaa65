//! The text format of command traces.

use proptest::prelude::*;

use super::super::text::{Reader, Writer};
use crate::command::{BankAddress, Command, CommandKind};
use memweir_core::Cycles;

fn read(text: &str) -> Result<Vec<Command>, String> {
    let lines = Reader::new("x.txt", text.as_bytes());
    lines.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

prop_compose! {
    fn commands()(
        at: u64, kind in 0..CommandKind::COUNT, to: (u16, u16, u16, u16), row: u32, column: u32,
    ) -> Command {
        let (channel, rank, group, bank) = to;
        let to = BankAddress { channel, rank, group, bank };
        Command { at: Cycles(at), kind: CommandKind::ALL[kind].1, to, row, column }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(commands in prop::collection::vec(commands(), 0..20)) {
        let mut writer = Writer::new(Vec::new());
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
