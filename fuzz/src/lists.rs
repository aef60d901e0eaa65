//! Small languages: keys and values of the command line, and orders to the preload library.

use memweir_abi::preload::Order;
use memweir_abi::preload::page::PageOrder;
use memweir_core::input::values;
use memweir_run::jobs::Batch;
use memweir_study::sweep::{Grid, Sweep};

use crate::Seeds::Texts;
use crate::{Target, text};

pub(crate) static SWEEP: Target = Target::new(
    "sweep",
    sweep,
    &[Texts(&[
        "quantum_ms=20,50,100",
        "cores=1..8",
        "mix.iabw=2e9..8e9:0.5e9\nseed=1..3",
        "policies=[os],[ideal-average,os]",
    ])],
);

fn sweep(data: &[u8]) {
    text(data, |text| {
        let sweeps: Result<Vec<Sweep>, _> = text.lines().map(str::parse).collect();
        if let Ok(grid) = sweeps.and_then(Grid::new) {
            assert!(grid.len() > 0, "a grid has a point");
            let _ = (grid.replacements(0), grid.values(grid.len() - 1));
        }
        let _ = values(text);
    });
}

/// The grid of the lines before `---`, and what follows.
pub(crate) fn options_and_text(text: &str) -> Option<(Grid, &str)> {
    let (options, text) = text.split_once("---\n")?;
    let sweeps: Result<Vec<Sweep>, _> = options.lines().map(str::parse).collect();
    Some((sweeps.and_then(Grid::new).ok()?, text))
}

pub(crate) static COMMANDS: Target = Target::new(
    "jobs-arguments",
    commands,
    &[Texts(&["gzip\n-9\na\n:::\nsh\n-c\nexit 1\n:::\ngzip\nb"])],
);

fn commands(data: &[u8]) {
    text(data, |text| {
        let arguments: Vec<_> = text.split('\n').map(Into::into).collect();
        let _ = Batch::from_arguments(&arguments);
    });
}

pub(crate) static COLOR_ORDER: Target = Target::new(
    "color-order",
    color_order,
    &[Texts(&[
        "offset=80000000;bank=2000,44000;colors=0-3,7;shortage=spill;delivery=eager;pool=100;limit=0;\
     cache=1000;cache-colors=1;counters=/dev/shm/memweir-color-x",
    ])],
);

fn color_order(data: &[u8]) {
    text(data, |text| {
        if let Ok(order) = text.parse::<Order>() {
            let written = order.to_string();
            assert_eq!(written.parse::<Order>().as_ref(), Ok(&order), "{written}");
        }
    });
}

pub(crate) static PAGE_ORDER: Target = Target::new(
    "page-order",
    page_order,
    &[Texts(&[
        "dram=1048576;nvm=file:2f746d70;size=1073741824;direct-read=copy;victims=clock;when-full=stop;\
     counters=/x;delay=2.5,12",
        "dram=1;nvm=node:1;size=1;direct-read=copy;victims=fifo;when-full=stop;counters=",
    ])],
);

fn page_order(data: &[u8]) {
    text(data, |text| {
        if let Ok(order) = text.parse::<PageOrder>() {
            let written = order.to_string();
            assert_eq!(written.parse::<PageOrder>().as_ref(), Ok(&order), "{written}");
        }
    });
}
