//! Where windows and profiles go.

pub mod target;
