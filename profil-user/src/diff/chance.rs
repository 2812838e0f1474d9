//! What chance alone does to shares: ticks fall at random, and two runs of the same program never agree.

/// A number of ticks among all ticks of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Ticks that are meant.
    pub hits: u64,
    /// All ticks.
    pub all: u64,
}

/// Least number of ticks expected in each of the four counts (hits and others, before and after) from which on the
/// normal distribution is near enough. Below, it takes rare rows for certain ones: 1 tick of 100 against 0 of 10,000 is
/// ten standard deviations by the normal distribution, and happens once in a hundred comparisons.
const NORMAL_FROM: f64 = 10.0;

/// The probability that two runs with the same true share differ by chance as much as these do, or more.
///
/// A two-sided z-test of two proportions with the pooled share; Fisher's exact test where a count is too small for it.
/// 1 where a run has no ticks.
///
/// # Source
/// R. A. Fisher, "Statistical Methods for Research Workers", 1934, section 21.02.
pub fn probability(before: Share, after: Share) -> f64 {
    let (n1, n2) = (before.all as f64, after.all as f64);
    let all = n1 + n2;
    let hits = before.hits as f64 + after.hits as f64;
    if before.all == 0 || after.all == 0 || hits == 0.0 || hits == all {
        return 1.0;
    }
    if hits.min(all - hits) * n1.min(n2) / all < NORMAL_FROM {
        return exact(before, after);
    }
    let pooled = hits / all;
    let deviation = (pooled * (1.0 - pooled) * (1.0 / n1 + 1.0 / n2)).sqrt();
    let z = (before.hits as f64 / n1 - after.hits as f64 / n2) / deviation;
    complementary_error(z.abs() / std::f64::consts::SQRT_2)
}

/// Fisher's exact test: the sum over all ways in which the hits can be shared out that are not likelier than this one.
///
/// Weights are relative to the likeliest way, found without factorials by the ratio of neighbours; where they are used,
/// they are negligible after some hundred steps.
fn exact(before: Share, after: Share) -> f64 {
    let (n1, n2) = (before.all as f64, after.all as f64);
    let (found, hits) = (before.hits as f64, before.hits as f64 + after.hits as f64);
    let (lowest, highest) = ((hits - n2).max(0.0), hits.min(n1));
    let mode = ((n1 + 1.0) * (hits + 1.0) / (n1 + n2 + 2.0)).floor().clamp(lowest, highest);
    let up = |x: f64| (n1 - x) * (hits - x) / ((x + 1.0) * (n2 - hits + x + 1.0));
    let mut weights = vec![(mode, 1.0)];
    let (mut x, mut weight) = (mode, 1.0);
    while x < highest && weight > f64::MIN_POSITIVE {
        weight *= up(x);
        x += 1.0;
        weights.push((x, weight));
    }
    (x, weight) = (mode, 1.0);
    while x > lowest && weight > f64::MIN_POSITIVE {
        x -= 1.0;
        weight /= up(x);
        weights.push((x, weight));
    }
    // What lies farther out than the weights reach is as good as impossible.
    let of_found = weights.iter().find(|(x, _)| *x == found).map_or(0.0, |(_, weight)| *weight);
    // Equal weights come out unequal in their last digits.
    let limit = of_found * (1.0 + 1e-7);
    let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let tail: f64 = weights.iter().map(|(_, weight)| weight).filter(|weight| **weight <= limit).sum();
    (tail / total).min(1.0)
}

/// The complementary error function for `x` from 0 up.
///
/// # Source
/// M. Abramowitz and I. Stegun, "Handbook of Mathematical Functions", 7.1.6 and 7.1.14.
fn complementary_error(x: f64) -> f64 {
    let root_pi = std::f64::consts::PI.sqrt();
    let bell = (-x * x).exp();
    if x < 2.5 {
        let (mut term, mut sum) = (x, x);
        for n in 1..80 {
            term *= 2.0 * x * x / f64::from(2 * n + 1);
            sum += term;
        }
        1.0 - 2.0 / root_pi * bell * sum
    } else {
        let fraction = (1..60).rev().fold(0.0, |fraction, n| f64::from(n) / 2.0 / (x + fraction));
        bell / root_pi / (x + fraction)
    }
}

