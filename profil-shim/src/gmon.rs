//! Programs built with -pg: libc keeps their call graph, and the kernel counts their ticks.
//!
//! Start-up code of such a program calls `__monstartup`, and `_mcleanup` at its end. libc's own functions go on to do
//! what they do about arcs, but without the timer that they arm. Calling `moncontrol(0)` to that end would stop the
//! arcs as well. The ticks that libc has not counted are put into its file when that is written.

use libc::{c_int, c_ulong};
use profil_common::Convention;
use profil_common::wire::CallKind;

use crate::active::{self, Counters};
use crate::claim::Claim;
use crate::gmon_file::{Unfit, replace_histogram};
use crate::histogram::{Geometry, Histogram};
use crate::note::note;
use crate::output_name::{self, Output, Path};
use crate::service::Areas;
use crate::settings::{self, convention_number};
use crate::sigprof::undisturbed;
use crate::switch::{self, By, Effect, Order, Otherwise};
use crate::{errno, libc_functions};

/// What the kernel counts into, from `__monstartup` to `_mcleanup`.
///
/// Who finds it claimed is a second call at the same time, which libc does not allow for either: it only sees to it
/// that no timer is armed.
static HISTOGRAM: Claim<Option<Histogram>> = Claim::new(None);

/// `__monstartup` of libc, called by gcrt1.o: starts arcs and ticks.
#[unsafe(no_mangle)]
pub extern "C" fn __monstartup(low_pc: c_ulong, high_pc: c_ulong) {
    errno::keep(|| start(low_pc, high_pc));
}

/// Another name of [`__monstartup`], which programs call themselves.
#[unsafe(no_mangle)]
pub extern "C" fn monstartup(low_pc: c_ulong, high_pc: c_ulong) {
    errno::keep(|| start(low_pc, high_pc));
}

/// `moncontrol` of libc: stops arcs and ticks, or lets them go on.
#[unsafe(no_mangle)]
pub extern "C" fn moncontrol(mode: c_int) {
    errno::keep(|| match HISTOGRAM.claim().as_deref() {
        Some(None) => libc_functions::moncontrol(mode),
        Some(Some(histogram)) => {
            let switched = if mode == 0 { stop_counting() } else { count_into(histogram).map(drop) };
            if let Err(errno) = switched {
                note(|note| note.text("moncontrol did not reach the service: errno ").number(errno as u64));
            }
            undisturbed(|| libc_functions::moncontrol(mode));
        }
        None => undisturbed(|| libc_functions::moncontrol(mode)),
    });
}

/// `_mcleanup` of libc: stops arcs and ticks, and writes gmon.out.
#[unsafe(no_mangle)]
pub extern "C" fn _mcleanup() {
    errno::keep(|| {
        let Some(mut claimed) = HISTOGRAM.claim() else { return undisturbed(libc_functions::mcleanup) };
        match claimed.take() {
            None => libc_functions::mcleanup(),
            Some(histogram) => finish(histogram),
        }
    });
}

fn start(low_pc: c_ulong, high_pc: c_ulong) {
    let Some(mut claimed) = HISTOGRAM.claim() else { return libc_functions::monstartup(low_pc, high_pc) };
    // libc ignores a second call, too.
    if claimed.is_none() {
        *claimed = counting_histogram(low_pc, high_pc);
    }
    if claimed.is_some() {
        undisturbed(|| libc_functions::monstartup(low_pc, high_pc));
    } else {
        libc_functions::monstartup(low_pc, high_pc);
    }
}

/// A histogram into which the kernel counts, unless nobody can be asked to see to that.
fn counting_histogram(low_pc: u64, high_pc: u64) -> Option<Histogram> {
    let geometry = Geometry::of_text(low_pc, high_pc)?;
    let mut histogram = Histogram::new(geometry, settings::read().hz)?;
    match count_into(&histogram) {
        Ok(period_ns) => {
            histogram.rate = rate_of(period_ns).unwrap_or(histogram.rate);
            Some(histogram)
        }
        Err(errno) => {
            note(|note| note.text("no service, so libc profiles this -pg program: errno ").number(errno as u64));
            // One that did not answer in time may write to it yet.
            if !active::counters().include(Counters::SERVICE) {
                histogram.discard();
            }
            None
        }
    }
}

