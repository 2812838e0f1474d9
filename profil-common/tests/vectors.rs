//! The vectors that all implementations of the formula share, each line a test.

mod oracle;

use oracle::{Verdict, computed, rows, verdict};
use profil_common::limits::MAX_RANGES;
use profil_common::{Convention, NearRegion, Range, RangeTable, Region, Request};

/// Lines of the file; fewer would be a file that was cut.
const ROWS: usize = 1036;

#[test]
fn every_row_comes_to_what_the_file_says() {
    let rows = rows();
    assert_eq!(rows.len(), ROWS);
    for row in rows {
        assert_eq!(computed(row.convention, row.request, row.pc), row.expected, "{row:?}");
    }
}

#[test]
fn the_oracle_agrees_with_every_row() {
    for row in rows() {
        assert_eq!(verdict(row.convention, row.request, row.pc), row.expected, "{row:?}");
    }
}

#[test]
fn a_table_of_one_region_comes_to_the_same_as_the_region() {
    for row in rows() {
        if let Ok(Some(region)) = Region::new(row.convention, row.request) {
            let table = RangeTable::single(region);
            let bin = table.bin_of(row.pc);
            assert_eq!(bin.map_or(Verdict::Outside, Verdict::Bin), row.expected, "{row:?}");
            if let Some(near) = NearRegion::of(&table, 0) {
                assert_eq!(near.bin_of(row.pc), bin, "{row:?}");
            } else {
                assert_eq!(region.span(), None, "{row:?}: a region with bins has its place near the process");
            }
        }
    }
}

#[test]
fn only_a_table_that_is_one_region_has_it_near_its_process() {
    let request = Request { offset: 0x1000, scale: 0x1_0000, bufsiz: 64, width: 2 };
    let region = Region::new(Convention::Glibc, request).expect("a good request").expect("it is on");
    let table = RangeTable { period_ns: 7, first_chunk: 9, ..RangeTable::single(region) };
    let near = NearRegion::of(&table, 3).expect("one region");
    assert_eq!((near.valid_for, near.first_chunk, near.period_ns), (4, 9, 7));
    let cut = |range: Range| RangeTable { ranges: [range; MAX_RANGES], ..table };
    let range = table.ranges[0];
    let others = [
        RangeTable { len: 0, ..table },
        RangeTable { len: 2, ..table },
        RangeTable { otherwise: 0, ..table },
        cut(Range { first_bin: 1, ..range }),
        cut(Range { low: range.low + 1, ..range }),
        cut(Range { high: range.high - 1, ..range }),
    ];
    for other in others {
        assert_eq!(NearRegion::of(&other, 3), None);
    }
}

#[test]
fn the_bin_of_every_row_stands_for_its_pc() {
    for row in rows() {
        if let (Ok(Some(region)), Verdict::Bin(bin)) = (Region::new(row.convention, row.request), row.expected) {
            let addrs = region.addrs_of(bin).unwrap_or_else(|| panic!("{row:?} has an empty bin"));
            assert!(addrs.contains(&row.pc), "{row:?}: {addrs:x?}");
        }
    }
}
