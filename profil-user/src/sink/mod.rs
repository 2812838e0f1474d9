//! Where windows and profiles go.

pub mod target;
pub mod gmon;
pub mod pprof;
