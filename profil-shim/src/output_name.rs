//! Where the gmon.out of this process goes.

use core::ffi::{CStr, c_char};
use core::ptr::null_mut;

use profil_common::Convention;

use crate::note::Decimal;
use crate::settings;

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
    static program_invocation_short_name: *const c_char;
}

/// Longest path, its NUL included.
const MAX_BYTES: usize = libc::PATH_MAX as usize;

/// A path that is put together without allocating; never longer than [`MAX_BYTES`], but cut.
#[derive(Debug)]
pub struct Path {
    bytes: [u8; MAX_BYTES],
}

impl Path {
    fn of<const N: usize>(parts: [&[u8]; N]) -> Path {
        let mut path = Path { bytes: [0; MAX_BYTES] };
        let bytes = parts.iter().copied().flatten();
        // The last byte stays NUL.
        for (place, byte) in path.bytes.iter_mut().take(MAX_BYTES - 1).zip(bytes) {
            *place = *byte;
        }
        path
    }

    /// As C takes it.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

/// What decides on the name.
#[derive(Clone, Copy, Debug)]
pub enum Output {
    /// libc: GMON_OUT_PREFIX, or gmon.out.
    Libc,
    /// PROFDIR of 4.4BSD: a folder for files named PID.NAME.
    Folder(&'static CStr),
    /// An empty PROFDIR: no file is wanted.
    Nothing,
}

impl Output {
    /// What the environment asks for at the moment of the call.
    pub fn wanted() -> Output {
        match settings::variable(c"PROFDIR") {
            Some(folder) if settings::read().convention == Convention::Bsd => {
                if folder.is_empty() {
                    Output::Nothing
                } else {
                    Output::Folder(folder)
                }
            }
            _ => Output::Libc,
        }
    }
}

/// The names that libc may have used, that of GMON_OUT_PREFIX first.
pub fn names_of_libc() -> [Option<Path>; 2] {
    let prefix = settings::variable(c"GMON_OUT_PREFIX");
    let prefixed = prefix.map(|prefix| Path::of([prefix.to_bytes(), b".", pid().digits()]));
    [prefixed, Some(Path::of([b"gmon.out"]))]
}

/// The name that 4.4BSD gives a file in a folder, and the one that libc is made to give it there.
pub fn names_in(folder: &CStr) -> (Path, Path) {
    // SAFETY: libc points it to a string when the process starts.
    let program = unsafe { CStr::from_ptr(program_invocation_short_name) }.to_bytes();
    let bsd = Path::of([folder.to_bytes(), b"/", pid().digits(), b".", program]);
    let libc = Path::of([folder.to_bytes(), b"/", program, b".", pid().digits()]);
    (bsd, libc)
}

/// Runs a function with GMON_OUT_PREFIX set so that libc's file lies in a folder, under the second of [`names_in`].
///
/// The environment is put in place as a whole, and taken away as a whole: setenv(3) would allocate, and leave its string
/// for the program to find.
pub fn with_prefix_in(folder: &CStr, function: impl FnOnce()) {
    // SAFETY: as in `names_in`.
    let program = unsafe { CStr::from_ptr(program_invocation_short_name) }.to_bytes();
    let mut entry = Path::of([b"GMON_OUT_PREFIX=", folder.to_bytes(), b"/", program]);
    // SAFETY: the program may change its environment only while no other thread reads it, by getenv(3)'s own rule.
    let before = unsafe { environ };
    // SAFETY: an environment is null or ends in a null pointer.
    let count = (0..).take_while(|&index| !before.is_null() && !unsafe { *before.add(index) }.is_null()).count();
    let bytes = count.saturating_add(2).saturating_mul(size_of::<*mut c_char>());
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which replaces nothing.
    let memory = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return function();
    }
    let during = memory.cast::<*mut c_char>();
    // SAFETY: there is room for the entry, for those before it, and for the null pointer that mmap left.
    unsafe {
        during.write(entry.bytes.as_mut_ptr().cast());
        during.add(1).copy_from_nonoverlapping(before, count);
        environ = during;
    }
    function();
    // SAFETY: as above. When somebody set a variable meanwhile, the environment is theirs and has our entry: it stays.
    unsafe {
        if environ == during {
            environ = before;
        }
    }
    // The mapping stays too: another thread may be reading it.
}

fn pid() -> Decimal {
    // SAFETY: takes no pointer.
    let pid = unsafe { libc::getpid() };
    Decimal::of(pid.unsigned_abs().into())
}
