/// Bounds of a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower bound, percent.
    pub low: f64,
    /// Upper bound, percent.
    pub high: f64,
}

/// The 95 % confidence interval of a share of `hits` in `all`, after Wilson: unlike the textbook's it stays within
/// 0..100 and is right for small counts.
///
/// # Source
/// E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
pub fn wilson_95(hits: u64, all: u64) -> Interval {
    const Z: f64 = 1.959_963_984_540_054;
    if all == 0 {
        return Interval { low: 0.0, high: 100.0 };
    }
    let n = all as f64;
    let share = (hits as f64 / n).min(1.0);
    let scale = 1.0 + Z * Z / n;
    let middle = share + Z * Z / (2.0 * n);
    let reach = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let bound = |value: f64| (value / scale).clamp(0.0, 1.0) * 100.0;
    Interval { low: bound(middle - reach), high: bound(middle + reach) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_come_out() {
        // By hand: 15 of 100 is 9.31 % to 23.28 %, 0 of 10 is 0 % to 27.75 %.
        let Interval { low, high } = wilson_95(15, 100);
        assert!((low - 9.31).abs() < 0.01 && (high - 23.28).abs() < 0.01, "{low} {high}");
        let Interval { low, high } = wilson_95(0, 10);
        assert!(low.abs() < 1e-9 && (high - 27.75).abs() < 0.01, "{low} {high}");
    }

    #[test]
    fn the_interval_holds_the_share_and_stays_within_bounds() {
        for all in [1u64, 2, 10, 9970, u64::MAX] {
            for hits in [0, 1, all / 2, all] {
                let Interval { low, high } = wilson_95(hits, all);
                let share = hits as f64 / all as f64 * 100.0;
                assert!(0.0 <= low && low <= share + 1e-9 && share <= high + 1e-9 && high <= 100.0, "{hits}/{all}");
            }
        }
    }

    #[test]
    fn nothing_measured_excludes_nothing() {
        assert_eq!(wilson_95(0, 0), Interval { low: 0.0, high: 100.0 });
    }
}
