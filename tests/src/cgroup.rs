//! A control group for targets.

use std::fs;
use std::path::{Path, PathBuf};

/// A control group of the second hierarchy; removed when dropped.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes one; `None` where there is no hierarchy of control groups v2 that we may write to.
    pub fn new() -> Option<Cgroup> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?.to_owned();
        let group = PathBuf::from(mount).join(format!("profil-test-{}", std::process::id()));
        fs::create_dir(&group).ok()?;
        Some(Cgroup(group))
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Puts a process into it.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn add(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("a process can be moved into our own group");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // It fails while a process is left in it; then the test has failed already.
        let _ = fs::remove_dir(&self.0);
    }
}
