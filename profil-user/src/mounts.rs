//! `/proc/PID/mountinfo`: whose file systems user space serves.

/// Whether user space serves the file system of a device: then a page of its files may take for ever to come.
///
/// A device without a major number that is not mounted where the process lives is taken for one of these: its file system
/// was mounted elsewhere, or unmounted while files are in use. Block devices belong to file systems of the kernel, unless
/// the mounts say otherwise.
///
/// Source: proc_pid_mountinfo(5); `s_dev` and the type are the third field and the first one after ` - `.
pub fn may_be_served_by_user_space(mountinfo: &[u8], device: (u32, u32)) -> bool {
    let kinds = mountinfo.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let found = fields.nth(2)?;
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        (number(found)? == device).then_some(kind)
    });
    let mut kinds = kinds.peekable();
    if kinds.peek().is_none() {
        return device.0 == 0;
    }
    // fuse, fuse.sshfs, fuseblk; 9p and other networks end when their server does, or not before the machine.
    kinds.any(|kind| kind.starts_with(b"fuse"))
}

fn number(field: &[u8]) -> Option<(u32, u32)> {
    let (major, minor) = std::str::from_utf8(field).ok()?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &[u8] = b"27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        28 27 0:24 / /tmp rw - tmpfs tmpfs rw\n\
        29 27 0:60 / /mnt/a\\040b rw,nosuid - fuse.sshfs host: rw\n\
        30 27 8:17 / /media rw - fuseblk /dev/sdb1 rw\n";

    #[test]
    fn fuse_is_told_by_the_type_of_its_mount() {
        let served = |device| may_be_served_by_user_space(MOUNTINFO, device);
        assert_eq!([(254, 0), (0, 24), (0, 60), (8, 17)].map(served), [false, false, true, true]);
    }

    #[test]
    fn a_device_that_is_mounted_nowhere_is_trusted_only_if_it_is_a_block_device() {
        let served = |device| may_be_served_by_user_space(MOUNTINFO, device);
        assert_eq!([(8, 1), (0, 99)].map(served), [false, true]);
        assert!(may_be_served_by_user_space(b"not a mount\n\n1 2 3", (0, 1)));
    }
}
