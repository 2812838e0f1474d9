//! Recording: from the selection of targets to a [`Profile`](crate::profile::Profile).

mod assemble;
mod fold;
mod jits;
mod live;
mod naming;
mod recorder;
mod resolve;
mod selection;

pub use live::{CpuWindow, LastNames, Live, LiveWindow};
pub use recorder::{RecordError, Recorder, Remark};

pub use selection::{
    Cgroup, CgroupError, Filters, Follow, Idle, ModeFilter, RecordConfig, Rows, Selection, SelectionError,
};
