//! The bin of a pc and the pcs of a bin, against the oracle: exhaustively in small domains, at random in all.

mod oracle;

use oracle::{Verdict, computed, verdict};
use profil_common::limits::MAX_RANGES;
use profil_common::{Convention, Range, RangeTable, Region, Request};
use proptest::prelude::*;

/// Scales at which something changes: the ends, the powers of two and their neighbours, and what callers use.
fn corner_scales() -> Vec<u32> {
    let powers = (0..32).flat_map(|power| [(1u32 << power) - 1, 1 << power, (1u32 << power).wrapping_add(1)]);
    powers.chain([3, 32821, 131_072, 0xaaaa, u32::MAX]).collect()
}

fn region(convention: Convention, request: Request) -> Option<Region> {
    Region::new(convention, request).ok().flatten()
}

/// Checks that `addrs_of` is the inverse of `bin_of` at one bin: at both ends, and on either side of them.
fn check_inverse(region: &Region, bin: u32) {
    match region.addrs_of(bin) {
        Some(addrs) => {
            let (low, high) = (*addrs.start(), *addrs.end());
            assert!(low <= high, "{region:?} {bin}");
            for pc in [low, high, low + (high - low) / 2, low + (high - low) / 3] {
                assert_eq!(region.bin_of(pc), Some(bin), "{region:?} {pc:#x}");
            }
            for neighbour in [low.checked_sub(1), high.checked_add(1)].into_iter().flatten() {
                assert_ne!(region.bin_of(neighbour), Some(bin), "{region:?} {neighbour:#x}");
            }
        }
        None => {
            // The bins grow with the pc: the first pc that reaches the bin has jumped over it.
            let reached = first_pc(region.offset, |pc| region.bin_of(pc).is_none_or(|reached| reached >= bin));
            assert!(reached.is_none_or(|pc| region.bin_of(pc) != Some(bin)), "{region:?} {bin} {reached:x?}");
        }
    }
}

/// The first pc from `offset` up at which a condition holds that holds from there on.
fn first_pc(offset: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (offset, u64::MAX);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    holds(low).then_some(low)
}

/// Check every pc of a small address space at many scales, and the inverse of every bin by counting.
#[test]
fn small_regions_agree_with_the_oracle_at_every_pc() {
    for convention in Convention::ALL {
        for scale in corner_scales() {
            for (offset, bufsiz, width) in [(0, 64, 2), (3, 17, 2), (4, 63, 4), (250, 7, 2), (0, 1, 2), (0, 0, 4)] {
                let request = Request { offset, scale, bufsiz, width };
                let pcs = 0..=1200;
                for pc in pcs.clone() {
                    let expected = verdict(convention, request, pc);
                    assert_eq!(computed(convention, request, pc), expected, "{convention:?} {request:?} {pc}");
                }
                let Some(region) = region(convention, request) else { continue };
                for bin in 0..region.nbins + 1 {
                    let addrs = region.addrs_of(bin);
                    let counted = pcs.clone().filter(|pc| verdict(convention, request, *pc) == Verdict::Bin(bin));
                    let listed = pcs.clone().filter(|pc| addrs.as_ref().is_some_and(|addrs| addrs.contains(pc)));
                    assert!(counted.eq(listed), "{convention:?} {request:?} {bin}: {addrs:?}");
                    check_inverse(&region, bin);
                }
            }
        }
    }
}

/// Check the same at the upper end of the address space, where a sum of addresses would wrap.
#[test]
fn regions_at_the_end_of_the_address_space_agree_with_the_oracle() {
    for convention in Convention::ALL {
        for scale in corner_scales() {
            for (below, bufsiz, width) in [(0, 64, 2), (1, 64, 4), (63, 16, 2), (64, 4096, 2), (1000, 64, 4)] {
                let request = Request { offset: u64::MAX - below, scale, bufsiz, width };
                for pc in (u64::MAX - 1100)..=u64::MAX {
                    let expected = verdict(convention, request, pc);
                    assert_eq!(computed(convention, request, pc), expected, "{convention:?} {request:?} {pc:#x}");
                }
                let Some(region) = region(convention, request) else { continue };
                (0..region.nbins + 1).for_each(|bin| check_inverse(&region, bin));
            }
        }
    }
}

#[test]
fn a_scale_of_zero_puts_every_pc_into_the_first_bin_where_it_is_not_off() {
    let request = Request { offset: 0x1000, scale: 0, bufsiz: 8, width: 2 };
    for convention in [Convention::Linux, Convention::Glibc] {
        let region = region(convention, request).expect("a scale of 0 is on in this convention");
        assert_eq!(region.addrs_of(0), Some(0x1000..=u64::MAX));
        assert_eq!(region.addrs_of(1), None);
        assert_eq!(region.span(), Some(0x1000..=u64::MAX));
        assert_eq!((region.bin_of(u64::MAX), region.bin_of(0xfff)), (Some(0), None));
    }
    for convention in [Convention::Bsd, Convention::Clix] {
        assert_eq!(Region::new(convention, request), Ok(None));
    }
}

fn conventions() -> impl Strategy<Value = Convention> {
    prop::sample::select(Convention::ALL.to_vec())
}

/// Numbers of every magnitude: uniform ones would hardly ever be small.
fn magnitudes() -> impl Strategy<Value = u64> {
    (0u32..=64, any::<u64>()).prop_map(|(bits, number)| if bits == 0 { 0 } else { number >> (64 - bits) })
}

