//! Support for the suite that needs root and a kernel.
//!
//! A test builds its C targets in a [`Scratch`] folder, runs them alone or under [`Profil`], and compares what the
//! profile's [`Report`] says with the [`Truth`] that the target measured itself and printed.

pub mod annotation;
pub mod attacker;
pub mod cgroup;
pub mod daemon;
pub mod feature;
pub mod fuse;
pub mod patience;
pub mod profil;
pub mod report;
pub mod run;
pub mod running;
pub mod scratch;
pub mod tmux;
pub mod truth;

pub use cgroup::Cgroup;
pub use daemon::Daemon;
pub use profil::{Profil, Recorded, Recording};
pub use report::{By, Report, Row};
pub use run::{Ran, Run};
pub use running::Running;
pub use scratch::Scratch;
pub use tmux::Tmux;
pub use truth::Truth;
