//! Values of the command's options: every value parser of every subcommand.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::LazyLock;

use clap::builder::ValueParser;
use clap::{Arg, Command};

use crate::Seeds::Made;
use crate::Target;

/// The first two bytes choose the option, the rest is its value.
pub(crate) static VALUES: Target = Target::new(
    "option-values",
    values,
    &[Made(|| {
        let all =
            (0..PARSERS.len() as u16).flat_map(|number| EXAMPLES.map(|value| (number, value)));
        all.map(|(number, value)| [&number.to_le_bytes(), value.as_bytes()].concat()).collect()
    })],
);

/// Values in the forms that options take.
const EXAMPLES: [&str; 14] = [
    "64M",
    "100ms",
    "4GB/s",
    "8M:16",
    "10%",
    "0x1000-0x9000=pram",
    "hot=64MiB",
    "0-3,7",
    "read=2x,write=12x",
    "memfd:1G",
    "auto:4",
    "cores=1..8",
    "0.2,0.8",
    "map:a.json#b",
];

/// The value parsers of all options and arguments, without repetitions of one option.
static PARSERS: LazyLock<Vec<ValueParser>> = LazyLock::new(|| {
    let mut parsers = Vec::new();
    collect(&memweir::command(), &mut parsers);
    parsers
});

fn collect(command: &Command, parsers: &mut Vec<ValueParser>) {
    let takes_value = |arg: &&Arg| arg.get_action().takes_values();
    parsers.extend(
        command.get_arguments().filter(takes_value).map(|arg| arg.get_value_parser().clone()),
    );
    command.get_subcommands().for_each(|sub| collect(sub, parsers));
}

fn values(data: &[u8]) {
    let Some((number, value)) = data.split_first_chunk() else { return };
    let number = usize::from(u16::from_le_bytes(*number));
    let Some(parser) = PARSERS.get(number % PARSERS.len()) else { return };
    // No process has an argument with a zero byte.
    if value.contains(&0) {
        return;
    }
    let argument = Arg::new("value").allow_hyphen_values(true).value_parser(parser.clone());
    let command = Command::new("fuzz").disable_help_flag(true).arg(argument);
    let _ = command.try_get_matches_from([
        OsString::from("fuzz"),
        "--".into(),
        OsString::from_vec(value.to_vec()),
    ]);
}
