//! From an error to what the user reads, and to the exit status.

use std::error::Error;
use std::io;

use rustix::process::{Resource, getrlimit};

use crate::address_space::AddressSpaceError;
use crate::attach::AttachError;
use crate::clock::ClockError;
use crate::launch::LaunchError;
use crate::privileges::{self, Operation, PermissionError};
use crate::record::RecordError;
use crate::service::ServiceError;
use crate::session::SessionError;
use crate::sink::target::BadBuffer;
use crate::target_object::TargetObjectError;

/// Exit status of a failure.
pub const FAILURE: u8 = 1;
/// Exit status of a usage error.
pub const USAGE: u8 = 2;
/// Exit status when a right is lacking.
pub const PERMISSION: u8 = 3;
/// Exit status when there was nothing to count.
pub const NO_TICKS: u8 = 4;
/// Exit status of a failure of profil itself while it launches a command.
pub const LAUNCH_FAILURE: u8 = 125;
/// Exit status when the command cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// Exit status when there is no such command.
pub const NOT_FOUND: u8 = 127;

/// How a command was used wrongly: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct UsageError {
    /// What is wrong, and what to do.
    pub message: String,
}

/// A usage error.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    UsageError { message: message.into() }.into()
}

/// Whether the failing command was to launch another one: the exit status then must not be taken for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launching {
    /// It was.
    Yes,
    /// It was not.
    No,
}

/// The exit status of an error.
pub fn status(error: &anyhow::Error, launching: Launching) -> u8 {
    match error.downcast_ref::<LaunchError>() {
        Some(LaunchError::NotFound { .. }) => return NOT_FOUND,
        Some(LaunchError::NotExecutable { .. }) => return NOT_EXECUTABLE,
        Some(LaunchError::Fork { .. }) | None => {}
    }
    if error.is::<UsageError>() {
        USAGE
    } else if launching == Launching::Yes {
        LAUNCH_FAILURE
    } else if privileges::is_about_permission(error.as_ref()) {
        PERMISSION
    } else {
        FAILURE
    }
}

/// The text of an error and its causes, but for causes that say again what was just said.
pub fn text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    let mut last = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if !last.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
        last = cause;
    }
    text
}

/// All that the verifier said, if it refused a program.
pub fn verifier_log(error: &anyhow::Error) -> Option<&str> {
    match session_error(error)? {
        SessionError::Program { verifier_log, .. } => Some(verifier_log),
        _ => None,
    }
}

