//! The user side of profil: loads the eBPF program, drains what it counted, and carries it where it is wanted.
//!
//! Data flows one way: tick (in the kernel) → bin or row → drain → window → sink. Read ARCHITECTURE.md for the map.

pub mod build_id;
pub mod cli;
pub mod output;
pub mod pprof;
pub mod printable;
pub mod profile;
pub mod report;
pub mod sink;
pub mod symbols;
pub mod tally;
