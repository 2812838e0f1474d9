//! What the environment asks for.
//!
//! Read once, because getenv(3) may not be called in a signal handler; by secure_getenv(3), because a set-uid program
//! must not be sent to a service of its caller's.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use libc::{c_char, sockaddr_un};
use profil_common::Convention;

use crate::note::note;

unsafe extern "C" {
    // The libc crate does not have it.
    fn secure_getenv(name: *const c_char) -> *mut c_char;
}

/// Where the daemon listens.
pub const DEFAULT_SOCKET: &[u8] = b"/run/profil.sock";

/// Ticks in a second of CPU time, unless `PROFIL_HZ` says otherwise.
pub const DEFAULT_HZ: u32 = 100;

/// Largest `PROFIL_HZ`.
pub const MAX_HZ: u32 = profil_common::limits::MAX_CALL_HZ;

/// Bytes of the path of a Unix socket, its NUL included.
const PATH_BYTES: usize = size_of::<sockaddr_un>() - core::mem::offset_of!(sockaddr_un, sun_path);

/// The environment, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `PROFIL_CONVENTION`.
    pub convention: Convention,
    /// `PROFIL_HZ`.
    pub hz: u32,
    /// `PROFIL_DEBUG` is set.
    pub debug: bool,
    /// `PROFIL_ZEROCOPY=1`.
    pub zero_copy: bool,
}

/// [`Settings`] in one word, so that no reader ever sees half of them; 0 before they were read.
static WORD: AtomicU32 = AtomicU32::new(0);

/// Path of the socket, written before [`WORD`]; NUL in front when the path given is too long.
static SOCKET: [AtomicU8; PATH_BYTES] = [const { AtomicU8::new(0) }; PATH_BYTES];

/// The settings. The constructor is the first to call this, or the start-up code of a library that ran before it.
pub fn read() -> Settings {
    match Settings::from_word(WORD.load(Ordering::Acquire)) {
        Some(settings) => settings,
        None => read_environment(),
    }
}

/// Address of the service's socket; `None` when its path is too long.
pub fn socket_address() -> Option<sockaddr_un> {
    read();
    let mut address = sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; PATH_BYTES] };
    for (byte, stored) in address.sun_path.iter_mut().zip(&SOCKET) {
        *byte = stored.load(Ordering::Relaxed) as c_char;
    }
    (address.sun_path.first() != Some(&0)).then_some(address)
}

/// The variable, unless it is unset or empty, or the program runs with more rights than its caller.
pub fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends in NUL.
    let value = unsafe { secure_getenv(name.as_ptr()) };
    // SAFETY: getenv gives null or a string of the environment, which nobody changes while the caller looks at it:
    // only constructors and the end of the process do.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

fn read_environment() -> Settings {
    let non_empty = |name| variable(name).map(CStr::to_bytes).filter(|value| !value.is_empty());
    let convention = non_empty(c"PROFIL_CONVENTION");
    let hz = non_empty(c"PROFIL_HZ");
    let settings = Settings {
        convention: convention.map_or(Some(Convention::Glibc), parse_convention).unwrap_or(Convention::Glibc),
        hz: hz.map_or(Some(DEFAULT_HZ), parse_hz).unwrap_or(DEFAULT_HZ),
        debug: variable(c"PROFIL_DEBUG").is_some(),
        zero_copy: non_empty(c"PROFIL_ZEROCOPY") == Some(b"1"),
    };
    let socket = non_empty(c"PROFIL_SOCKET").unwrap_or(DEFAULT_SOCKET);
    let fits = socket.len() < PATH_BYTES;
    for (stored, byte) in SOCKET.iter().zip(socket).filter(|_| fits) {
        stored.store(*byte, Ordering::Relaxed);
    }
    WORD.store(settings.to_word(), Ordering::Release);

    if convention.is_some_and(|value| parse_convention(value).is_none()) {
        note(|note| note.text("PROFIL_CONVENTION is none of bsd, linux, clix, glibc: taken as glibc"));
    }
    if hz.is_some_and(|value| parse_hz(value).is_none()) {
        note(|note| note.text("PROFIL_HZ is no number of 1 to 10000: taken as 100"));
    }
    if !fits {
        note(|note| note.text("the path in PROFIL_SOCKET is too long for a socket: no service is asked"));
    }
    settings
}

fn parse_convention(name: &[u8]) -> Option<Convention> {
    Convention::ALL.into_iter().find(|convention| convention.name().as_bytes() == name)
}

fn parse_hz(digits: &[u8]) -> Option<u32> {
    let mut hz = 0_u32;
    for digit in digits {
        let value = digit.is_ascii_digit().then(|| u32::from(digit.wrapping_sub(b'0')))?;
        hz = hz.checked_mul(10)?.checked_add(value)?;
    }
    (1..=MAX_HZ).contains(&hz).then_some(hz)
}

const READ: u32 = 1 << 0;
const DEBUG: u32 = 1 << 1;
const ZERO_COPY: u32 = 1 << 2;
const CONVENTION_SHIFT: u32 = 4;
const HZ_SHIFT: u32 = 8;

impl Settings {
    fn to_word(self) -> u32 {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        READ | flag(self.debug, DEBUG)
            | flag(self.zero_copy, ZERO_COPY)
            | convention_number(self.convention) << CONVENTION_SHIFT
            | self.hz << HZ_SHIFT
    }

    fn from_word(word: u32) -> Option<Settings> {
        if word & READ == 0 {
            return None;
        }
        Some(Settings {
            convention: *Convention::ALL.get((word >> CONVENTION_SHIFT & 3) as usize)?,
            hz: word >> HZ_SHIFT,
            debug: word & DEBUG != 0,
            zero_copy: word & ZERO_COPY != 0,
        })
    }
}

/// The number that the messages use for a convention: its index in [`Convention::ALL`].
pub const fn convention_number(convention: Convention) -> u32 {
    match convention {
        Convention::Bsd => 0,
        Convention::Linux => 1,
        Convention::Clix => 2,
        Convention::Glibc => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_their_word() {
        for convention in Convention::ALL {
            for hz in [1, 100, MAX_HZ] {
                for (debug, zero_copy) in [(false, false), (true, false), (false, true), (true, true)] {
                    let settings = Settings { convention, hz, debug, zero_copy };
                    assert_eq!(Settings::from_word(settings.to_word()), Some(settings));
                }
            }
        }
        assert_eq!(Settings::from_word(0), None);
    }

    #[test]
    fn a_convention_has_the_number_of_the_messages() {
        for (index, convention) in Convention::ALL.into_iter().enumerate() {
            assert_eq!(convention_number(convention) as usize, index);
        }
    }

    #[test]
    fn hz_is_a_decimal_number_of_1_to_10000() {
        for (text, hz) in [("1", 1), ("100", 100), ("0100", 100), ("10000", 10_000)] {
            assert_eq!(parse_hz(text.as_bytes()), Some(hz), "{text}");
        }
        for text in ["0", "10001", "-1", "+1", "0x10", "1 ", "1e3", "99999999999999999999", "4294967396"] {
            assert_eq!(parse_hz(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn conventions_are_named_as_on_the_command_line() {
        assert_eq!(parse_convention(b"clix"), Some(Convention::Clix));
        assert_eq!(parse_convention(b"BSD"), None);
    }
}
