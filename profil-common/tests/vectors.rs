//! The vectors that all implementations of the formula share, each line a test.

mod oracle;

use oracle::{Verdict, computed, rows, verdict};
use profil_common::{RangeTable, Region};

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
            let bin = RangeTable::single(region).bin_of(row.pc);
            assert_eq!(bin.map_or(Verdict::Outside, Verdict::Bin), row.expected, "{row:?}");
        }
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
