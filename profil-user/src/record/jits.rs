//! Names of code that is made at run time.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::images::Images;
use crate::maps::Backing;
use crate::sideband::{Record, RecordKind};
use crate::symbols::perf_map::{PerfMap, PerfMapPlace};

/// The maps that JIT compilers write for profilers.
///
/// A process is asked for the place of its map as soon as it maps such code: one that has ended no longer says what its
/// root directory was, not even as a zombie.
#[derive(Debug, Default)]
pub(super) struct Jits {
    /// By PID, in our namespace.
    places: HashMap<u32, PerfMapPlace>,
    /// By image.
    maps: HashMap<u64, PerfMap>,
}

impl Jits {
    /// Takes in a running process, which may have such code already.
    pub(super) fn add_running(&mut self, pid: u32) {
        if let Ok(place) = PerfMapPlace::of_process(pid) {
            self.places.insert(pid, place);
        }
    }

    /// Takes in a change of an address space that the images have taken in.
    pub(super) fn note(&mut self, record: &Record, images: &Images) {
        match &record.kind {
            RecordKind::Mapped(mapped) => {
                let wanted = Backing::of(OsStr::from_bytes(&mapped.path)) == Backing::Anonymous;
                if wanted && images.is_tracked(record.pid) && !self.places.contains_key(&record.pid) {
                    self.add_running(record.pid);
                }
            }
            // The PID may have belonged to another process before, and a new program another user.
            RecordKind::Forked { .. } | RecordKind::Exec { .. } => {
                self.places.remove(&record.pid);
            }
            RecordKind::Exited | RecordKind::Lost { .. } => {}
        }
    }

    /// Reads the map of an image as it is now. The one that was read before stays if there is none any more.
    pub(super) fn read(&mut self, image: u64, pid: u32) {
        let place = match self.places.get(&pid) {
            Some(place) => Some(place.clone()),
            None => PerfMapPlace::of_process(pid).ok(),
        };
        if let Some(map) = place.and_then(|place| place.read().ok()) {
            self.maps.insert(image, map);
        }
    }

    /// The map of an image.
    pub(super) fn get(&self, image: u64) -> Option<&PerfMap> {
        self.maps.get(&image)
    }
}
