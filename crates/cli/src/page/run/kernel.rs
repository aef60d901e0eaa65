//! `memweir page run --kernel`: the kernel pages.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Instant;

use memweir_core::Bytes;
use memweir_linux::foreground::Foreground;
use memweir_linux::stderr;
use memweir_page::kernel::{KernelCounts, KernelPaged};
use serde::Serialize;

use super::Args;
use crate::failure::{Failure, Outcome};
use crate::{foreground, output};

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    command: Vec<String>,
    dram_bytes: Bytes,
    swap: Option<String>,
    seconds: f64,
    exit_code: Option<i32>,
    signal: Option<i32>,
    kernel: KernelCounts,
}

/// Runs the program.
pub(super) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let request = args.kernel_request();
    let paged = KernelPaged::prepare(&request)?;
    let begun = Instant::now();
    let program =
        Foreground { command: &args.command, environment: &[], group: Some(paged.group()) };
    let status = program.run(foreground::NEVER, || ())?;
    let report = Report {
        command: foreground::words(&args.command),
        dram_bytes: request.dram,
        swap: request.device.as_ref().map(|path| path.display().to_string()),
        seconds: begun.elapsed().as_secs_f64(),
        exit_code: status.code(),
        signal: status.signal(),
        kernel: paged.counts(),
    };
    tell(args, &report, status);
    if let Some(path) = &args.json {
        output::json(path, &report)?;
    }
    Ok(foreground::outcome(status))
}

/// Reports the results, beside the program's own output.
fn tell(args: &Args, report: &Report, status: ExitStatus) {
    if !output::is_stdout(args.json.as_deref()) {
        let KernelCounts { evictions, direct_reads, copies_in, copies_avoided, .. } = report.kernel;
        let rows = [
            ("pages written to swap", evictions),
            ("read in place", direct_reads),
            ("copied back", copies_in),
            ("copies avoided", copies_avoided),
            ("processes ended for want of room", report.kernel.oom_kills),
        ];
        for (what, count) in rows {
            let count = count.map_or("not counted".to_owned(), |count| count.to_string());
            stderr::print(format_args!("{what:<34}{count:>14}\n"));
        }
    }
    foreground::tell(&args.command, status);
}
