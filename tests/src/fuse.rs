//! A FUSE file system with one file, whose pages are never there until they are released.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::patience::until;

/// Bytes of the file.
const FILE_BYTES: u64 = 1 << 20;

/// A mounted file system, which goes away with it.
///
/// Source: include/uapi/linux/fuse.h, protocol 7.31.
#[derive(Debug)]
pub struct Fuse {
    folder: PathBuf,
    device: Option<File>,
    released: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl Fuse {
    /// Mounts one over a new folder; `None` where the kernel refuses.
    pub fn mount(folder: &Path) -> Option<Fuse> {
        fs::create_dir_all(folder).ok()?;
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").ok()?;
        let fd = device.as_raw_fd();
        let options = CString::new(format!("fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other")).ok()?;
        let target = CString::new(folder.as_os_str().as_bytes()).ok()?;
        // SAFETY: the strings end in NUL and live until the call returns.
        let mounted =
            unsafe { libc::mount(c"test".as_ptr(), target.as_ptr(), c"fuse".as_ptr(), 0, options.as_ptr().cast()) };
        if mounted != 0 {
            return None;
        }
        let released = Arc::new(AtomicBool::new(false));
        let (requests, release) = (device.try_clone().ok()?, Arc::clone(&released));
        let server = std::thread::spawn(move || serve(requests, &release));
        Some(Fuse { folder: folder.to_owned(), device: Some(device), released, server: Some(server) })
    }

    /// The file.
    pub fn file(&self) -> PathBuf {
        self.folder.join("file")
    }

    /// Takes the file system out of the tree; files that are open or mapped stay.
    pub fn detach(&self) {
        if let Ok(target) = CString::new(self.folder.as_os_str().as_bytes()) {
            // SAFETY: the string ends in NUL and lives until the call returns.
            unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
        }
    }

    /// Answers all that wait for a page, now and later.
    pub fn release(&self) {
        self.released.store(true, Ordering::Release);
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.release();
        self.detach();
        drop(self.device.take());
        // The server ends when nothing of the file system is open or mapped any more, which the test has seen to; one
        // that failed may have left such a process, and must not wait for it.
        if let (false, Some(server)) = (std::thread::panicking(), self.server.take()) {
            let _ended = server.join();
        }
    }
}

/// Answers requests; holds back the pages of the file until they are released.
fn serve(mut device: File, released: &AtomicBool) {
    let mut request = vec![0; 1 << 17];
    let mut held = Vec::new();
    loop {
        if released.load(Ordering::Acquire) {
            held.drain(..).for_each(|unique| answer(&mut device, unique, 0, &[0; 4096]));
        }
        let mut poll = libc::pollfd { fd: device.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd, as the count says.
        unsafe { libc::poll(&raw mut poll, 1, 10) };
        if poll.revents == 0 {
            continue;
        }
        let length = match device.read(&mut request) {
            Ok(length) => length,
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR | libc::EAGAIN)) => continue,
            // ENODEV: unmounted.
            Err(_) => return,
        };
        let word =
            |at: usize| request.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let (opcode, unique, node) = (word(4), long(8), long(16));
        if length < 40 {
            continue;
        }
        match opcode {
            26 => answer(
                &mut device,
                unique,
                0,
                &words(&[7, 31, 65_536, 0, 10 << 16 | 12, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            ),
            // LOOKUP: any name is the file.
            1 => answer(&mut device, unique, 0, &[words(&[2, 0, 2, 0, 60, 0, 60, 0, 0, 0]), attributes(2)].concat()),
            // GETATTR
            3 => answer(&mut device, unique, 0, &[words(&[60, 0, 0, 0]), attributes(node)].concat()),
            // OPEN, OPENDIR
            14 | 27 => answer(&mut device, unique, 0, &words(&[1, 0, 0, 0])),
            // READ: a page answers as well as more.
            15 => held.push(unique),
            // FORGET, INTERRUPT and BATCH_FORGET have no answer.
            2 | 36 | 42 => {}
            // RELEASE, FLUSH, RELEASEDIR
            18 | 25 | 29 => answer(&mut device, unique, 0, &[]),
            _ => answer(&mut device, unique, -libc::ENOSYS, &[]),
        }
    }
}

fn answer(device: &mut File, unique: u64, error: i32, body: &[u8]) {
    let length = 16 + body.len() as u32;
    let head = words(&[length, error.cast_unsigned(), unique as u32, (unique >> 32) as u32]);
    // Who asked may be gone.
    let _written: io::Result<usize> = device.write(&[&head, body].concat());
}

fn attributes(node: u64) -> Vec<u8> {
    let (mode, size) = if node == 2 { (libc::S_IFREG | 0o644, FILE_BYTES as u32) } else { (libc::S_IFDIR | 0o755, 0) };
    words(&[node as u32, 0, size, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Mounts an overlay whose lower layer is a folder; `None` where the kernel refuses.
pub fn overlay(lower: &Path, over: &Path) -> Option<PathBuf> {
    fs::create_dir_all(over).ok()?;
    // Two lower layers need no upper one.
    let empty = over.with_extension("empty");
    fs::create_dir_all(&empty).ok()?;
    let options = CString::new(format!("lowerdir={}:{}", lower.display(), empty.display())).ok()?;
    let target = CString::new(over.as_os_str().as_bytes()).ok()?;
    // SAFETY: the strings end in NUL and live until the call returns.
    let mounted =
        unsafe { libc::mount(c"test".as_ptr(), target.as_ptr(), c"overlay".as_ptr(), 0, options.as_ptr().cast()) };
    (mounted == 0).then(|| over.join("file"))
}

/// Takes an overlay out of the tree.
pub fn unmount(over: &Path) {
    if let Ok(target) = CString::new(over.as_os_str().as_bytes()) {
        until("the overlay is unmounted", || {
            // SAFETY: the string ends in NUL and lives until the call returns.
            (unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) } == 0).then_some(())
        });
    }
}
