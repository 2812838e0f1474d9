use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::vec::Vec;

use tempfile::TempDir;

use super::*;
use crate::histogram::Geometry;

const LOW_PC: u64 = 0x5555_5555_4000;
const LOAD_BIAS: u64 = 0x5555_5555_0000;
const TEXT_BYTES: u64 = 64;

/// A histogram of 16 bins with these counts at its start.
fn histogram(rate: u32, counts: &[u32]) -> Histogram {
    let geometry = Geometry::of_text(LOW_PC, LOW_PC + TEXT_BYTES).expect("some text");
    let histogram = Histogram::new(geometry, rate).expect("memory");
    let counters = histogram.area().buffer as *mut u32;
    for (index, count) in counts.iter().enumerate() {
        // SAFETY: the histogram has 16 counters, and nobody else has it.
        unsafe { counters.add(index).write(*count) };
    }
    histogram
}

/// A gmon.out as libc writes it: 16 bins of 7 ticks at 100 Hz, and an arc.
fn file_of_libc(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("gmon.out");
    let mut bytes = Vec::from(*b"gmon\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    bytes.extend(record(100, &[7; 16]));
    bytes.extend([1; 21]);
    fs::write(&path, bytes).expect("a file");
    path
}

fn record(rate: u32, bins: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::from([0_u8]);
    bytes.extend(0x4000_u64.to_ne_bytes());
    bytes.extend(0x4040_u64.to_ne_bytes());
    bytes.extend(16_u32.to_ne_bytes());
    bytes.extend(rate.to_ne_bytes());
    bytes.extend(b"seconds\0\0\0\0\0\0\0\0s");
    bytes.extend(bins.iter().flat_map(|bin| bin.to_ne_bytes()));
    bytes
}

fn replace(path: &Path, histogram: &Histogram) -> Result<(), Unfit> {
    let path = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    replace_histogram(&path, histogram, LOAD_BIAS)
}

#[test]
fn counts_and_rate_are_replaced_and_arcs_stay() {
    let folder = TempDir::new().expect("a folder");
    let path = file_of_libc(&folder);
    let before = fs::read(&path).expect("the file");
    assert_eq!(replace(&path, &histogram(250, &[3, 0, 65_535])), Ok(()));

    let mut wanted = Vec::from(&before[..20]);
    let mut bins = [0; 16];
    bins[..3].copy_from_slice(&[3, 0, 65_535]);
    wanted.extend(record(250, &bins));
    wanted.extend([1; 21]);
    assert_eq!(fs::read(&path).expect("the file"), wanted);
}

#[test]
fn counts_above_65535_are_repeats_of_the_record() {
    let folder = TempDir::new().expect("a folder");
    let path = file_of_libc(&folder);
    let length = fs::metadata(&path).expect("the file").len() as usize;
    assert_eq!(replace(&path, &histogram(100, &[65_536, 1, 3 * 65_535])), Ok(()));

    let bytes = fs::read(&path).expect("the file");
    let first_bins = |first: [u16; 3]| {
        let mut bins = [0; 16];
        bins[..3].copy_from_slice(&first);
        record(100, &bins)
    };
    assert_eq!(bytes[20..20 + 41 + 32], first_bins([65_535, 1, 65_535]));
    assert_eq!(bytes[length..], [first_bins([1, 0, 65_535]), first_bins([0, 0, 65_535])].concat());
}

#[test]
fn a_file_of_another_geometry_is_not_touched() {
    let folder = TempDir::new().expect("a folder");
    let path = file_of_libc(&folder);
    let good = fs::read(&path).expect("the file");
    // Cookie, version, tag, low_pc, high_pc, number of bins, dimension.
    for at in [0, 4, 20, 21, 29, 37, 45] {
        let mut other = good.clone();
        other[at] ^= 0x40;
        fs::write(&path, &other).expect("a file");
        assert_eq!(replace(&path, &histogram(250, &[3])), Err(Unfit::Other), "byte {at}");
        assert_eq!(fs::read(&path).expect("the file"), other);
    }
}

#[test]
fn a_file_that_ends_early_is_not_touched() {
    let folder = TempDir::new().expect("a folder");
    let path = file_of_libc(&folder);
    let good = fs::read(&path).expect("the file");
    for length in [0, 19, 20, 60, 61, 61 + 31] {
        fs::write(&path, &good[..length]).expect("a file");
        assert_eq!(replace(&path, &histogram(250, &[3])), Err(Unfit::Other), "{length} bytes");
        assert_eq!(fs::read(&path).expect("the file"), good[..length]);
    }
}

#[test]
fn a_link_in_the_place_of_the_file_is_not_followed() {
    let folder = TempDir::new().expect("a folder");
    let path = file_of_libc(&folder);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    assert_eq!(replace(&link, &histogram(250, &[3])), Err(Unfit::Io(libc::ELOOP)));
}
