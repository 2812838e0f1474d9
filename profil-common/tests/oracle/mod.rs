//! The bin formulas once more, as the manual pages write them: one for each convention, in 128 bits, so that nothing
//! can wrap, and without a line of the code under test.

#![allow(dead_code, reason = "each test program uses a part of it")]

use profil_common::{Convention, Errno, Region, Request};

/// What a call and one tick come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The call turns profiling off.
    Off,
    /// The call fails.
    Fails(Errno),
    /// The pc counts nowhere.
    Outside,
    /// The pc counts into this bin.
    Bin(u32),
}

/// The verdict of the manual pages.
pub fn verdict(convention: Convention, request: Request, pc: u64) -> Verdict {
    let Request { offset, scale, bufsiz, width } = request;
    if width != 2 && width != 4 {
        return Verdict::Fails(Errno::Einval);
    }
    match (convention, scale) {
        (Convention::Bsd, 0) | (Convention::Clix, 0 | 1) => return Verdict::Off,
        (Convention::Bsd, 65537..) | (Convention::Clix, 65536..) => return Verdict::Fails(Errno::Einval),
        _ => {}
    }
    let nbins = u128::from(bufsiz) / u128::from(width);
    if nbins > u128::from(u32::MAX) {
        return Verdict::Fails(Errno::Einval);
    }
    let Some(distance) = pc.checked_sub(offset) else {
        return Verdict::Outside;
    };
    let (distance, width, exact) = (u128::from(distance), u128::from(width), u128::from(scale));
    let bin = match convention {
        Convention::Bsd | Convention::Glibc => distance / width * exact / 65536,
        Convention::Linux => distance * exact / 65536 / width,
        Convention::Clix if scale == 2 => 0,
        Convention::Clix if (exact + 1).is_power_of_two() => distance * (exact + 1) / 65536,
        Convention::Clix => distance * exact / 65536,
    };
    if bin < nbins { Verdict::Bin(bin as u32) } else { Verdict::Outside }
}

/// The verdict of the code under test.
pub fn computed(convention: Convention, request: Request, pc: u64) -> Verdict {
    match Region::new(convention, request) {
        Err(error) => Verdict::Fails(error.errno()),
        Ok(None) => Verdict::Off,
        Ok(Some(region)) => region.bin_of(pc).map_or(Verdict::Outside, Verdict::Bin),
    }
}

/// One line of `vectors.csv`.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Number of the line in the file, from 1.
    pub line: usize,
    /// Manual page.
    pub convention: Convention,
    /// The call, with the 16-bit counters of profil(2).
    pub request: Request,
    /// The tick.
    pub pc: u64,
    /// What must come of it.
    pub expected: Verdict,
}

/// All lines of `vectors.csv`.
pub fn rows() -> Vec<Row> {
    let text = include_str!("../vectors.csv");
    text.lines().enumerate().skip(1).map(|(index, line)| row(index + 1, line)).collect()
}

fn row(line: usize, text: &str) -> Row {
    let fields: Vec<&str> = text.split(',').collect();
    let [convention, offset, scale, bufsiz, pc, expected] = fields[..] else {
        panic!("line {line} has {} fields: {text}", fields.len());
    };
    let convention = Convention::ALL.into_iter().find(|known| known.name() == convention);
    let convention = convention.unwrap_or_else(|| panic!("line {line} names no convention: {text}"));
    let expected = match expected {
        "EINVAL" => Verdict::Fails(Errno::Einval),
        "off" => Verdict::Off,
        "outside" => Verdict::Outside,
        bin => Verdict::Bin(number(line, bin) as u32),
    };
    let request = Request {
        offset: number(line, offset),
        scale: number(line, scale) as u32,
        bufsiz: number(line, bufsiz),
        width: 2,
    };
    Row { line, convention, request, pc: number(line, pc), expected }
}

fn number(line: usize, text: &str) -> u64 {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|error| panic!("line {line}: `{text}` is no number: {error}"))
}
