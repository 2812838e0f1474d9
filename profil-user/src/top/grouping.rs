//! Which group each row of a growing profile is in.

use std::collections::{HashMap, HashSet};

use crate::profile::Profile;
use crate::report::{By, Group, Index};

/// Groups by number. What rows have in common is found once for each row, and its name once for each place or process.
#[derive(Debug)]
pub struct Grouping {
    by: By,
    groups: Vec<Group>,
    numbers: HashMap<Group, usize>,
    shared: Vec<Shared>,
    by_index: HashMap<Index, usize>,
    /// Index in `shared` of each row.
    of_row: Vec<usize>,
}

/// What rows have in common.
#[derive(Debug)]
struct Shared {
    index: Index,
    /// Location of one of the rows: all have it, where the groups are by place.
    location: usize,
    /// Number of their group.
    group: usize,
}

impl Grouping {
    /// No rows yet.
    pub fn new(by: By) -> Grouping {
        Grouping {
            by,
            groups: Vec::new(),
            numbers: HashMap::new(),
            shared: Vec::new(),
            by_index: HashMap::new(),
            of_row: Vec::new(),
        }
    }

    /// What the groups are by.
    pub fn by(&self) -> By {
        self.by
    }

    /// Forgets all: the rows are others now.
    pub fn clear(&mut self) {
        *self = Grouping::new(self.by);
    }

    /// Takes in the rows that are new.
    pub fn extend(&mut self, profile: &Profile) {
        for row in profile.rows.get(self.of_row.len()..).unwrap_or_default() {
            let index = self.by.index(row);
            let at = match self.by_index.get(&index) {
                Some(at) => *at,
                None => {
                    let group = self.number_of(self.by.group(profile, index));
                    self.shared.push(Shared { index, location: row.location, group });
                    self.by_index.insert(index, self.shared.len() - 1);
                    self.shared.len() - 1
                }
            };
            self.of_row.push(at);
        }
    }

    /// Takes in that places have other names now.
    pub fn rename(&mut self, profile: &Profile, locations: &[usize]) {
        if locations.is_empty() {
            return;
        }
        let renamed: HashSet<usize> = locations.iter().copied().collect();
        for at in 0..self.shared.len() {
            let Shared { index, location, .. } = self.shared[at];
            if renamed.contains(&location) {
                self.shared[at].group = self.number_of(self.by.group(profile, index));
            }
        }
    }

    fn number_of(&mut self, group: Group) -> usize {
        if let Some(number) = self.numbers.get(&group) {
            return *number;
        }
        self.groups.push(group.clone());
        self.numbers.insert(group, self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// The number of each row's group, in the order of the profile's rows.
    pub fn of_rows(&self) -> impl Iterator<Item = usize> {
        self.of_row.iter().map(|at| self.shared[*at].group)
    }

    /// The groups, in the order of their numbers. One may have lost its rows to another.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Number of a group.
    pub fn find(&self, group: &Group) -> Option<usize> {
        self.numbers.get(group).copied()
    }
}
