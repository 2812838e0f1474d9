//! Recording: from the selection of targets to a [`Profile`](crate::profile::Profile).

mod assemble;
mod jits;
mod recorder;
mod resolve;
mod selection;

pub use recorder::{RecordError, Recorder, Remark};

pub use selection::{
    Cgroup, CgroupError, Filters, Follow, Idle, ModeFilter, RecordConfig, Rows, Selection, SelectionError,
};
