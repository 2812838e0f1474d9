//! The command line: arguments, messages, and what is printed. Nothing below it prints.

pub mod doctor;
pub mod report;
