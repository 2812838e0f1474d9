//! The tests.

use anyhow::Result;

use crate::check;
use crate::workspace::Workspace;

/// Which tests to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All.
    All,
    /// Only what needs no root.
    Unit,
    /// Only what needs root and a kernel.
    Root,
}

/// Runs them.
pub fn run(workspace: &Workspace, _part: Part, _filter: Option<&str>) -> Result<()> {
    check::run(workspace, check::Mode::Report)
}
