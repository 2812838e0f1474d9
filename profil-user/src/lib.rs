//! The user side of profil: loads the eBPF program, drains what it counted, and carries it where it is wanted.
//!
//! Data flows one way: tick (in the kernel) → bin or row → drain → window → sink. Read ARCHITECTURE.md for the map.

pub mod address_space;
pub mod annotate;
pub mod attach;
pub mod bins;
pub mod build_id;
pub mod cli;
pub mod clock;
pub mod copier;
pub mod doctor;
pub mod histogram;
pub mod images;
pub mod lanes;
pub mod launch;
pub mod map_memory;
pub mod maps;
pub mod objects;
pub mod output;
pub mod pprof;
pub mod preload;
pub mod printable;
pub mod privileges;
pub mod probe;
pub mod process;
pub mod profile;
pub mod rate;
pub mod readiness;
pub mod record;
pub mod report;
mod rows;
pub mod service;
pub mod session;
pub mod sideband;
pub mod sink;
pub mod symbols;
pub mod tally;
pub mod target_object;
pub mod target_time;
pub mod top;
pub mod window;
