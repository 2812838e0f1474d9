//! Types that the loader copies to and from BPF maps as plain bytes.

use aya::Pod;

use crate::{Counters, Event, Process, RangeTable, RowKey, Settings, TickRecord};

// SAFETY: each type is repr(C), Copy, made of integers only, and has no padding: the test below adds up the sizes
// of its fields. Any byte pattern is a value of it, and none of its bytes is uninitialised.
unsafe impl Pod for Counters {}
// SAFETY: as for Counters.
unsafe impl Pod for Event {}
// SAFETY: as for Counters.
unsafe impl Pod for Process {}
// SAFETY: as for Counters.
unsafe impl Pod for RangeTable {}
// SAFETY: as for Counters.
unsafe impl Pod for RowKey {}
// SAFETY: as for Counters.
unsafe impl Pod for Settings {}
// SAFETY: as for Counters.
unsafe impl Pod for TickRecord {}

#[cfg(test)]
mod tests {
    use core::mem::size_of;

    use super::*;
    use crate::limits::{COMM_BYTES, MAX_RANGES};
    use crate::{FILTER_CPUS, Fields, FrontRow, NearRegion, Range, Region, Seat};

    #[test]
    fn shared_types_have_no_padding() {
        assert_eq!(size_of::<Counters>(), 4 * 8 + 6 * 8 + 4 * 8 + 2 * 8);
        assert_eq!(size_of::<Event>(), 4 * 8 + 4 * 4 + COMM_BYTES);
        assert_eq!(size_of::<Process>(), 2 * 8 + 2 * 4);
        assert_eq!(size_of::<NearRegion>(), 2 * 8 + 3 * 4 + 2 + 2);
        assert_eq!(size_of::<Seat>(), 2 * 4 + size_of::<Process>() + size_of::<NearRegion>());
        assert_eq!(size_of::<Region>(), 8 + 4 * 4 + 8);
        assert_eq!(size_of::<Range>(), 2 * 8 + 2 * 4 + size_of::<Region>());
        assert_eq!(size_of::<RangeTable>(), 4 * 4 + 8 + MAX_RANGES * size_of::<Range>());
        assert_eq!(size_of::<RowKey>(), 2 * 8 + 2 * 4);
        assert_eq!(size_of::<FrontRow>(), 8 + size_of::<RowKey>());
        assert_eq!(size_of::<TickRecord>(), 2 * 8 + 2 * 4);
        assert_eq!(size_of::<Fields>(), 12 * 4);
        let settings = 3 * 8 + 6 * 4 + size_of::<Region>() + COMM_BYTES + FILTER_CPUS / 8 + size_of::<Fields>();
        assert_eq!(size_of::<Settings>(), settings);
    }
}
