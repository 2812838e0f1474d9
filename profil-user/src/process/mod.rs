//! What is known of a process before it is profiled.

pub mod cgroup_service;
pub mod cpu_time;
pub mod namespace;
mod proc_dir;
mod stat;
mod status;
mod target;

pub use proc_dir::ProcDir;
pub use stat::Stat;
pub use status::{Seccomp, Status};
pub use target::{TargetError, TargetProcess};
