//! What the figures of the command show: batches, calibrations and sweeps. How they are drawn is
//! [`memweir_plot`]'s business.

pub(crate) mod batch;
pub(crate) mod calibration;
pub(crate) mod sweep;

pub(crate) use memweir_plot::{
    Chart, Figure, Lane, Lanes, Level, PALETTE, Panel, PlotError, Series, Span, Style,
};
