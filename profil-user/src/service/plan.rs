//! From a call of profil(3) or sprofil(3), as its arguments were, to what is to be done.

use std::collections::BTreeSet;

use profil_common::limits::{MAX_BINS, MAX_RANGES};
use profil_common::wire::{Area, Call, CallKind, call_flags};
use profil_common::{Convention, Range, RangeTable, Region, Request};

use crate::copier::BufferPlan;
use crate::sink::target::{AtLimit, Width};

/// What a call asks for, by its convention.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Nothing changes.
    Unchanged {
        /// What the call fails with; 0 when it is none of its faults.
        errno: i32,
    },
    /// Profiling is off afterwards.
    Off,
    /// Profiling is off afterwards, and the call fails.
    Refused {
        /// What it fails with.
        errno: i32,
    },
    /// Profiling is on afterwards, and as described.
    On(Box<Layout>),
    /// All ticks so far are in the buffers afterwards.
    Flush,
}

/// Ranges of text, the bins that they count into, and the buffers that the bins go to.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The ranges; their period is not set.
    pub ranges: RangeTable,
    /// The buffers, by the bins that they take.
    pub buffers: Vec<BufferPlan>,
    /// How the counts come into them.
    pub delivery: Delivery,
    /// What a buffer that cannot be written comes to.
    pub bad_buffer: BadBufferMeans,
}

/// How the counts come into the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// We add them to it.
    Copied,
    /// The caller maps the kernel's array over it.
    Mapped,
}

/// What a call with a bad buffer comes to; profiling is off in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBufferMeans {
    /// The call returns 0.
    Success,
    /// The call fails with `EFAULT`.
    Efault,
}

/// A call that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The convention is none that there is.
    #[error("there is no convention {number}")]
    Convention {
        /// Its number.
        number: u32,
    },
    /// profil(3) has one buffer.
    #[error("profil(3) with {areas} areas")]
    Areas {
        /// Areas of the call.
        areas: usize,
    },
    /// The convention does not take the request.
    #[error("the request is refused: {reason}")]
    Request {
        /// Why.
        reason: profil_common::ConventionError,
    },
    /// A scale that does not fit.
    #[error("scale {scale} does not fit into 32 bits")]
    Scale {
        /// The scale.
        scale: u64,
    },
    /// Too many ranges once overlapping ones are told apart.
    #[error("{ranges} ranges are more than {MAX_RANGES}")]
    Ranges {
        /// How many.
        ranges: usize,
    },
    /// More bins than are kept for a process.
    #[error("{bins} bins are more than {MAX_BINS}")]
    Bins {
        /// How many.
        bins: u64,
    },
}

impl PlanError {
    /// The errno that the call fails with.
    pub fn errno(&self) -> i32 {
        match self {
            PlanError::Bins { .. } => libc::ENOMEM,
            _ => libc::EINVAL,
        }
    }
}

impl Plan {
    /// Reads a call.
    ///
    /// # Errors
    /// [`PlanError`]; nothing changes then.
    pub fn of(call: &Call, areas: &[Area]) -> Result<Plan, PlanError> {
        match CallKind::from_number(call.kind) {
            Some(CallKind::Flush) => Ok(Plan::Flush),
            Some(CallKind::Sprofil) => sprofil(areas, call.width),
            Some(CallKind::Profil) | None => {
                let number = call.convention;
                let convention = Convention::ALL.get(number as usize).ok_or(PlanError::Convention { number })?;
                let [area] = areas else {
                    return Err(PlanError::Areas { areas: areas.len() });
                };
                profil(*convention, area, call.width, call.flags & call_flags::ZERO_COPY != 0)
            }
        }
    }
}

