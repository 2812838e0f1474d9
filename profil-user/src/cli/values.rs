//! Values as people type them.

use std::time::Duration;

use crate::rate::Rate;

/// A number: decimal, 0x hexadecimal, or octal with a leading 0, as the manual pages write scales (0177777).
///
/// # Errors
/// What is wrong with it, for clap.
pub fn number(text: &str) -> Result<u64, String> {
    let parsed = if let Some(digits) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        u64::from_str_radix(digits, 16)
    } else if text.len() > 1 && text.starts_with('0') {
        u64::from_str_radix(&text[1..], 8)
    } else {
        text.parse()
    };
    parsed.map_err(|_| format!("`{text}` is no number; write 4096, 0x1000 or 010000"))
}

/// A duration: seconds, or a number with `ms`, `s`, `m` or `h`.
///
/// # Errors
/// What is wrong with it, for clap.
pub fn duration(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{unit}` is no unit of time; use ms, s, m or h")),
    };
    let seconds = digits.parse::<f64>().ok().map(|number| number * factor);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("`{text}` is no duration; write 5, 2.5, 500ms or 1m"))
}

/// A rate, in Hz.
///
/// # Errors
/// What is wrong with it, for clap.
pub fn hz(text: &str) -> Result<f64, String> {
    let hz = text.parse().map_err(|_| format!("`{text}` is no rate in Hz; write 997 or 0.5"))?;
    Rate::new(hz).map(|_| hz).map_err(|error| error.to_string())
}

/// Largest table: 256 MiB of buckets for each half.
const TABLE_ROWS_MAX: u64 = 16 << 20;

/// Rows of the kernel's table.
///
/// # Errors
/// What is wrong with it, for clap.
pub fn table_rows(text: &str) -> Result<u32, String> {
    match number(text)? {
        rows @ 1..=TABLE_ROWS_MAX => Ok(rows as u32),
        rows => Err(format!("a table of {rows} rows cannot be had; give 1 to {TABLE_ROWS_MAX}")),
    }
}

/// Bytes of a counter.
///
/// # Errors
/// What is wrong with it, for clap.
pub fn width(text: &str) -> Result<u32, String> {
    match text {
        "2" => Ok(2),
        "4" => Ok(4),
        _ => Err(format!("width {text} is neither 2 nor 4 bytes")),
    }
}

/// A list of CPUs such as `0-3,8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus(pub Vec<u32>);

/// A list of CPUs: numbers and ranges.
///
/// # Errors
/// What is wrong with it, for clap.
pub fn cpus(text: &str) -> Result<Cpus, String> {
    let bad = || format!("`{text}` is no list of CPUs; write 0-3,8");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().map_err(|_| bad())?, last.parse().map_err(|_| bad())?);
        if first > last || last > 1 << 16 {
            return Err(bad());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(Cpus(cpus))
}

/// A list of CPUs in ascending order, as people write it: `0-3,8`.
pub fn cpu_list(cpus: &[u32]) -> String {
    let ranges = cpus.chunk_by(|a, b| a + 1 == *b).map(|range| match range {
        [first, .., last] => format!("{first}-{last}"),
        range => range.iter().map(u32::to_string).collect(),
    });
    ranges.collect::<Vec<_>>().join(",")
}

/// A user: a number, or a name of /etc/passwd.
///
/// # Errors
/// What is wrong with it, for clap.
pub fn user(text: &str) -> Result<u32, String> {
    if let Ok(uid) = text.parse() {
        return Ok(uid);
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let uid = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(text)).then(|| fields.nth(1)?.parse().ok())?
    });
    uid.ok_or_else(|| format!("there is no user `{text}` in /etc/passwd; give the number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_the_manual_pages_write_them() {
        assert_eq!(number("0177777"), Ok(65535));
        assert_eq!(number("0x400000"), Ok(0x40_0000));
        assert_eq!((number("0"), number("64")), (Ok(0), Ok(64)));
        for bad in ["", "0x", "-1", "089", "x", "18446744073709551616"] {
            assert!(number(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("5"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("2.5"), Ok(Duration::from_millis(2500)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m"), Ok(Duration::from_secs(60)));
        for bad in ["", "0", "-1", "5 apples", "nan", "inf", "1e300"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn cpu_lists_have_ranges() {
        assert_eq!(cpus("0-2,8,1"), Ok(Cpus(vec![0, 1, 2, 8])));
        for bad in ["", "3-1", "a", "0-99999999"] {
            assert!(cpus(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_list_of_cpus_is_written_as_it_is_read() {
        for list in ["0-3,8", "5", "0,2,4-5", ""] {
            assert_eq!(cpu_list(&cpus(list).unwrap_or(Cpus(vec![])).0), list);
        }
    }

    #[test]
    fn rates_sizes_and_widths_that_are_none_are_refused() {
        assert_eq!((hz("997"), table_rows("16"), width("4")), (Ok(997.0), Ok(16), Ok(4)));
        for bad in ["0", "-1", "nan", "x", "1e9"] {
            assert!(hz(bad).is_err(), "{bad}");
        }
        for bad in ["0", "16777217", "4000000000", "18446744073709551615", "many"] {
            assert!(table_rows(bad).is_err(), "{bad}");
        }
        for bad in ["0", "3", "8", "two"] {
            assert!(width(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn users_have_names() {
        assert_eq!((user("root"), user("65534")), (Ok(0), Ok(65534)));
        assert!(user("no such user").is_err());
    }
}
