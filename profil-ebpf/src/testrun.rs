//! A test-only program: runs the search and the bin formula inside the kernel on what the suite hands it.

#![no_std]
#![no_main]

use aya_ebpf::bindings::xdp_action;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::{btf_map, xdp};
use aya_ebpf::programs::XdpContext;
use profil_common::RangeTable;

/// Element 0: the table to search.
#[btf_map]
static TABLE: Array<RangeTable, 1> = Array::new();

/// Element 0: the pc to look for. Element 1: the bin, or all ones when the pc is outside.
#[btf_map]
static PC_AND_BIN: Array<u64, 2> = Array::new();

/// Looks the pc up in the table.
#[xdp]
pub fn bin_of(_ctx: XdpContext) -> u32 {
    let (Some(table), Some(pc), Some(bin)) = (TABLE.get(0), PC_AND_BIN.get(0), PC_AND_BIN.get_ptr_mut(1)) else {
        return xdp_action::XDP_ABORTED;
    };
    // SAFETY: element 1 is the program's own; the suite reads it after the run.
    unsafe { *bin = table.bin_of(*pc).map_or(u64::MAX, u64::from) };
    xdp_action::XDP_PASS
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// The kernel offers some helpers to programs under the GPL only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
