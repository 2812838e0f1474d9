use crate::Region;

/// Which manual page a profil(2) request is read by.
///
/// The pages disagree about what `scale` means and about when profiling is off, so the caller picks one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Convention {
    /// 4.4BSD profil(2), which NetBSD and MINIX ship too: `bin = [(pc - offset) / 2] * scale / 65536`.
    Bsd,
    /// Linux libc profil(3) of 1993: `(pc - offset) * scale / 65536` is a byte of the buffer.
    Linux,
    /// CLIX profil(2): `(pc - offset) * scale / 65536` is the entry itself.
    Clix,
    /// Today's glibc: bins as [`Convention::Bsd`], turned off by a null buffer and not by a scale of 0.
    Glibc,
}

impl Convention {
    /// All conventions, in the order of their documentation.
    pub const ALL: [Convention; 4] = [Convention::Bsd, Convention::Linux, Convention::Clix, Convention::Glibc];

    /// Name as the command line takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Convention::Bsd => "bsd",
            Convention::Linux => "linux",
            Convention::Clix => "clix",
            Convention::Glibc => "glibc",
        }
    }
}

/// One profil(2) call, or one `struct prof` of sprofil(3), as the caller gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Lowest profiled address (AVMA), bytes.
    pub offset: u64,
    /// 16.16 fixed point: bins per counter width of text.
    pub scale: u32,
    /// Size of the buffer, bytes; a last partial counter is never used.
    pub bufsiz: u64,
    /// Bytes of one counter: 2 for profil(2) and `PROF_USHORT`, 4 for `PROF_UINT`.
    pub width: u32,
}

/// The errno that a convention defines for a bad call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// `EINVAL`: a scale or width that the convention does not take.
    Einval,
    /// `EFAULT`: a buffer that is not the caller's writable memory.
    Efault,
}

impl Errno {
    /// Name as errno(3) prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Errno::Einval => "EINVAL",
            Errno::Efault => "EFAULT",
        }
    }
}

/// Why a request makes no region, although it does not ask for "off" either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConventionError {
    /// The scale is above what the convention takes.
    Scale {
        /// Scale asked for.
        scale: u32,
        /// Largest scale of the convention.
        largest: u32,
    },
    /// Counters are neither 2 nor 4 bytes wide.
    Width {
        /// Width asked for, bytes.
        width: u32,
    },
    /// More counters than a region can number.
    Bins {
        /// Counters asked for.
        nbins: u64,
    },
}

impl ConventionError {
    /// The errno that the call fails with.
    pub const fn errno(self) -> Errno {
        Errno::Einval
    }
}

impl core::fmt::Display for ConventionError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            ConventionError::Scale { scale, largest } => {
                write!(f, "scale {scale} is above {largest}, the largest that this convention takes")
            }
            ConventionError::Width { width } => write!(f, "width {width} is neither 2 nor 4 bytes"),
            ConventionError::Bins { nbins } => write!(f, "{nbins} bins are more than {}", u32::MAX),
        }
    }
}

impl core::error::Error for ConventionError {}

impl Region {
    /// Reads a request by a convention: `Ok(None)` when the request turns profiling off.
    ///
    /// Whether `buf` is null or bad is the caller's to check; only offset, scale, bufsiz and width count here.
    ///
    /// # Errors
    /// The scale is too large for [`Convention::Bsd`] (65536) or [`Convention::Clix`] (0177777), or the width or
    /// the number of bins cannot be.
    ///
    /// # Source
    /// 4.4BSD profil(2), Linux libc profil(3), CLIX profil(2); glibc 2.36 as run.
    pub fn new(convention: Convention, request: Request) -> Result<Option<Region>, ConventionError> {
        let Request { offset, scale, bufsiz, width } = request;
        let width_shift = match width {
            2 => 1,
            4 => 2,
            _ => return Err(ConventionError::Width { width }),
        };
        let (pre_shift, multiplier, post_shift) = match convention {
            Convention::Bsd if scale == 0 => return Ok(None),
            Convention::Bsd if scale > 0x1_0000 => return Err(ConventionError::Scale { scale, largest: 0x1_0000 }),
            Convention::Bsd | Convention::Glibc => (width_shift, scale, 0),
            Convention::Linux => (0, scale, width_shift),
            Convention::Clix => match scale {
                0 | 1 => return Ok(None),
                // "02 (octal) maps all instructions onto the beginning of buff".
                2 => (0, 0, 0),
                0x1_0000.. => return Err(ConventionError::Scale { scale, largest: 0xffff }),
                // All ones stands for the next power of two: "0177777 gives a one-to-one mapping".
                _ if (scale & (scale + 1)) == 0 => (0, scale + 1, 0),
                _ => (0, scale, 0),
            },
        };
        let nbins = bufsiz >> width_shift;
        let nbins = u32::try_from(nbins).map_err(|_| ConventionError::Bins { nbins })?;
        Ok(Some(Region { offset, nbins, multiplier, pre_shift, post_shift, reserved: 0 }))
    }
}
