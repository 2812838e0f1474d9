//! Axes: which numbers stand at them, and how high a bar is.

/// How bars grow with ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// In proportion.
    Linear,
    /// By the logarithm, so that one tick is seen beside a million.
    Log,
}

/// Lowest value of a logarithmic axis: a bar of one tick must have a height.
const LOG_FLOOR: f64 = 0.5;

/// The vertical axis.
#[derive(Clone, Debug, PartialEq)]
pub struct TickAxis {
    scale: Scale,
    top: f64,
    /// Numbers of ticks to be marked, ascending.
    pub marks: Vec<u64>,
}

impl TickAxis {
    /// An axis for bars of up to `most` ticks, with about `marks` marks at round numbers.
    pub fn new(scale: Scale, most: u64, marks: u64) -> TickAxis {
        let most = most.max(1);
        let marks = match scale {
            Scale::Linear => {
                let step = round_step(most.div_ceil(marks.max(1)));
                (0..=most.div_ceil(step)).map(|mark| mark.saturating_mul(step)).collect()
            }
            Scale::Log => {
                let powers = std::iter::successors(Some(1u64), |power| power.checked_mul(10));
                let mut marks: Vec<u64> = powers.take_while(|power| power / 10 < most).collect();
                marks.dedup();
                marks
            }
        };
        let top = marks.last().copied().unwrap_or(1).max(most) as f64;
        TickAxis { scale, top, marks }
    }

    /// Height of a number of ticks, from 0 to 1.
    pub fn height(&self, ticks: u64) -> f64 {
        match self.scale {
            Scale::Linear => ticks as f64 / self.top,
            Scale::Log => (ticks as f64 / LOG_FLOOR).ln().max(0.0) / (self.top / LOG_FLOOR).ln(),
        }
    }
}

/// The next number from `least` up that is 1, 2 or 5 times a power of ten.
fn round_step(least: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for factor in [1, 2, 5] {
            match power.checked_mul(factor) {
                Some(step) if step >= least => return step,
                Some(_) => {}
                None => return least,
            }
        }
        match power.checked_mul(10) {
            Some(next) => power = next,
            None => return least,
        }
    }
}

/// Addresses to be marked from `first` to `last`: at most `most`, all multiples of one power of two, which are round
/// numbers in hexadecimal.
pub fn address_marks(first: u64, last: u64, most: u64) -> Vec<u64> {
    let mut step = 1u64;
    while (last - first) / step >= most.max(1) && step < 1 << 63 {
        step <<= 1;
    }
    let first_mark = first.checked_next_multiple_of(step);
    std::iter::successors(first_mark, |mark| mark.checked_add(step)).take_while(|mark| *mark <= last).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn marks_of_ticks_are_round() {
        assert_eq!(TickAxis::new(Scale::Linear, 7, 4).marks, [0, 2, 4, 6, 8]);
        assert_eq!(TickAxis::new(Scale::Linear, 1_234, 4).marks, [0, 500, 1000, 1500]);
        assert_eq!(TickAxis::new(Scale::Linear, 0, 4).marks, [0, 1]);
        assert_eq!(TickAxis::new(Scale::Log, 1_234, 4).marks, [1, 10, 100, 1000, 10_000]);
        assert_eq!(TickAxis::new(Scale::Log, 1, 4).marks, [1]);
    }

    #[test]
    fn marks_of_addresses_are_round() {
        assert_eq!(address_marks(0x1139, 0x11f0, 8), [0x1140, 0x1160, 0x1180, 0x11a0, 0x11c0, 0x11e0]);
        assert_eq!(address_marks(0, u64::MAX, 2), [0, 1 << 63]);
    }

    proptest! {
        #[test]
        fn a_bar_is_within_its_axis_and_more_ticks_are_higher(most: u64, a: u64, b: u64, log: bool) {
            let most = most.max(1);
            let axis = TickAxis::new(if log { Scale::Log } else { Scale::Linear }, most, 4);
            let (a, b) = (a % most + 1, b % most + 1);
            prop_assert!(axis.height(a) > 0.0 && axis.height(most) <= 1.0);
            prop_assert!(a > b || axis.height(a) <= axis.height(b));
            prop_assert!(axis.marks.len() < 25, "{:?}", axis.marks);
        }

        #[test]
        fn marks_of_addresses_are_within_and_few(a: u64, b: u64, most in 1u64..20) {
            let (first, last) = (a.min(b), a.max(b));
            let marks = address_marks(first, last, most);
            prop_assert!(marks.len() as u64 <= most + 1, "{:?}", marks);
            prop_assert!(marks.iter().all(|mark| (first..=last).contains(mark)));
        }
    }
}
