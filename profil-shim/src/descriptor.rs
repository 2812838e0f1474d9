//! A descriptor that is ours.

use libc::c_int;

use crate::syscall;

/// Closes a descriptor when it goes.
#[derive(Debug)]
pub struct Descriptor {
    fd: c_int,
}

/// The first number that is none of stdin, stdout and stderr.
const FIRST_FREE: c_int = 3;

impl Descriptor {
    /// Takes a descriptor over, and away from the first three numbers.
    ///
    /// A program that closed its stdout goes on printing, and what it prints must not reach our socket.
    ///
    /// # Errors
    /// The errno when all numbers are in use.
    pub fn own(fd: c_int) -> Result<Descriptor, c_int> {
        let owned = Descriptor { fd };
        if fd >= FIRST_FREE {
            return Ok(owned);
        }
        syscall::duplicate_above(fd, FIRST_FREE).map(|fd| Descriptor { fd })
    }

    /// Its number.
    pub fn number(&self) -> c_int {
        self.fd
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        syscall::close(self.fd);
    }
}
