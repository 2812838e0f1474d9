//! Where windows and profiles go.

pub mod gmon;
pub mod hazards;
pub mod pprof;
pub mod target;