/// The error of the session that an error is, if it is one.
fn session_error(error: &anyhow::Error) -> Option<&SessionError> {
    if let Some(RecordError::Session(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(AttachError::Session(error)) = error.downcast_ref() {
        return Some(error);
    }
    match error.downcast_ref() {
        Some(ServiceError::Session(error)) => Some(error),
        _ => None,
    }
}

/// Puts an error that comes from a lack of rights, of descriptors or of kernel memory into the words that say which, and
/// what to do.
pub fn explain(error: anyhow::Error) -> anyhow::Error {
    let Some(number) = system_error(error.as_ref()) else {
        return error;
    };
    if number == libc::EMFILE {
        return error.context(no_descriptor_left());
    }
    if matches!(number, libc::ENOMEM | libc::E2BIG) {
        return match option_of_size(&error) {
            Some(option) => error.context(option),
            None => error,
        };
    }
    let Some(operation) = operation(&error) else {
        return error;
    };
    match PermissionError::explain(operation, io::Error::from_raw_os_error(number)) {
        Ok(permission) => permission.into(),
        Err(_) => error,
    }
}

fn no_descriptor_left() -> String {
    let limit = getrlimit(Resource::Nofile).current.map_or("unlimited".to_owned(), |limit| limit.to_string());
    format!("no file descriptor is left: RLIMIT_NOFILE is {limit}; raise it, as with `ulimit -n 4096`")
}

/// What to ask for less of, where the kernel has no memory for a table.
fn option_of_size(error: &anyhow::Error) -> Option<&'static str> {
    match session_error(error) {
        Some(SessionError::Rows { .. }) => {
            Some("the kernel has no memory for so large a table; ask for fewer rows with --table-rows")
        }
        Some(SessionError::SingleBins { .. }) => {
            Some("the kernel has no memory for so many bins; ask for fewer with --bufsiz or --scale")
        }
        _ => None,
    }
}

/// What was being done when an error came, where that takes a right.
fn operation(error: &anyhow::Error) -> Option<Operation> {
    if let Some(error) = session_error(error) {
        return operation_of_session(error);
    }
    if let Some(error) = error.downcast_ref::<RecordError>() {
        return match error {
            RecordError::Sideband(_) => Some(Operation::OpenCpuEvent),
            RecordError::Clock(error) => operation_of_clock(error),
            _ => None,
        };
    }
    if let Some(ServiceError::Clock(error)) = error.downcast_ref() {
        return operation_of_clock(error);
    }
    let memory = match error.downcast_ref::<AttachError>() {
        Some(AttachError::Clock(error)) => return operation_of_clock(error),
        Some(AttachError::Buffer { source: BadBuffer::Hazards { .. }, .. }) => return Some(Operation::OpenMemory),
        Some(AttachError::Memory(error) | AttachError::Buffer { source: BadBuffer::Maps(error), .. }) => Some(error),
        _ => error.downcast_ref::<AddressSpaceError>().or(match error.downcast_ref::<TargetObjectError>() {
            Some(TargetObjectError::Maps(error)) => Some(error),
            _ => None,
        }),
    };
    matches!(memory?, AddressSpaceError::Open { .. } | AddressSpaceError::Maps { .. }).then_some(Operation::OpenMemory)
}

fn operation_of_session(error: &SessionError) -> Option<Operation> {
    match error {
        SessionError::Load { .. } | SessionError::Rows { .. } | SessionError::SingleBins { .. } => {
            Some(Operation::CreateMap)
        }
        SessionError::Program { .. } => Some(Operation::LoadProgram),
        SessionError::Attach { .. } => Some(Operation::AttachProgram),
        SessionError::Layout(_)
        | SessionError::Missing { .. }
        | SessionError::Map { .. }
        | SessionError::Read { .. } => None,
    }
}

fn operation_of_clock(error: &ClockError) -> Option<Operation> {
    match error {
        ClockError::Open { .. } => Some(Operation::OpenCpuEvent),
        ClockError::Control { .. } => Some(Operation::AttachProgram),
    }
}

/// The number of the system error that an error comes from.
fn system_error(error: &(dyn Error + 'static)) -> Option<i32> {
    std::iter::successors(Some(error), |error| (*error).source())
        .find_map(|error| error.downcast_ref::<io::Error>()?.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What became of an error of a number, by its text and exit status.
    fn explained(error: impl Into<anyhow::Error>) -> (String, u8) {
        let error = explain(error.into());
        (text(&error), status(&error, Launching::No))
    }

    #[test]
    fn memory_that_may_not_be_opened_is_a_matter_of_rights_wherever_it_was_met() {
        let open = || AddressSpaceError::Open {
            path: "/proc/1/mem".into(),
            source: io::Error::from_raw_os_error(libc::EACCES),
        };
        for error in
            [anyhow::Error::new(open()), AttachError::Memory(open()).into(), TargetObjectError::Maps(open()).into()]
        {
            let (text, status) = explained(error);
            assert!(text.starts_with("cannot open the memory of the process: "), "{text}");
            assert_eq!(status, PERMISSION, "{text}");
        }
        let gone = AddressSpaceError::Open { path: "/proc/1/mem".into(), source: io::ErrorKind::NotFound.into() };
        assert_eq!(explained(gone).1, FAILURE);
    }

    #[test]
    fn a_lack_of_kernel_memory_names_the_option_that_asks_for_less() {
        for number in [libc::ENOMEM, libc::E2BIG] {
            let no_memory = || io::Error::from_raw_os_error(number);
            let file = || aya::EbpfError::FileError { path: "x".into(), error: no_memory() };
            let rows = || SessionError::Rows { rows: 7, source: file() };
            let bins = || SessionError::SingleBins { nbins: 7, source: file() };
            for (error, option) in [
                (anyhow::Error::new(RecordError::Session(rows())), "--table-rows"),
                (AttachError::Session(bins()).into(), "--bufsiz"),
            ] {
                let (text, status) = explained(error);
                assert!(text.contains(option) && text.contains(" 7 "), "{text}");
                assert_eq!(status, FAILURE, "{text}");
            }
            // Other maps have no option.
            let other = explained(RecordError::Session(SessionError::Load { source: file() })).0;
            assert!(!other.contains("--"), "{other}");
        }
    }

    #[test]
    fn a_lack_of_descriptors_names_its_limit() {
        let source = io::Error::from_raw_os_error(libc::EMFILE);
        let (text, status) = explained(AddressSpaceError::Open { path: "/proc/1/maps".into(), source });
        assert!(text.starts_with("no file descriptor is left: RLIMIT_NOFILE is "), "{text}");
        assert!(text.contains("ulimit -n") && text.contains("/proc/1/maps"), "{text}");
        assert_eq!(status, FAILURE);
    }

    #[test]
    fn a_cause_that_was_said_already_is_not_said_again() {
        let error = anyhow::anyhow!("no such file").context("parsing: no such file").context("cannot load");
        assert_eq!(text(&error), "cannot load: parsing: no such file");
    }
}