fn profil(convention: Convention, area: &Area, width: u32, zero_copy: bool) -> Result<Plan, PlanError> {
    let Area { buffer, bytes, offset, scale } = *area;
    match (convention, buffer) {
        (Convention::Linux | Convention::Glibc, 0) => return Ok(Plan::Off),
        (Convention::Clix, _) if bytes == 0 => return Ok(Plan::Unchanged { errno: 0 }),
        _ => {}
    }
    let scale = u32::try_from(scale).map_err(|_| PlanError::Scale { scale })?;
    let request = Request { offset, scale, bufsiz: bytes, width };
    let region = match Region::new(convention, request) {
        Ok(Some(region)) if region.nbins > 0 => region,
        Ok(_) => return Ok(Plan::Off),
        // "Profiling is turned off" is all that the page says of a scale that cannot be.
        Err(profil_common::ConventionError::Scale { .. }) if convention == Convention::Clix => return Ok(Plan::Off),
        Err(profil_common::ConventionError::Bins { nbins }) => return Err(PlanError::Bins { bins: nbins }),
        Err(reason) => return Err(PlanError::Request { reason }),
    };
    if region.nbins > MAX_BINS {
        return Err(PlanError::Bins { bins: region.nbins.into() });
    }
    let bad_buffer = if convention == Convention::Bsd { BadBufferMeans::Efault } else { BadBufferMeans::Success };
    let buffers = vec![plan_of(area, region.nbins, 0, width, AtLimit::Wrap)];
    // A page of anything but bins must not be mapped over.
    let page = rustix::param::page_size() as u64;
    let is_whole_pages = buffer % page == 0 && bytes % page == 0;
    let delivery = if zero_copy && width == 2 && is_whole_pages { Delivery::Mapped } else { Delivery::Copied };
    Ok(Plan::On(Box::new(Layout { ranges: RangeTable::single(region), buffers, delivery, bad_buffer })))
}

fn plan_of(area: &Area, nbins: u32, first_bin: u32, width: u32, at_limit: AtLimit) -> BufferPlan {
    let width = if width == 4 { Width::Four } else { Width::Two };
    BufferPlan { start: area.buffer, nbins, first_bin, width, at_limit }
}

/// An entry of sprofil(3) with the place of its bins.
struct Entry {
    region: Region,
    first_bin: u32,
    low: u64,
    high: u64,
}

fn sprofil(areas: &[Area], width: u32) -> Result<Plan, PlanError> {
    let mut entries = Vec::new();
    let mut buffers = Vec::new();
    let mut otherwise = RangeTable::NO_BIN;
    let mut bins = 0u64;
    for area in areas {
        let scale = u32::try_from(area.scale).map_err(|_| PlanError::Scale { scale: area.scale })?;
        let request = Request { offset: area.offset, scale, bufsiz: area.bytes, width };
        let region = match Region::new(Convention::Glibc, request) {
            Ok(Some(region)) => region,
            Ok(None) => continue,
            Err(profil_common::ConventionError::Bins { nbins }) => return Err(PlanError::Bins { bins: nbins }),
            Err(reason) => return Err(PlanError::Request { reason }),
        };
        if region.nbins == 0 {
            continue;
        }
        let first_bin = bins as u32;
        bins += u64::from(region.nbins);
        if bins > MAX_BINS.into() {
            return Err(PlanError::Bins { bins });
        }
        buffers.push(plan_of(area, region.nbins, first_bin, width, AtLimit::Saturate));
        if area.offset == 0 && scale == 2 {
            otherwise = first_bin;
        } else if let Some(span) = region.span() {
            entries.push(Entry { region, first_bin, low: *span.start(), high: *span.end() });
        }
    }
    if buffers.is_empty() {
        return Ok(Plan::Off);
    }
    let flat = flatten(&entries);
    let mut ranges = RangeTable { otherwise, ..RangeTable::empty(bins as u32) };
    let places = ranges.ranges.get_mut(..flat.len()).ok_or(PlanError::Ranges { ranges: flat.len() })?;
    places.copy_from_slice(&flat);
    ranges.len = flat.len() as u32;
    let (delivery, bad_buffer) = (Delivery::Copied, BadBufferMeans::Efault);
    Ok(Plan::On(Box::new(Layout { ranges, buffers, delivery, bad_buffer })))
}

