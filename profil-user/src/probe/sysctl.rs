//! Kernel settings below /proc/sys.

use std::fs;

/// A setting by its name in sysctl(8), trimmed; `None` when the kernel has no such setting or hides it.
pub fn read(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
    Some(text.trim().to_owned())
}

/// A setting that is a number.
pub fn read_number(name: &str) -> Option<i64> {
    read(name)?.parse().ok()
}

/// kernel.perf_event_paranoid: from -1 (anything goes) to 2, and 3 or 4 on kernels that add "nothing goes".
pub fn paranoid() -> Option<i64> {
    read_number("kernel.perf_event_paranoid")
}
