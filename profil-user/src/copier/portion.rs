//! Portions of a flush: what is asked of a copier at a time, and which buffers it goes to.

use super::BufferPlan;
use crate::bins::Run;

/// Cuts runs into portions of at most `words` words, where a run takes two and one for each bin.
pub fn portions(runs: Vec<Run>, words: usize) -> Vec<Vec<Run>> {
    let mut portions = Vec::new();
    let mut portion = Vec::new();
    let mut room = words;
    for Run { first, added } in runs {
        let mut first = first;
        let mut rest = &added[..];
        while !rest.is_empty() {
            if room < 3 {
                portions.push(std::mem::take(&mut portion));
                room = words;
            }
            let (now, later) = rest.split_at(rest.len().min(room - 2));
            portion.push(Run { first, added: now.to_vec() });
            room -= now.len() + 2;
            first += now.len() as u32;
            rest = later;
        }
    }
    if !portion.is_empty() {
        portions.push(portion);
    }
    portions
}

/// The runs of each plan, counted from its own first bin, as pairs with the plan's index. Plans are in ascending order
/// of bins and do not overlap; bins of no plan are left out.
pub fn by_plan(plans: &[BufferPlan], runs: &[Run]) -> Vec<(usize, Vec<Run>)> {
    let mut found: Vec<(usize, Vec<Run>)> = Vec::new();
    for run in runs {
        let (run_start, run_end) = (u64::from(run.first), u64::from(run.first) + run.added.len() as u64);
        let index = plans.partition_point(|plan| end(plan) <= run_start);
        for (index, plan) in plans.iter().enumerate().skip(index) {
            let plan_start = u64::from(plan.first_bin);
            if plan_start >= run_end {
                break;
            }
            let (from, to) = (run_start.max(plan_start), run_end.min(end(plan)));
            let Some(added) = run.added.get((from - run_start) as usize..(to.max(from) - run_start) as usize) else {
                continue;
            };
            if added.is_empty() {
                continue;
            }
            let part = Run { first: (from - plan_start) as u32, added: added.to_vec() };
            match found.iter_mut().rev().find(|(known, _)| *known == index) {
                Some((_, parts)) => parts.push(part),
                None => found.push((index, vec![part])),
            }
        }
    }
    found
}

fn end(plan: &BufferPlan) -> u64 {
    u64::from(plan.first_bin) + u64::from(plan.nbins)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::sink::target::{AtLimit, Width};

    fn counts(runs: &[Run]) -> Vec<(u32, u32)> {
        let bins = |run: &Run| -> Vec<(u32, u32)> { (run.first..).zip(run.added.iter().copied()).collect() };
        runs.iter().flat_map(bins).collect()
    }

    fn plans_of(shapes: &[(u32, u32)]) -> Vec<BufferPlan> {
        let mut bin = 0;
        let mut plans = Vec::new();
        for (gap, nbins) in shapes {
            let (nbins, first_bin) = (*nbins, bin + gap);
            plans.push(BufferPlan { start: 0, nbins, first_bin, width: Width::Two, at_limit: AtLimit::Wrap });
            bin = first_bin + nbins;
        }
        plans
    }

    fn runs_of(shapes: &[(u32, Vec<u32>)]) -> Vec<Run> {
        let mut bin = 0;
        let mut runs = Vec::new();
        for (gap, added) in shapes {
            let first = bin + gap;
            bin = first + added.len() as u32;
            runs.push(Run { first, added: added.clone() });
        }
        runs
    }

    fn some_runs() -> impl Strategy<Value = Vec<Run>> {
        let run = (1u32..9, proptest::collection::vec(1u32..100, 1..20));
        proptest::collection::vec(run, 0..20).prop_map(|shapes| runs_of(&shapes))
    }

    proptest! {
        #[test]
        fn portions_hold_each_bin_once_and_keep_their_size(runs in some_runs(), words in 3usize..40) {
            let portions = portions(runs.clone(), words);
            let size = |portion: &Vec<Run>| portion.iter().map(|run| run.added.len() + 2).sum::<usize>();
            prop_assert!(portions.iter().all(|portion| size(portion) <= words && !portion.is_empty()));
            prop_assert_eq!(counts(&portions.concat()), counts(&runs));
        }

        #[test]
        fn each_bin_of_a_plan_goes_to_its_counter_once(
            runs in some_runs(),
            shapes in proptest::collection::vec((0u32..5, 0u32..30), 0..9),
        ) {
            let plans = plans_of(&shapes);
            let mut by_bin = BTreeMap::new();
            for (index, parts) in by_plan(&plans, &runs) {
                for (counter, count) in counts(&parts) {
                    prop_assert!(counter < plans[index].nbins);
                    prop_assert_eq!(by_bin.insert(plans[index].first_bin + counter, count), None);
                }
            }
            let planned = |bin: u32| plans.iter().any(|plan| (plan.first_bin..plan.first_bin + plan.nbins).contains(&bin));
            let expected: BTreeMap<u32, u32> = counts(&runs).into_iter().filter(|(bin, _)| planned(*bin)).collect();
            prop_assert_eq!(by_bin, expected);
        }
    }
}
