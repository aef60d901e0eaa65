//! Content of the command's figures: batches, calibrations and sweeps. [`memweir_plot`] draws them.

pub(crate) mod batch;
pub(crate) mod calibration;
pub(crate) mod sweep;

pub(crate) use memweir_plot::{
    Chart, Figure, Lane, Lanes, Level, PALETTE, Panel, PlotError, Series, Span, Style,
};
