//! Watches a batch for the terminal and, where requested, for its timeline and its metrics.

use std::path::Path;

use memweir_run::observer::{Event, Observer};
use memweir_run::timeline::Row;

use super::metrics::BatchMetrics;
use crate::render::progress::Screen;

/// Shows progress, keeps the rows of a run or of the first round of a comparison, and updates
/// metrics.
pub(crate) struct Watcher {
    screen: Screen,
    keep_rows: bool,
    timelines: Vec<Vec<Row>>,
    metrics: Option<BatchMetrics>,
}

impl Watcher {
    /// A watcher that keeps rows if `plot` will be drawn.
    pub(crate) fn new(plot: Option<&Path>) -> Self {
        let keep_rows = plot.is_some();
        Self { screen: Screen::new(), keep_rows, timelines: Vec::new(), metrics: None }
    }

    /// Adds metrics to update, if there are any.
    pub(crate) fn with_metrics(self, metrics: Option<BatchMetrics>) -> Self {
        Self { metrics, ..self }
    }

    /// The notes that have not been shown yet, and the rows of each run; none of the later rounds.
    pub(crate) fn finish(self) -> (Vec<String>, Vec<Vec<Row>>) {
        (self.screen.finish(), self.timelines)
    }
}

impl Observer for Watcher {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::RunStarted { round, .. } => {
                // The figure of a comparison shows the first round, and rows take much memory.
                self.keep_rows &= round == 0;
                self.timelines.push(Vec::new());
            }
            Event::QuantumRecorded(rows) if self.keep_rows => match self.timelines.last_mut() {
                Some(timeline) => timeline.extend_from_slice(rows),
                None => self.timelines.push(rows.to_vec()),
            },
            _ => {}
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.event(event);
        }
        self.screen.event(event);
    }

    fn wants_rows(&self) -> bool {
        self.keep_rows || self.metrics.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_the_first_round_are_kept_for_the_figure() {
        let mut watcher = Watcher::new(Some(Path::new("x.svg")));
        for (round, variant) in [(0, "os"), (0, "random"), (1, "random")] {
            watcher.event(Event::RunStarted { variant, round, rounds: 2 });
            assert_eq!(watcher.wants_rows(), round == 0);
            watcher.event(Event::QuantumRecorded(&[Row::default()]));
        }
        let (_, timelines) = watcher.finish();
        assert_eq!(timelines.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 0]);
    }
}
