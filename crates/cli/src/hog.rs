//! `memweir hog`: a steady, adjustable load on the memory bus (X1).

use memweir_linux::hog::Kernel;
use memweir_run::hog::hog;

use crate::failure::{Failure, Outcome};
use crate::shared::hog::Common;
use crate::value::named;
use crate::{interrupt, output};

/// Options of `memweir hog`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Memory accesses of one step
    #[arg(long, value_name = "KERNEL", default_value = "copy", value_parser = named::<Kernel>())]
    kernel: Kernel,
    /// Nops after each step: more of them demand less bandwidth
    #[arg(long, value_name = "N", default_value_t = 0)]
    idle: u32,
    #[command(flatten)]
    common: Common,
}

/// Runs Hog and shows the result.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::writable(args.common.json.as_deref())?;
    let options = args.common.options(args.kernel)?;
    let report = hog(&options, args.idle, interrupt::catch()?)
        .map_err(|error| Failure::Machine(error.to_string()))?;
    args.common.show(&report)
}
