//! `profil attach`.

use std::process::ExitCode;

/// Arguments.
#[derive(clap::Args, Clone, Debug)]
pub struct AttachArgs {}

/// Runs.
pub fn run(_args: AttachArgs) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
