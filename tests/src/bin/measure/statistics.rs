//! Medians and their spread.

use std::fmt;

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// Unit of the values.
    pub unit: &'static str,
    /// Readings, one for each turn.
    pub readings: Vec<f64>,
    /// What is demanded of it.
    pub limit: Option<Limit>,
}

/// A demand on a figure.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// The median is not above this.
    AtMost(f64),
    /// The 95 % interval of the median contains 0.
    NoDifference,
}

impl Figure {
    /// The middle reading.
    pub fn median(&self) -> f64 {
        quantile(&self.readings, 0.5)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figure { what, unit, readings, limit } = self;
        let (low, high) = (quantile(readings, 0.1), quantile(readings, 0.9));
        let (limit, is_ok) = match limit {
            Some(Limit::AtMost(limit)) => (format!("{limit} {unit}"), Some(self.median() <= *limit)),
            Some(Limit::NoDifference) => {
                let (low, high) = median_interval(readings);
                (format!("0 in {low:.2} .. {high:.2} {unit}"), Some(low <= 0.0 && high >= 0.0))
            }
            None => (String::new(), None),
        };
        let verdict = is_ok.map(|is_ok| if is_ok { "ok" } else { "over" }).unwrap_or_default();
        write!(f, "| {what} | {:.2} {unit} | {low:.2} .. {high:.2} | {limit} | {verdict} |", self.median())
    }
}

/// The value below which a share of the readings lies.
pub fn quantile(readings: &[f64], share: f64) -> f64 {
    let mut sorted = readings.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = (share * sorted.len().saturating_sub(1) as f64).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// 95 % interval of the median of paired differences, by the order of the readings (sign test).
fn median_interval(readings: &[f64]) -> (f64, f64) {
    let n = readings.len() as f64;
    let reach = 0.98 * n.sqrt();
    (quantile(readings, ((n / 2.0 - reach) / n).max(0.0)), quantile(readings, ((n / 2.0 + reach) / n).min(1.0)))
}
