//! What this kernel and this user can do, found by trying it: versions lie, since distributions carry features back.

pub mod bpf;
pub mod btf;
pub mod features;
pub mod perf;
pub mod support;
pub mod sysctl;

pub use features::Features;
pub use support::Support;