/// Ranges that do not overlap, ascending: where entries do, the one with the higher start keeps its range, and of those
/// with the same start the earlier one.
fn flatten(entries: &[Entry]) -> Vec<Range> {
    // Between two neighbouring cuts each entry covers everything or nothing.
    let cuts: BTreeSet<u64> =
        entries.iter().flat_map(|entry| [Some(entry.low), entry.high.checked_add(1)]).flatten().collect();
    let ends = cuts.iter().skip(1).map(|cut| cut - 1).chain([u64::MAX]);
    let mut ranges: Vec<Range> = Vec::new();
    for (low, high) in cuts.iter().copied().zip(ends) {
        let covering = entries.iter().filter(|entry| entry.low <= low && high <= entry.high);
        // max_by_key keeps the last of equals.
        let Some(Entry { region, first_bin, .. }) = covering.rev().max_by_key(|entry| entry.low) else {
            continue;
        };
        match ranges.last_mut() {
            Some(last) if last.first_bin == *first_bin && last.high.checked_add(1) == Some(low) => last.high = high,
            _ => ranges.push(Range { low, high, first_bin: *first_bin, reserved: 0, region: *region }),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use profil_common::wire::{MAGIC, VERSION};

    use super::*;

    fn call(kind: CallKind, convention: u32, width: u32) -> Call {
        let kind = kind as u32;
        Call { magic: MAGIC, version: VERSION, nonce: 0, kind, convention, width, hz: 100, flags: 0, areas: 0 }
    }

    const BSD: u32 = 0;
    const LINUX: u32 = 1;
    const CLIX: u32 = 2;
    const GLIBC: u32 = 3;

    fn profil(convention: u32, buffer: u64, bytes: u64, scale: u64) -> Result<Plan, PlanError> {
        Plan::of(&call(CallKind::Profil, convention, 2), &[Area { buffer, bytes, offset: 0x1000, scale }])
    }

    fn sprofil(width: u32, areas: &[Area]) -> Result<Box<Layout>, PlanError> {
        match Plan::of(&call(CallKind::Sprofil, GLIBC, width), areas)? {
            Plan::On(layout) => Ok(layout),
            other => panic!("{other:?}"),
        }
    }

    fn area(buffer: u64, bytes: u64, offset: u64, scale: u64) -> Area {
        Area { buffer, bytes, offset, scale }
    }

    #[test]
    fn each_convention_has_its_own_way_to_turn_profiling_off() {
        let is_off = |convention, buffer, scale| matches!(profil(convention, buffer, 64, scale), Ok(Plan::Off));
        let offs = [BSD, LINUX, CLIX, GLIBC].map(|convention| {
            [is_off(convention, 0x5000, 0), is_off(convention, 0x5000, 1), is_off(convention, 0, 65_535)]
        });
        assert_eq!(offs, [[true, false, false], [false, false, true], [true, true, false], [false, false, true]]);
    }

    #[test]
    fn a_scale_that_is_too_large_is_each_conventions_own_affair() {
        let bsd = profil(BSD, 0x5000, 64, 65_537).expect_err("4.4BSD refuses it");
        assert_eq!(bsd.errno(), libc::EINVAL);
        assert!(matches!(profil(CLIX, 0x5000, 64, 65_536), Ok(Plan::Off)));
        assert!(matches!(profil(LINUX, 0x5000, 64, 131_072), Ok(Plan::On(_))));
        assert!(matches!(profil(GLIBC, 0x5000, 64, 131_072), Ok(Plan::On(_))));
    }

    #[test]
    fn a_clix_call_without_room_for_bins_changes_nothing() {
        assert!(matches!(profil(CLIX, 0x5000, 0, 65_535), Ok(Plan::Unchanged { errno: 0 })));
        assert!(matches!(profil(GLIBC, 0x5000, 1, 65_535), Ok(Plan::Off)));
    }

    #[test]
    fn only_bsd_fails_for_a_bad_buffer() {
        let means = [BSD, LINUX, CLIX, GLIBC].map(|convention| match profil(convention, 0x5000, 64, 65_535) {
            Ok(Plan::On(layout)) => layout.bad_buffer,
            other => panic!("{other:?}"),
        });
        use BadBufferMeans::{Efault, Success};
        assert_eq!(means, [Efault, Success, Success, Success]);
    }

    #[test]
    fn a_buffer_beyond_what_is_kept_for_a_process_is_enomem() {
        for bytes in [u64::from(MAX_BINS) * 2 + 2, u64::MAX] {
            assert_eq!(profil(GLIBC, 0x5000, bytes, 65_536).expect_err("too many bins").errno(), libc::ENOMEM);
        }
    }

    #[test]
    fn where_regions_overlap_the_one_with_the_higher_start_keeps_its_range() {
        // One bin for each two bytes.
        let outer = area(0x9000, 2 * 0x80, 0x1000, 65_536);
        let inner = area(0xa000, 2 * 0x10, 0x1040, 65_536);
        for areas in [[outer, inner], [inner, outer]] {
            let layout = sprofil(2, &areas).expect("two regions");
            let first_bin = |buffer| layout.buffers.iter().find(|plan| plan.start == buffer).map(|plan| plan.first_bin);
            let (outer, inner) = (first_bin(0x9000).expect("outer"), first_bin(0xa000).expect("inner"));
            assert_eq!(layout.ranges.len, 3);
            let bins = [0x1000, 0x103f, 0x1040, 0x105f, 0x1060, 0x10ff, 0x1100].map(|pc| layout.ranges.bin_of(pc));
            let expected = [outer, outer + 0x1f, inner, inner + 0xf, outer + 0x30, outer + 0x7f]
                .map(Some)
                .into_iter()
                .chain([None]);
            assert!(bins.into_iter().eq(expected), "{bins:?}");
        }
    }

    #[test]
    fn of_regions_with_one_start_the_first_keeps_it() {
        let layout = sprofil(2, &[area(0x9000, 8, 0x1000, 65_536), area(0xa000, 64, 0x1000, 65_536)]).expect("regions");
        assert_eq!([0x1000, 0x1007, 0x1008].map(|pc| layout.ranges.bin_of(pc)), [Some(0), Some(3), Some(4 + 4)]);
    }

    #[test]
    fn the_overflow_entry_takes_the_ticks_of_no_region() {
        let layout = sprofil(4, &[area(0x9000, 4 * 16, 0x1000, 65_536), area(0xa000, 4, 0, 2)]).expect("regions");
        assert_eq!(layout.ranges.bin_of(0x1004), Some(1));
        assert_eq!([0, 0xfff, 0x1040, u64::MAX].map(|pc| layout.ranges.bin_of(pc)), [Some(16); 4]);
        assert!(layout.buffers.iter().all(|plan| plan.at_limit == AtLimit::Saturate && plan.width == Width::Four));
    }

    #[test]
    fn more_than_sixty_four_ranges_are_refused() {
        let areas = |count: u64| (0..count).map(|n| area(0x9000, 8, 0x1000 * (n + 1), 65_536)).collect::<Vec<_>>();
        assert_eq!(sprofil(2, &areas(64)).expect("as many as there may be").ranges.len, 64);
        assert_eq!(sprofil(2, &areas(65)).expect_err("one too many"), PlanError::Ranges { ranges: 65 });
    }

    #[test]
    fn only_whole_pages_of_sixteen_bit_bins_are_mapped() {
        let delivery = |kind, width, area| {
            let call = Call { flags: call_flags::ZERO_COPY, ..call(kind, GLIBC, width) };
            match Plan::of(&call, &[area]) {
                Ok(Plan::On(layout)) => layout.delivery,
                other => panic!("{other:?}"),
            }
        };
        let page = rustix::param::page_size() as u64;
        let pages = area(16 * page, 2 * page, 0x1000, 65_536);
        assert_eq!(delivery(CallKind::Profil, 2, pages), Delivery::Mapped);
        assert_eq!(delivery(CallKind::Profil, 4, pages), Delivery::Copied);
        assert_eq!(delivery(CallKind::Sprofil, 2, pages), Delivery::Copied);
        assert_eq!(delivery(CallKind::Profil, 2, Area { buffer: pages.buffer + 2, ..pages }), Delivery::Copied);
        assert_eq!(delivery(CallKind::Profil, 2, Area { bytes: pages.bytes - 2, ..pages }), Delivery::Copied);
    }

    #[test]
    fn sprofil_without_regions_turns_profiling_off() {
        assert!(matches!(Plan::of(&call(CallKind::Sprofil, GLIBC, 2), &[]), Ok(Plan::Off)));
    }

    proptest::proptest! {
        #[test]
        fn flattened_ranges_bin_like_a_search_through_the_entries(
            areas in proptest::collection::vec((0u64..64, 0u64..64, 1u64..0x2_0000), 1..12),
            pcs in proptest::collection::vec(0u64..512, 64),
        ) {
            let areas: Vec<Area> =
                areas.iter().map(|(bytes, offset, scale)| area(0x9000, *bytes, 1 + offset * 3, *scale)).collect();
            let Ok(Plan::On(layout)) = Plan::of(&call(CallKind::Sprofil, GLIBC, 2), &areas) else {
                return Ok(());
            };
            for pc in pcs {
                let mut first_bin = 0;
                let mut best: Option<(u64, u32)> = None;
                for area in &areas {
                    let request =
                        Request { offset: area.offset, scale: area.scale as u32, bufsiz: area.bytes, width: 2 };
                    let region = Region::new(Convention::Glibc, request).unwrap().unwrap();
                    if let (Some(bin), true) = (region.bin_of(pc), best.is_none_or(|(start, _)| area.offset > start)) {
                        best = Some((area.offset, first_bin + bin));
                    }
                    first_bin += region.nbins;
                }
                proptest::prop_assert_eq!(layout.ranges.bin_of(pc), best.map(|(_, bin)| bin));
            }
        }
    }
}
