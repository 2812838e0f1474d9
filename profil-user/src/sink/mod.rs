//! Where windows and profiles go.

pub mod gmon;
pub mod pprof;
pub mod target;
