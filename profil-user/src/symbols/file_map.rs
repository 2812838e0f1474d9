//! A file in memory, page by page as it is read.
//!
//! Only the process that reads symbols maps files (see [`super::reader`]): whoever owns one may truncate it, and the next
//! read of a page that is gone is SIGBUS.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::elf_headers::{ElfError, Image};

/// The bytes of a file as they were when it was mapped, or later: whoever may write it can change them at any time.
#[derive(Debug)]
pub struct FileMap {
    start: NonNull<u8>,
    size: usize,
}

impl FileMap {
    /// Maps a whole file.
    ///
    /// # Errors
    /// Those of fstat(2) and mmap(2); an empty file cannot be mapped.
    pub fn new(file: &File) -> io::Result<FileMap> {
        let size = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(usize::MAX);
        // SAFETY: the kernel chooses the place, so nothing of this process is there; the size is checked by the kernel.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), size, ProtFlags::READ, MapFlags::PRIVATE, file, 0) };
        let start = NonNull::new(start?.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(FileMap { start, size })
    }

    /// Gives the memory of the pages that were read back; they are read from the file again when they are needed.
    pub fn release(&self) {
        // SAFETY: the mapping is ours, private and never written, so its pages hold nothing that the file does not.
        let _released = unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.size, Advice::LinuxDontNeed) };
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is ours and lives as long as `self`. That another process may change what is read is why
        // only the process with nothing to lose maps files: every reader of these bytes checks what it uses as it uses it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody borrows from it any more.
        let _unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.size) };
    }
}

impl Image for FileMap {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.bytes().read_exact_at(bytes, offset)
    }

    fn bytes_at(&self, offset: u64, size: u64) -> Result<Cow<'_, [u8]>, ElfError> {
        self.bytes().bytes_at(offset, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_mapped_whole_and_its_pages_come_back() {
        let file = tempfile::tempfile().expect("a file");
        let bytes: Vec<u8> = (0..100_000u32).map(|index| index as u8).collect();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).expect("written");
        let map = FileMap::new(&file).expect("mapped");
        assert_eq!(map.bytes(), bytes);
        map.release();
        assert_eq!(map.bytes(), bytes);
        assert_eq!(map.bytes_at(99_000, 1000).expect("inside").as_ref(), &bytes[99_000..]);
        assert!(map.bytes_at(99_000, 1001).is_err() && map.bytes_at(u64::MAX, 2).is_err());
    }

    #[test]
    fn an_empty_file_cannot_be_mapped() {
        assert!(FileMap::new(&tempfile::tempfile().expect("a file")).is_err());
    }
}
