//! The two clocks that a tick can come from.

/// Which perf event runs the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// One `cpu-clock` event for each CPU, for all processes.
    Cpu,
    /// One `task-clock` event for each thread, inherited from the first.
    Thread,
}