/// The period, ns.
fn count_into(histogram: &Histogram) -> Result<u64, c_int> {
    let area = histogram.area();
    let order = Order { areas: Areas { start: &raw const area, count: 1 }, effect: Effect::On, ..STOP };
    // SAFETY: the histogram's memory stays until it was turned off; libc is not asked.
    match unsafe { switch::carry_out(&order) }? {
        By::Service { period_ns } if active::counters().include(Counters::SERVICE) => Ok(period_ns),
        By::Service { .. } | By::Libc => Err(libc::EFAULT),
    }
}

fn stop_counting() -> Result<(), c_int> {
    if !active::counters().include(Counters::SERVICE) {
        return Ok(());
    }
    // SAFETY: takes no memory of the program's; libc is not asked.
    unsafe { switch::carry_out(&STOP) }.map(drop)
}

/// Turns the kernel's counting off; with areas, what turns it on.
const STOP: Order = Order {
    kind: CallKind::Sprofil,
    convention: convention_number(Convention::Glibc),
    width: size_of::<u32>() as u32,
    areas: Areas::NONE,
    effect: Effect::Off,
    otherwise: Otherwise::Fail,
};

/// The nearest whole number of ticks per second.
fn rate_of(period_ns: u64) -> Option<u32> {
    let rate = period_ns.saturating_div(2).saturating_add(1_000_000_000).checked_div(period_ns)?;
    u32::try_from(rate).ok().filter(|rate| *rate > 0)
}

/// Has libc write its file, and puts the kernel's counts into it.
fn finish(histogram: Histogram) {
    let stopped = stop_counting();
    if let Err(errno) = stopped {
        note(|note| note.text("ticks may be missing in gmon.out: errno ").number(errno as u64));
    }
    match Output::wanted() {
        Output::Libc => {
            undisturbed(libc_functions::mcleanup);
            let names = output_name::names_of_libc();
            replace_in_first(names.iter().flatten(), &histogram);
        }
        Output::Folder(folder) => {
            let (name, name_of_libc) = output_name::names_in(folder);
            undisturbed(|| output_name::with_prefix_in(folder, libc_functions::mcleanup));
            replace_in_first([&name_of_libc].into_iter(), &histogram);
            // SAFETY: both paths end in NUL.
            unsafe { libc::rename(name_of_libc.as_c_str().as_ptr(), name.as_c_str().as_ptr()) };
        }
        // libc would write somewhere. Its arcs go with the process.
        Output::Nothing => undisturbed(|| libc_functions::moncontrol(0)),
    }
    if stopped.is_ok() {
        histogram.discard();
    }
}

/// Replaces the record in the first of the files that has it.
fn replace_in_first<'p>(mut names: impl Iterator<Item = &'p Path>, histogram: &Histogram) {
    let load_bias = load_bias();
    let mut last = Unfit::Other;
    let replaced = names.any(|name| {
        let result = replace_histogram(name.as_c_str(), histogram, load_bias);
        last = result.err().unwrap_or(last);
        result.is_ok()
    });
    if !replaced {
        note(|note| match last {
            Unfit::Io(errno) => note.text("gmon.out has no ticks: errno ").number(errno as u64),
            Unfit::Other => note.text("gmon.out has no ticks: it is not what was expected"),
        });
    }
}

/// What libc subtracts from pcs: the load bias of the program itself, which the loader names first.
fn load_bias() -> u64 {
    unsafe extern "C" fn take_first(
        info: *mut libc::dl_phdr_info,
        _bytes: libc::size_t,
        load_bias: *mut libc::c_void,
    ) -> c_int {
        // SAFETY: the loader gives a valid description, and `load_bias` is the u64 below.
        unsafe { *load_bias.cast::<u64>() = (*info).dlpi_addr };
        // No more.
        1
    }
    let mut load_bias = 0_u64;
    // SAFETY: the function expects the u64 that it is given.
    unsafe { libc::dl_iterate_phdr(Some(take_first), (&raw mut load_bias).cast()) };
    load_bias
}
