//! Running other programs: said before, checked after.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Shows and runs a command.
///
/// # Errors
///
/// If it cannot be started or does not succeed.
pub fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", shown(command));
    run_quietly(command)
}

/// Runs a command without showing it.
///
/// # Errors
///
/// If it cannot be started or does not succeed.
pub fn run_quietly(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs a command and shows what it printed only if it fails.
///
/// # Errors
///
/// If it cannot be started or does not succeed.
pub fn run_captured(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run `{}`", shown(command)))?;
    if !output.status.success() {
        eprint!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("`{}` failed: {}", shown(command), output.status);
    }
    Ok(())
}

/// The trimmed stdout of a command that succeeds, `None` where it is missing or fails: for questions to the system.
pub fn answer(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The command as it could be typed, environment included.
pub fn shown(command: &Command) -> String {
    let environment = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), value?.to_string_lossy())));
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(|word| {
        let word = word.to_string_lossy();
        if word.contains([' ', '"', '\u{1f}']) { format!("'{word}'") } else { word.into_owned() }
    });
    environment.chain(words).collect::<Vec<_>>().join(" ")
}
