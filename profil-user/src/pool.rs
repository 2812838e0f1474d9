//! The pool: one array of bins for many processes, which the tick indexes without a call and without a look at the array's
//! head. It is of a fixed size; who finds no room in it has an array of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bins::{Bins, CHUNK_WORDS, chunks_of};
use crate::map_memory::MapMemory;

/// Bins in one array, handed out in runs of chunks.
pub struct Pool {
    memory: Arc<MapMemory>,
    free: Runs,
}

impl Pool {
    /// A pool of the chunks of an array but for its first one, whose number stands for bins that are in no pool.
    pub(crate) fn new(memory: MapMemory) -> Pool {
        let chunks = (memory.words().len() / CHUNK_WORDS) as u32;
        Pool { memory: Arc::new(memory), free: Runs::new(1, chunks.saturating_sub(1)) }
    }

    /// Takes `nbins` bins, all 0; `None` when there is no room for so many.
    pub fn take(&mut self, nbins: u32) -> Option<Bins> {
        let chunks = chunks_of(nbins);
        let first = self.free.take(chunks)?;
        // Whoever had them last has left a grace period ago, so that no tick counts into them.
        let (from, words) = (first as usize * CHUNK_WORDS, chunks as usize * CHUNK_WORDS);
        (from..from + words).for_each(|word| self.memory.store(word, 0));
        Some(Bins::in_pool(Arc::clone(&self.memory), first, nbins))
    }

    /// Takes bins back that came from here. No tick may be under way that counts into them.
    pub fn put_back(&mut self, bins: Bins) {
        if bins.first_chunk() != 0 {
            self.free.put_back(bins.first_chunk(), chunks_of(bins.nbins()));
        }
    }
}

/// Free numbers: the length of each run by its first number. No two runs touch.
struct Runs(BTreeMap<u32, u32>);

impl Runs {
    fn new(first: u32, length: u32) -> Runs {
        Runs([(first, length)].into_iter().filter(|(_, length)| *length > 0).collect())
    }

    /// The first of `length` numbers in a row, the lowest that are free.
    fn take(&mut self, length: u32) -> Option<u32> {
        let (first, free) = self.0.iter().map(|(first, free)| (*first, *free)).find(|(_, free)| *free >= length)?;
        self.0.remove(&first);
        if free > length {
            self.0.insert(first + length, free - length);
        }
        Some(first)
    }

    fn put_back(&mut self, mut first: u32, mut length: u32) {
        if let Some((before, free)) = self.0.range(..first).next_back().map(|(before, free)| (*before, *free))
            && before + free == first
        {
            self.0.remove(&before);
            (first, length) = (before, free + length);
        }
        if let Some(free) = self.0.remove(&(first + length)) {
            length += free;
        }
        self.0.insert(first, length);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_number_is_taken_twice_and_all_come_back(wishes in prop::collection::vec((1u32..20, any::<bool>()), 0..60)) {
            let mut free = Runs::new(1, 100);
            let mut taken: Vec<(u32, u32)> = Vec::new();
            for (length, gives) in wishes {
                match free.take(length) {
                    Some(first) => {
                        prop_assert!(first >= 1 && first + length <= 101);
                        let meets = |(other, of): &(u32, u32)| first < other + of && *other < first + length;
                        prop_assert!(!taken.iter().any(meets));
                        taken.push((first, length));
                    }
                    // Only where no gap is long enough: 100 numbers, some of them taken.
                    None => prop_assert!(!taken.is_empty()),
                }
                if gives && !taken.is_empty() {
                    let (first, length) = taken.swap_remove(length as usize % taken.len());
                    free.put_back(first, length);
                }
            }
            for (first, length) in taken {
                free.put_back(first, length);
            }
            prop_assert_eq!(free.0, BTreeMap::from([(1, 100)]));
        }
    }
}