/// Probabilities corrected for their number, in the same order: those below a rate are a list of which, on average, at
/// most that part is chance; and where nothing has changed at all, the list is empty but for that part of comparisons.
///
/// By Benjamini and Hochberg, and not by Holm, who bounds the probability of a single false row: a profile has hundreds
/// of rows, most of them with few ticks, and each would make it harder for all others to be believed.
///
/// # Source
/// Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", 1995.
pub fn corrected(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut corrected = vec![1.0; probabilities.len()];
    let mut least = 1.0_f64;
    for (rank, index) in order.iter().enumerate().rev() {
        least = least.min(probabilities[*index] * (probabilities.len() as f64 / (rank + 1) as f64));
        corrected[*index] = least;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share(hits: u64, all: u64) -> Share {
        Share { hits, all }
    }

    fn close(found: f64, known: f64) -> bool {
        (found / known - 1.0).abs() < 1e-4
    }

    #[test]
    fn the_tails_of_the_normal_distribution_are_those_of_the_tables() {
        for (z, p) in [(1.959_964, 0.05), (2.575_829, 0.01), (4.891_638, 1e-6), (6.466_951, 1e-10)] {
            let found = complementary_error(z / std::f64::consts::SQRT_2);
            assert!(close(found, p), "{z}: {found} {p}");
        }
        assert_eq!(complementary_error(0.0), 1.0);
        assert_eq!(complementary_error(1e3), 0.0);
    }

    #[test]
    fn large_counts_are_tested_by_z() {
        // By hand: shares 0.5 and 0.55 of 1,000 each, pooled 0.525: z = 0.05 / sqrt(0.525 * 0.475 * 0.002) = 2.23888.
        assert!(
            close(probability(share(500, 1000), share(550, 1000)), 0.025_164),
            "{}",
            probability(share(500, 1000), share(550, 1000))
        );
    }

    #[test]
    fn small_counts_are_tested_exactly() {
        // Fisher's tea: 3 of 4 against 1 of 4 is 0.4857.
        assert!(close(exact(share(3, 4), share(1, 4)), 34.0 / 70.0));
        // All five ticks in one of two equal runs: twice a half to the fifth, nearly.
        let p = probability(share(5, 1_000_000), share(0, 1_000_000));
        assert!(close(p, 0.0625), "{p}");
        // One tick of a short run, none of a long one: once in 101 comparisons.
        let p = probability(share(1, 100), share(0, 10_000));
        assert!(close(p, 1.0 / 101.0), "{p}");
        assert!(probability(share(100, 100), share(0, 20)) < 1e-20);
    }

    #[test]
    fn nothing_is_said_without_ticks() {
        for (a, b) in [((0, 0), (5, 10)), ((0, 10), (0, 20)), ((10, 10), (20, 20))] {
            assert_eq!(probability(share(a.0, a.1), share(b.0, b.1)), 1.0);
        }
    }

    #[test]
    fn corrections_are_those_of_benjamini_and_hochberg() {
        let found = corrected(&[0.04, 0.01, 0.03, 0.5]);
        let known = [0.04 * 4.0 / 3.0, 0.04, 0.04 * 4.0 / 3.0, 0.5];
        assert!(found.iter().zip(known).all(|(found, known)| (found - known).abs() < 1e-12), "{found:?}");
        assert_eq!(corrected(&[]), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn the_order_of_the_runs_does_not_matter(n1 in 0u64..100_000, n2 in 0u64..100_000, a in 0.0..=1.0f64, b in 0.0..=1.0f64) {
            let one = share((n1 as f64 * a) as u64, n1);
            let other = share((n2 as f64 * b) as u64, n2);
            let (there, back) = (probability(one, other), probability(other, one));
            prop_assert!((0.0..=1.0).contains(&there));
            prop_assert!((there - back).abs() <= 1e-9 * there.max(1e-12), "{there} {back}");
        }

        #[test]
        fn both_tests_agree_where_one_takes_over_from_the_other(n1 in 2_000u64..20_000, n2 in 2_000u64..20_000, z in -3.0..3.0f64) {
            // A row with about forty ticks in the smaller run.
            let p = 40.0 / n1.min(n2) as f64;
            let (h1, h2) = (p * n1 as f64, p * n2 as f64);
            let one = share(h1 as u64, n1);
            let other = share((h2 + z * (h2 * (1.0 + h2 / h1)).sqrt()).max(0.0) as u64, n2);
            let (normal, exact) = (probability(one, other), exact(one, other));
            // Ticks are whole: near the middle, one more or less is worth a tenth. What counts is the tail.
            let near = if normal < 0.05 { 0.03 } else { 0.2 };
            prop_assert!((normal - exact).abs() < near, "{normal} {exact}");
        }

        #[test]
        fn a_correction_keeps_the_order_and_never_makes_more_certain(p in proptest::collection::vec(0.0..=1.0f64, 0..50)) {
            let corrected = corrected(&p);
            for (i, one) in corrected.iter().enumerate() {
                prop_assert!(p[i] <= *one && *one <= 1.0);
                for (j, other) in corrected.iter().enumerate() {
                    prop_assert!(p[i] > p[j] || one <= other);
                }
            }
        }
    }
}
