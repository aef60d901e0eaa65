//! The memweir command.

use std::process::ExitCode;

fn main() -> ExitCode {
    memweir::main()
}
