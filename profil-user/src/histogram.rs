//! Totals of a region's bins.

use crate::bins::Run;

/// Counters of a region, 64 bits wide: `nbins` of them in ascending address order, bin 0 = the region's offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    bins: Vec<u64>,
}

impl Histogram {
    /// A histogram of `nbins` counters, all 0.
    pub fn new(nbins: u32) -> Histogram {
        Histogram { bins: vec![0; nbins as usize] }
    }

    /// Adds what a drain found.
    pub fn add(&mut self, runs: &[Run]) {
        for Run { first, added } in runs {
            let bins = &mut self.bins[*first as usize..][..added.len()];
            bins.iter_mut().zip(added).for_each(|(bin, added)| *bin += u64::from(*added));
        }
    }

    /// The counters.
    pub fn bins(&self) -> &[u64] {
        &self.bins
    }

    /// Number of counters that are larger than one of `bits` bits can be.
    pub fn beyond(&self, bits: u32) -> usize {
        self.bins.iter().filter(|bin| bin.checked_shr(bits).is_some_and(|rest| rest > 0)).count()
    }

    /// Sum of the counters.
    pub fn total(&self) -> u64 {
        self.bins.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_beyond_a_width_are_counted() {
        let mut histogram = Histogram::new(3);
        histogram.add(&[Run { first: 0, added: vec![65_535, 65_536, u32::MAX] }]);
        assert_eq!((histogram.beyond(16), histogram.beyond(32), histogram.beyond(64)), (2, 0, 0));
        histogram.add(&[Run { first: 2, added: vec![1] }]);
        assert_eq!(histogram.beyond(32), 1);
    }

    #[test]
    fn runs_are_added_where_they_begin_and_totals_outgrow_32_bits() {
        let mut histogram = Histogram::new(5);
        let runs = [Run { first: 0, added: vec![u32::MAX] }, Run { first: 3, added: vec![1, 2] }];
        histogram.add(&runs);
        histogram.add(&runs);
        assert_eq!(histogram.bins(), [2 * u64::from(u32::MAX), 0, 0, 2, 4]);
        assert_eq!(histogram.total(), 2 * u64::from(u32::MAX) + 6);
        let window = crate::window::Window { runs: runs.to_vec(), ..Default::default() };
        assert_eq!(window.binned(), u64::from(u32::MAX) + 3);
    }
}
