//! Where windows and profiles go.

pub mod autofdo;
pub mod bolt;
pub mod by_object;
pub mod callgrind;
pub mod folded;
pub mod gmon;
pub mod gmon_files;
pub mod hazards;
pub mod pprof;
pub mod rows;
pub mod target;
