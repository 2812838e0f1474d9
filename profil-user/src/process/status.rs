//! /proc/PID/status.

/// How far a process restricts its own system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seccomp {
    /// Not at all.
    #[default]
    Off,
    /// To read, write and exit.
    Strict,
    /// By a filter.
    Filter,
}

/// What the kernel says of a process in lines of `Name: value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Id of the process that this thread belongs to.
    pub tgid: u32,
    /// Real user.
    pub uid: u32,
    /// Effective user.
    pub effective_uid: u32,
    /// Process that traces this one, and 0 when none does.
    pub tracer: u32,
    /// Its id in the reader's PID namespace, and in each one nested in that, innermost last.
    pub namespace_pids: Vec<u32>,
    /// How it restricts its own system calls.
    pub seccomp: Seccomp,
}

impl Status {
    /// Reads /proc/PID/status; `None` when the lines that every kernel writes are missing.
    ///
    /// # Source
    /// proc_pid_status(5)
    pub fn parse(text: &[u8]) -> Option<Status> {
        let mut status = Status::default();
        let (mut has_tgid, mut has_uid) = (false, false);
        // The name's newlines are escaped, so that each line is one field.
        for line in text.split(|byte| *byte == b'\n') {
            // Only the name may hold bytes that are no text, and it is not wanted.
            let Some((key, value)) = std::str::from_utf8(line).ok().and_then(|line| line.split_once(':')) else {
                continue;
            };
            let mut numbers = value.split_ascii_whitespace().map_while(|number| number.parse::<u32>().ok());
            match key {
                "Tgid" => {
                    status.tgid = numbers.next()?;
                    has_tgid = true;
                }
                "Uid" => {
                    status.uid = numbers.next()?;
                    status.effective_uid = numbers.next()?;
                    has_uid = true;
                }
                "TracerPid" => status.tracer = numbers.next()?,
                "NSpid" => status.namespace_pids = numbers.collect(),
                "Seccomp" => {
                    status.seccomp = match numbers.next()? {
                        0 => Seccomp::Off,
                        1 => Seccomp::Strict,
                        _ => Seccomp::Filter,
                    }
                }
                _ => {}
            }
        }
        (has_tgid && has_uid).then_some(status)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_read_whatever_the_name_is() {
        let text = b"Name:\tTgid:\\n 7 \xff\nState:\tS (sleeping)\nTgid:\t4242\nPid:\t4243\nTracerPid:\t99\n\
                     Uid:\t1000\t0\t0\t0\nNSpid:\t4243\t17\t1\nSeccomp:\t2\n";
        let expected = Status {
            tgid: 4242,
            uid: 1000,
            effective_uid: 0,
            tracer: 99,
            namespace_pids: vec![4243, 17, 1],
            seccomp: Seccomp::Filter,
        };
        assert_eq!(Status::parse(text), Some(expected));
    }

    #[test]
    fn what_is_no_status_is_refused() {
        assert_eq!(Status::parse(b""), None);
        assert_eq!(Status::parse(b"Tgid:\t1\n"), None);
        assert_eq!(Status::parse(b"Tgid:\tx\nUid:\t0\t0\n"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Status::parse(&bytes);
        }
    }
}
