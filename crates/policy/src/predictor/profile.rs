//! `profile`: predicts by the meter's forecast.

use memweir_core::BytesPerSec;

use super::{Last, Predictor, Sample};

/// Predicts the meter's latest forecast, or the last value for a job without one.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForecastOrLast {
    forecast: Option<BytesPerSec>,
    last: Last,
}

impl Predictor for ForecastOrLast {
    fn observe(&mut self, sample: &Sample<'_>) {
        self.forecast = sample.forecast;
        self.last.observe(sample);
    }

    fn predict(&self) -> Option<BytesPerSec> {
        self.forecast.or_else(|| self.last.predict())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forecast_counts_even_when_the_bus_was_saturated() {
        let rate = |value: f64| Some(BytesPerSec(value));
        let sample =
            |bandwidth, forecast| Sample { bandwidth, instruction_pointers: &[], forecast };
        let mut profile = ForecastOrLast::default();
        assert_eq!(profile.predict(), None);
        profile.observe(&sample(rate(2.0), None));
        assert_eq!(profile.predict(), rate(2.0));
        profile.observe(&sample(rate(3.0), rate(9.0)));
        assert_eq!(profile.predict(), rate(9.0));
        profile.observe(&sample(None, rate(1.0)));
        assert_eq!(profile.predict(), rate(1.0));
        // Past the end of the recording the meter has nothing to say.
        profile.observe(&sample(None, None));
        assert_eq!(profile.predict(), rate(3.0));
    }
}
