//! How many tests passed, failed and were skipped, from what `cargo test` prints.

use std::fmt;

/// Sums over all test programs.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
    skips: Vec<String>,
}

impl Tally {
    /// Takes one line into account.
    ///
    /// Two kinds count: `test result: ok. 3 passed; 0 failed; 1 ignored; ...`, and `SKIP: name: reason`, which a test
    /// prints that cannot run here; libtest counts it as passed.
    pub fn line(&mut self, line: &str) {
        if let Some(skip) = line.strip_prefix("SKIP: ") {
            self.skips.push(skip.to_owned());
        } else if let Some(result) = line.strip_prefix("test result: ") {
            let (_verdict, counts) = result.split_once(". ").unwrap_or_default();
            for count in counts.split("; ") {
                let Some((number, what)) = count.split_once(' ') else { continue };
                let number: u64 = number.parse().unwrap_or(0);
                match what {
                    "passed" => self.passed += number,
                    "failed" => self.failed += number,
                    "ignored" => self.ignored += number,
                    _ => {}
                }
            }
        }
    }

    /// What was skipped: `name: reason`.
    pub fn skips(&self) -> &[String] {
        &self.skips
    }

    /// Tests that ran to a verdict.
    pub fn ran(&self) -> u64 {
        let Self { passed, failed, .. } = self;
        (passed + failed).saturating_sub(self.skips.len() as u64)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, ignored, skips } = self;
        let skipped = skips.len() as u64;
        let passed = passed.saturating_sub(skipped);
        write!(f, "{passed} passed, {failed} failed, {} skipped", skipped + ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(text: &str) -> Tally {
        let mut tally = Tally::default();
        text.lines().for_each(|line| tally.line(line));
        tally
    }

    #[test]
    fn results_of_all_programs_are_summed() {
        let sum = tally(
            "running 3 tests\n\
             test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.00s\n\
             test result: FAILED. 4 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.25s\n",
        );
        assert_eq!(sum.to_string(), "7 passed, 2 failed, 1 skipped");
        assert_eq!(sum.ran(), 9);
    }

    #[test]
    fn a_skipped_test_has_not_passed() {
        let sum =
            tally("SKIP: beside_bpftrace: no bpftrace\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured");
        assert_eq!(sum.to_string(), "0 passed, 0 failed, 1 skipped");
        assert_eq!(sum.ran(), 0);
        assert_eq!(sum.skips(), ["beside_bpftrace: no bpftrace"]);
    }

    #[test]
    fn a_skip_inside_a_sentence_is_none() {
        assert_eq!(tally("they print SKIP: x: y\n"), Tally::default());
    }
}
