//! Rules on the tree itself.

use anyhow::Result;

use crate::workspace::Workspace;

/// Checks all rules.
pub fn run(_workspace: &Workspace) -> Result<()> {
    Ok(())
}
