use crate::limits::FRONT_ROWS;

/// Bits of [`RowKey::flags`].
pub mod row_flags {
    /// The tick was taken in the kernel.
    pub const KERNEL_MODE: u32 = 1 << 0;
    /// `pc` is an address in the kernel, not the user pc that the kernel will return to.
    pub const KERNEL_PC: u32 = 1 << 1;
}

/// Key of a row of the sparse table; the value is a 64-bit count of ticks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKey {
    /// [`Process::image`](crate::Process::image) at the tick.
    pub image: u64,
    /// The pc (AVMA).
    pub pc: u64,
    /// Thread in the initial PID namespace, or 0 when threads are not told apart.
    pub tid: u32,
    /// [`row_flags`].
    pub flags: u32,
}

/// A row that one CPU keeps to itself, at the [`FrontRow::place`] of its key: found without hashing all of the key, and
/// counted without locking out other CPUs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontRow {
    /// Ticks; 0 while the place is vacant.
    pub count: u64,
    /// The key; unspecified while the place is vacant.
    pub key: RowKey,
}

impl FrontRow {
    /// Place of a key among the [`FRONT_ROWS`] of a CPU.
    #[inline(always)]
    pub const fn place(key: &RowKey) -> u32 {
        // 2^64 divided by the golden ratio. A product mixes upwards only: its high half is folded onto the low one and
        // multiplied again, since pages or threads that follow each other would share few rows otherwise.
        const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
        let fields = key.pc ^ key.image.rotate_left(32) ^ ((key.tid as u64) << 24) ^ ((key.flags as u64) << 56);
        let mixed = fields.wrapping_mul(MULTIPLIER);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(MULTIPLIER);
        (mixed >> (64 - FRONT_ROWS.ilog2())) as u32
    }

    /// Index of a CPU's first front row in a half of the table: halves of a CPU are neighbours.
    #[inline(always)]
    pub const fn first_of(cpu: u32, half: u32) -> u32 {
        (2 * cpu + half) * FRONT_ROWS
    }
}

/// One tick of a recording: what the oracle of the bin formula is run over.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickRecord {
    /// [`Process::image`](crate::Process::image) at the tick.
    pub image: u64,
    /// The pc (AVMA).
    pub pc: u64,
    /// Thread in the initial PID namespace.
    pub tid: u32,
    /// The [`Outcome`](crate::Outcome) that the tick had.
    pub outcome: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_and_cpus_have_rows_of_their_own() {
        let firsts = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(cpu, half)| FrontRow::first_of(cpu, half));
        assert_eq!(firsts, [0, 1, 2, 3].map(|block| block * FRONT_ROWS));
    }

    #[test]
    fn keys_that_differ_in_one_field_spread_over_all_rows() {
        let images = |index: u64| RowKey { image: (1_000_000_007 + index) << 10, pc: 0x40_1000, ..RowKey::default() };
        let launched = |index: u64| RowKey { image: 1 + index, pc: 0x40_1000, ..RowKey::default() };
        let instructions = |index: u64| RowKey { image: 1, pc: 0x40_1000 + 3 * index, ..RowKey::default() };
        let pages = |index: u64| RowKey { image: 1, pc: 0x7f00_0000_0000 + 4096 * index, ..RowKey::default() };
        let threads = |index: u64| RowKey { image: 1, pc: 0x40_1000, tid: 7000 + index as u32, flags: 1 };
        let families: [&dyn Fn(u64) -> RowKey; 5] = [&images, &launched, &instructions, &pages, &threads];
        for (family, key) in families.iter().enumerate() {
            let mut taken = [false; FRONT_ROWS as usize];
            for index in 0..u64::from(FRONT_ROWS) {
                taken[FrontRow::place(&key(index)) as usize] = true;
            }
            // By chance alone, 1 - 1/e of the rows are hit.
            let hit = taken.iter().filter(|taken| **taken).count();
            assert!(hit > FRONT_ROWS as usize / 2, "family {family}: {hit} of {FRONT_ROWS} rows");
        }
    }
}
