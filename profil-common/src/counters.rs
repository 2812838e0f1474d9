/// What became of a tick. Each tick has exactly one outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Counted in a dense bin of its process.
    Binned,
    /// Counted as a row of the sparse table.
    Stray,
    /// Its pc belongs to no region, and strays were not asked for; or its mode (user, kernel) was not asked for.
    Outside,
    /// The thread has no user pc: a kernel thread, or a thread that is gone.
    NoUserPc,
    /// Taken in the kernel while only user mode was asked for.
    KernelExcluded,
    /// Wanted, but not counted: the table was full or its bucket was busy.
    Dropped,
}

impl Outcome {
    /// All outcomes, in the order in which they are shown.
    pub const ALL: [Outcome; 6] = [
        Outcome::Binned,
        Outcome::Stray,
        Outcome::Outside,
        Outcome::NoUserPc,
        Outcome::KernelExcluded,
        Outcome::Dropped,
    ];

    /// Name in tables, JSON and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Binned => "binned",
            Outcome::Stray => "stray",
            Outcome::Outside => "outside",
            Outcome::NoUserPc => "no_user_pc",
            Outcome::KernelExcluded => "kernel_excluded",
            Outcome::Dropped => "dropped",
        }
    }
}

/// One CPU's counters, written by the tick on that CPU only, but for the epoch, and read through a memory map.
///
/// Two identities hold at every quiescent point, and are checked at every flush:
/// `fired = elsewhere + between + ticks`, and `ticks` = the sum of the six outcomes.
/// `fired` and `ticks` are increments of their own, each made before the branches that it is checked against.
#[repr(C, align(128))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Runs of the program: one for each expiry of the clock that reached it.
    pub fired: u64,
    /// Runs on behalf of a process or thread that was not asked for, or in the idle task.
    pub elsewhere: u64,
    /// Runs that only advanced the CPU time of their process: the clock runs faster than the ticks.
    pub between: u64,
    /// Ticks of the target.
    pub ticks: u64,
    /// Ticks by outcome, indexed by [`Outcome`].
    pub outcomes: [u64; 6],
    /// Rows added to the sparse table, behind those in front; tells the loader when to drain.
    pub rows: u64,
    /// Children of known processes that the table of processes had no room for: their ticks are `elsewhere`.
    pub unfollowed: u64,
    /// Events that the ring had no room for.
    pub unannounced: u64,
    /// Which half of the sparse table this CPU's ticks go to, by its lowest bit; written by the loader only.
    pub epoch: u64,
    /// Binned ticks that went into lanes, which belong to their process: no drain finds them.
    pub in_lanes: u64,
    /// Keeps each CPU's counters on cache lines of their own.
    pub reserved: u64,
}

impl Counters {
    /// Ticks with an outcome.
    pub const fn outcome(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    /// Sum of the six outcomes; equal to `ticks` at a quiescent point.
    pub fn accounted(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// Adds the counters of another CPU, or of a later window.
    pub fn add(&mut self, other: &Counters) {
        self.zip(other, u64::wrapping_add);
    }

    /// Counters since `earlier`, which was read from the same program.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let mut delta = *self;
        delta.zip(earlier, u64::wrapping_sub);
        delta
    }

    fn zip(&mut self, other: &Counters, op: fn(u64, u64) -> u64) {
        let Counters {
            fired,
            elsewhere,
            between,
            ticks,
            outcomes,
            rows,
            unfollowed,
            unannounced,
            epoch: _,
            in_lanes,
            reserved: _,
        } = other;
        self.fired = op(self.fired, *fired);
        self.elsewhere = op(self.elsewhere, *elsewhere);
        self.between = op(self.between, *between);
        self.ticks = op(self.ticks, *ticks);
        for (mine, other) in self.outcomes.iter_mut().zip(outcomes) {
            *mine = op(*mine, *other);
        }
        self.rows = op(self.rows, *rows);
        self.unfollowed = op(self.unfollowed, *unfollowed);
        self.unannounced = op(self.unannounced, *unannounced);
        self.in_lanes = op(self.in_lanes, *in_lanes);
    }
}
