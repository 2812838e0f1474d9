//! What a target measured of itself.

use std::collections::BTreeMap;

/// Numbers by name, from lines such as `busy 1.25` that a target prints; other lines are not looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Truth(BTreeMap<String, f64>);

impl Truth {
    /// Reads what a target printed.
    pub fn read(text: &str) -> Truth {
        let number = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        };
        Truth(text.lines().filter_map(number).collect())
    }

    /// The number of that name.
    ///
    /// # Panics
    ///
    /// If the target did not print it.
    pub fn of(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("the target did not tell {name}: {self:?}"))
    }

    /// Numbers whose names begin with `prefix`, without it.
    pub fn all<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, f64)> + 'a {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, *value)))
    }
}
