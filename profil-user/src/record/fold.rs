//! Keeps a profile that grows for days from growing for ever: processes that are gone become one.

use std::collections::HashMap;

use super::live::RowIndex;
use crate::profile::{ProcessInfo, Profile, Row};

/// Command name of all processes that are gone.
pub const ENDED: &str = "[ended]";

/// What has moved where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Folded {
    /// New index of each row.
    pub(super) rows: Vec<usize>,
    /// New index of each process that is kept.
    pub(super) processes: HashMap<usize, usize>,
    /// Rows by what tells them apart.
    pub(super) by_index: HashMap<RowIndex, usize>,
}

/// Adds up the rows of processes that are gone, as rows of one process. No tick is lost.
pub(super) fn fold(profile: &mut Profile, is_there: impl Fn(&ProcessInfo) -> bool) -> Folded {
    let mut processes = HashMap::new();
    let mut kept = vec![ProcessInfo { pid: 0, generation: 1, comm: ENDED.to_owned(), service: None }];
    for (index, process) in std::mem::take(&mut profile.processes).into_iter().enumerate() {
        if is_there(&process) {
            processes.insert(index, kept.len());
            kept.push(process);
        }
    }
    profile.processes = kept;
    let mut by_index = HashMap::new();
    let mut rows: Vec<Row> = Vec::new();
    let moved = std::mem::take(&mut profile.rows).into_iter().map(|row| {
        let process = row.process.map(|process| processes.get(&process).copied().unwrap_or(0));
        let tid = row.tid.filter(|_| process != Some(0));
        let Row { location, mode, ticks, .. } = row;
        let index = *by_index.entry((location, process, tid, mode)).or_insert_with(|| {
            rows.push(Row { location, process, tid, mode, ticks: 0 });
            rows.len() - 1
        });
        rows[index].ticks += ticks;
        index
    });
    let moved = moved.collect();
    profile.rows = rows;
    Folded { rows: moved, processes, by_index }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{By, Report, sample};

    #[test]
    fn processes_that_are_gone_become_one_and_no_tick_is_lost() {
        let mut profile = sample::profile();
        let before = profile.clone();
        let folded = fold(&mut profile, |process| process.generation == 2);
        assert_eq!(
            profile.processes.iter().map(|process| process.comm.as_str()).collect::<Vec<_>>(),
            [ENDED, "ju st\nin"]
        );
        let by = |profile: &Profile, by| {
            let rows = Report::new(profile, by, |_| true).rows;
            rows.into_iter().map(|row| (row.group.function, row.ticks, row.kernel_percent)).collect::<Vec<_>>()
        };
        assert_eq!(by(&profile, By::Function), by(&before, By::Function));
        let ticks = |profile: &Profile, row: usize| profile.rows[row].ticks;
        for (old, new) in folded.rows.iter().enumerate() {
            assert!(ticks(&profile, *new) >= ticks(&before, old));
            assert_eq!(profile.rows[*new].location, before.rows[old].location);
        }
        // Again, with what was folded before.
        let rows = profile.rows.len();
        fold(&mut profile, |_| false);
        assert_eq!(profile.processes.len(), 1);
        assert!(profile.rows.len() <= rows);
        assert_eq!(profile.rows.iter().map(|row| row.ticks).sum::<u64>(), 1000);
    }
}
