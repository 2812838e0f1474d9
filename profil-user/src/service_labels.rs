//! The services that processes belong to, learnt while they live, with few reads.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use crate::process::cgroup_service::service_of;

/// Most bytes of `/proc/PID/cgroup` that are looked at: a path of 4,096 bytes for each of a dozen hierarchies.
const TEXT_MAX: u64 = 64 * 1024;

/// Length of a window in which reads are counted, as a power of two of ns: 268 ms.
const WINDOW_SHIFT: u32 = 28;

/// Most reads in a window. A read takes some 10 µs, so a storm of short programs costs below half a percent of a CPU;
/// those that are not read have the service of the program that started them.
const READS_MAX: u32 = 64;

/// Most texts that are remembered.
const KNOWN_MAX: usize = 4096;

/// Services by what `/proc/PID/cgroup` says, each text taken apart once.
#[derive(Debug, Default)]
pub struct ServiceLabels {
    known: HashMap<Vec<u8>, Option<Arc<str>>>,
    window: u64,
    reads: u32,
}

impl ServiceLabels {
    /// The service of a running process, which may be none.
    ///
    /// # Errors
    /// What the system says when the process is gone.
    pub fn read(&mut self, pid: u32) -> io::Result<Option<Arc<str>>> {
        let mut text = Vec::with_capacity(512);
        File::open(format!("/proc/{pid}/cgroup"))?.take(TEXT_MAX).read_to_end(&mut text)?;
        // A zombie is in no group.
        if text.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        if let Some(service) = self.known.get(&text) {
            return Ok(service.clone());
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let service = service_of(&String::from_utf8_lossy(&text)).map(Arc::from);
        self.known.insert(text, service.clone());
        Ok(service)
    }

    /// The service of a process that was seen at a time; `None` when it is gone, or too many were read about that time.
    pub fn read_within_budget(&mut self, pid: u32, time_ns: u64) -> Option<Option<Arc<str>>> {
        let window = time_ns >> WINDOW_SHIFT;
        if window != self.window {
            (self.window, self.reads) = (window, 0);
        }
        self.reads += 1;
        if self.reads > READS_MAX {
            return None;
        }
        self.read(pid).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_programs_is_read_in_part_and_the_next_window_again() {
        let mut labels = ServiceLabels::default();
        let own = std::process::id();
        let read =
            |labels: &mut ServiceLabels, window: u64| labels.read_within_budget(own, window << WINDOW_SHIFT).is_some();
        assert!((0..READS_MAX).all(|_| read(&mut labels, 1)));
        assert!(!read(&mut labels, 1));
        assert!(read(&mut labels, 2));
        assert_eq!(labels.known.len(), 1);
    }

    #[test]
    fn a_process_that_is_gone_has_no_answer() {
        assert!(ServiceLabels::default().read(1 << 30).is_err());
    }
}
