//! The functions that programs call.

use libc::{c_int, c_uint, c_ushort, size_t, timeval};
use profil_common::limits::MAX_AREAS;
use profil_common::wire::{Area, CallKind};
use profil_common::{Convention, Region, Request};

use crate::errno;
use crate::libc_functions::Prof;
use crate::service::Areas;
use crate::settings::{self, convention_number};
use crate::switch::{self, By, Effect, Order, Otherwise};

/// `PROF_UINT`: counters of 32 bits.
const PROF_UINT: c_uint = 1 << 0;
/// `PROF_FAST`, which has no effect.
const PROF_FAST: c_uint = 1 << 1;

/// profil(3): counts ticks of the CPU clock in `buffer` by their pcs.
///
/// # Safety
/// The buffer stays until it is turned off.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn profil(buffer: *mut c_ushort, bufsiz: size_t, offset: size_t, scale: c_uint) -> c_int {
    let convention = settings::read().convention;
    let area = Area { buffer: buffer as u64, bytes: bufsiz as u64, offset: offset as u64, scale: u64::from(scale) };
    let order = Order {
        kind: CallKind::Profil,
        convention: convention_number(convention),
        width: size_of::<c_ushort>() as u32,
        areas: Areas { start: &raw const area, count: 1 },
        effect: effect(convention, area, scale),
        otherwise: Otherwise::Profil(buffer, bufsiz, offset, scale),
    };
    // SAFETY: by the caller; `area` lives until this returns.
    errno::result_of(|| unsafe { switch::carry_out(&order) }.map(drop))
}

/// sprofil(3): profil(3) for several areas at once, with counters of 16 or 32 bits that do not wrap.
///
/// # Safety
/// `regions` has `count` elements, whose buffers stay until they are turned off; `period` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sprofil(regions: *mut Prof, count: c_int, period: *mut timeval, flags: c_uint) -> c_int {
    errno::result_of(|| {
        let areas = u32::try_from(count).map_err(|_| libc::EINVAL)?;
        if areas as usize > MAX_AREAS || flags & !(PROF_UINT | PROF_FAST) != 0 {
            return Err(libc::EINVAL);
        }
        let order = Order {
            kind: CallKind::Sprofil,
            convention: convention_number(Convention::Glibc),
            width: if flags & PROF_UINT == 0 { 2 } else { 4 },
            // The kernel reads them where they are: no copy on what may be the small stack of a signal handler.
            areas: Areas { start: regions.cast_const().cast::<Area>(), count: areas },
            effect: if areas == 0 { Effect::Off } else { Effect::On },
            otherwise: Otherwise::Sprofil(regions, count, period, flags),
        };
        // SAFETY: by the caller.
        let by = unsafe { switch::carry_out(&order) }?;
        if let By::Service { period_ns } = by
            && !period.is_null()
        {
            // SAFETY: by the caller.
            unsafe { period.write(timeval_of(period_ns)) };
        }
        Ok(())
    })
}

/// What a call does to what was on, as far as it must be known when there is no answer.
fn effect(convention: Convention, area: Area, scale: c_uint) -> Effect {
    if convention == Convention::Clix && area.bytes == 0 {
        return Effect::Nothing;
    }
    let request = Request { offset: area.offset, scale, bufsiz: area.bytes, width: size_of::<c_ushort>() as u32 };
    let is_off = match convention {
        Convention::Bsd => scale == 0,
        Convention::Linux | Convention::Glibc => area.buffer == 0,
        // 0 and 1; a scale that is too large; no buffer, for which the page has no meaning.
        Convention::Clix => area.buffer == 0 || !matches!(Region::new(convention, request), Ok(Some(_))),
    };
    if is_off { Effect::Off } else { Effect::On }
}

/// The nearest number of microseconds.
fn timeval_of(period_ns: u64) -> timeval {
    let microseconds = period_ns.saturating_add(500) / 1000;
    timeval { tv_sec: (microseconds / 1_000_000) as _, tv_usec: (microseconds % 1_000_000) as _ }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect_of(convention: Convention, buffer: u64, bytes: u64, scale: u32) -> Effect {
        effect(convention, Area { buffer, bytes, offset: 0, scale: u64::from(scale) }, scale)
    }

    #[test]
    fn a_null_buffer_turns_linux_and_glibc_off() {
        for convention in [Convention::Linux, Convention::Glibc] {
            assert_eq!(effect_of(convention, 0, 64, 65_536), Effect::Off);
            assert_eq!(effect_of(convention, 4096, 64, 0), Effect::On);
        }
    }

    #[test]
    fn scale_0_turns_bsd_off() {
        assert_eq!(effect_of(Convention::Bsd, 4096, 64, 0), Effect::Off);
        assert_eq!(effect_of(Convention::Bsd, 4096, 64, 1), Effect::On);
    }

    #[test]
    fn scales_0_and_1_and_too_large_ones_turn_clix_off() {
        for scale in [0, 1, 0o200_000, u32::MAX] {
            assert_eq!(effect_of(Convention::Clix, 4096, 64, scale), Effect::Off, "{scale}");
        }
        assert_eq!(effect_of(Convention::Clix, 0, 64, 2), Effect::Off);
        assert_eq!(effect_of(Convention::Clix, 4096, 64, 0o177_777), Effect::On);
    }

    #[test]
    fn bufsiz_0_has_no_effect_in_clix() {
        assert_eq!(effect_of(Convention::Clix, 4096, 0, 2), Effect::Nothing);
        assert_eq!(effect_of(Convention::Glibc, 4096, 0, 2), Effect::On);
    }

    #[test]
    fn a_period_is_rounded_to_microseconds() {
        let of = |period_ns| (timeval_of(period_ns).tv_sec, timeval_of(period_ns).tv_usec);
        assert_eq!((of(10_000_000), of(1_003_009)), ((0, 10_000), (0, 1003)));
        assert_eq!((of(1_000_000_000), of(999_999_999)), ((1, 0), (1, 0)));
    }
}
