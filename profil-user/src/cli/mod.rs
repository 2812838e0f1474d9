//! The command line: the only place that prints.

pub mod doctor;
