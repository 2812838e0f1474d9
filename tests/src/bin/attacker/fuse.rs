//! A file system with one file, which can be opened, and whose pages never come.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

/// Size of the file, bytes.
pub const BYTES: u64 = 1 << 16;

/// Name of the file.
pub const NAME: &str = "file";

/// Node of the directory, as the kernel has it, and that of the file.
const NODES: [u64; 2] = [1, 2];

/// Longest request, bytes: the kernel wants room for a whole write.
const LONGEST: usize = 1 << 18;

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

/// Serves the file system on a descriptor of `/dev/fuse` until it is unmounted.
pub fn serve(mut kernel: File) -> io::Result<()> {
    let mut request = vec![0; LONGEST];
    loop {
        let length = kernel.read(&mut request)?;
        let word = |at: usize| request.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_ne_bytes);
        let long = |at: usize| request.get(at..at + 8).and_then(|long| long.try_into().ok()).map(u64::from_ne_bytes);
        let (Some(opcode), Some(unique), Some(node)) = (word(4), long(8), long(16)) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let name = request.get(40..length).unwrap_or_default();
        let body = match opcode {
            // Never: this is what it is for.
            READ => continue,
            FORGET | BATCH_FORGET | INTERRUPT => continue,
            INIT => Ok(init()),
            GETATTR => Ok([longs(&[3600, 0]), attributes(node)].concat()),
            LOOKUP if name.starts_with(NAME.as_bytes()) => {
                Ok([longs(&[NODES[1], 0, 3600, 3600, 0]), attributes(NODES[1])].concat())
            }
            LOOKUP => Err(libc::ENOENT),
            OPEN => Ok(longs(&[1, 0])),
            _ => Err(libc::ENOSYS),
        };
        let (error, body) = body.map_or_else(|errno| (-errno, Vec::new()), |body| (0, body));
        let length = (16 + body.len()) as u32;
        let header = [length.to_ne_bytes(), error.to_ne_bytes()].concat();
        kernel.write_all(&[header, longs(&[unique]), body].concat())?;
    }
}

fn longs(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// `struct fuse_init_out`: version 7.31, and no features.
fn init() -> Vec<u8> {
    words(&[7, 31, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}

/// `struct fuse_attr`.
fn attributes(node: u64) -> Vec<u8> {
    let is_file = node == NODES[1];
    let mode = if is_file { libc::S_IFREG | 0o644 } else { libc::S_IFDIR | 0o755 };
    let size = if is_file { BYTES } else { 0 };
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    [longs(&[node, size, 0, 0, 0, 0]), words(&[0, 0, 0, mode, 1, uid, gid, 0, 4096, 0])].concat()
}