fn scales() -> impl Strategy<Value = u32> {
    prop_oneof![
        (0u32..=32, any::<u32>()).prop_map(|(bits, number)| if bits == 0 { 0 } else { number >> (32 - bits) }),
        prop::sample::select(corner_scales()),
    ]
}

fn requests() -> impl Strategy<Value = Request> {
    let offsets = prop_oneof![magnitudes(), magnitudes().prop_map(|below| u64::MAX - below)];
    let sizes = prop_oneof![magnitudes(), 0u64..=8 << 32];
    (offsets, scales(), sizes, prop::sample::select(vec![2u32, 4])).prop_map(|(offset, scale, bufsiz, width)| Request {
        offset,
        scale,
        bufsiz,
        width,
    })
}

/// Ranges that do not overlap, ascending, with gaps of any size, each with a region of its own.
fn tables() -> impl Strategy<Value = RangeTable> {
    let range = (magnitudes(), magnitudes(), scales(), 0u32..=1 << 20, conventions());
    prop::collection::vec(range, 0..=MAX_RANGES).prop_map(|drawn| {
        let mut table = RangeTable::empty(0);
        let mut free = Some(0u64);
        // A 64th of the space for each, so that all of them fit; a gap of 0 makes neighbours that touch.
        let most = u64::MAX / MAX_RANGES as u64 / 2;
        for (gap, bytes, scale, nbins, convention) in drawn {
            let Some(low) = free.and_then(|free| free.checked_add(gap % most)) else { break };
            let Some(high) = low.checked_add(bytes % most) else { break };
            let request = Request { offset: low, scale, bufsiz: u64::from(nbins) * 2, width: 2 };
            let Some(region) = region(convention, request) else { continue };
            table.ranges[table.len as usize] = Range { low, high, first_bin: table.nbins, reserved: 0, region };
            table.len += 1;
            table.nbins += nbins;
            free = high.checked_add(1);
        }
        table
    })
}

/// The search as anyone would write it.
fn linear_search(table: &RangeTable, pc: u64) -> Option<u32> {
    let ranges = &table.ranges[..table.len as usize];
    let range = ranges.iter().find(|range| (range.low..=range.high).contains(&pc))?;
    Some(range.first_bin + range.region.bin_of(pc)?)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn any_pc_at_any_request_agrees_with_the_oracle(
        convention in conventions(), request in requests(), pc in prop_oneof![any::<u64>(), magnitudes()],
    ) {
        prop_assert_eq!(computed(convention, request, pc), verdict(convention, request, pc));
    }

    /// Random pcs lie outside most regions: these lie at or near the offset.
    #[test]
    fn pcs_near_the_region_agree_with_the_oracle(
        convention in conventions(), request in requests(), distance in magnitudes(),
    ) {
        let pc = request.offset.wrapping_add(distance);
        prop_assert_eq!(computed(convention, request, pc), verdict(convention, request, pc));
    }

    #[test]
    fn addresses_of_a_bin_are_the_inverse_of_the_bin_of_an_address(
        convention in conventions(), request in requests(), bin in magnitudes(), distance in magnitudes(),
    ) {
        if let Some(region) = region(convention, request) {
            check_inverse(&region, bin as u32);
            check_inverse(&region, region.nbins.saturating_sub(1));
            // And from a pc back to itself.
            let pc = request.offset.saturating_add(distance);
            if let Some(bin) = region.bin_of(pc) {
                check_inverse(&region, bin);
                prop_assert!(region.addrs_of(bin).is_some_and(|addrs| addrs.contains(&pc)));
            }
        }
    }

    #[test]
    fn the_span_is_where_the_region_has_bins(
        convention in conventions(), request in requests(), pc in any::<u64>(), distance in magnitudes(),
    ) {
        if let Some(region) = region(convention, request) {
            for pc in [pc, request.offset.saturating_add(distance)] {
                let inside = region.span().is_some_and(|span| span.contains(&pc));
                prop_assert_eq!(inside, region.bin_of(pc).is_some(), "{:#x}", pc);
            }
        }
    }
}

proptest! {
    #[test]
    fn the_search_in_a_table_agrees_with_a_linear_one(table in tables(), pcs in prop::collection::vec(magnitudes(), 64)) {
        let ranges = &table.ranges[..table.len as usize];
        let ends = ranges.iter().flat_map(|range| {
            [range.low, range.high, range.low.wrapping_sub(1), range.high.wrapping_add(1)]
        });
        for pc in ends.chain(pcs) {
            prop_assert_eq!(table.bin_of(pc), linear_search(&table, pc), "{:#x}", pc);
        }
    }
}

#[test]
fn a_full_table_is_searched_to_both_ends() {
    let mut table = RangeTable { len: MAX_RANGES as u32, ..RangeTable::empty(0) };
    for (index, range) in table.ranges.iter_mut().enumerate() {
        let low = 0x1000 * (index as u64 + 1);
        let request = Request { offset: low, scale: 65536, bufsiz: 8, width: 2 };
        let region = region(Convention::Bsd, request).expect("a valid request");
        *range = Range { low, high: low + 7, first_bin: table.nbins, reserved: 0, region };
        table.nbins += 4;
    }
    for len in 0..=MAX_RANGES as u32 {
        table.len = len;
        for pc in 0..=0x1000 * (MAX_RANGES as u64 + 2) / 0x100 {
            let pc = pc * 0x100 + 2;
            assert_eq!(table.bin_of(pc), linear_search(&table, pc), "{len} {pc:#x}");
        }
    }
}
