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

    /// Sum of the counters.
    pub fn total(&self) -> u64 {
        self.bins.iter().sum()
    }
}
