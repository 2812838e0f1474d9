//! What the kernel side and the user side of profil must agree on bit for bit.
//!
//! No allocation, no `std`, no 128-bit arithmetic (`__multi3` does not link for BPF), so that the very same
//! code runs in the eBPF program, in the loader and in the preloadable library.
//!
//! * [`Region`] and [`Convention`]: which bin a pc belongs to, and which pcs a bin stands for.
//! * [`Outcome`] and [`Counters`]: what can become of a tick.
//! * [`Settings`], [`Process`], [`RowKey`], [`Event`]: the layout of what the two sides hand each other.
//! * [`wire`]: what libprofil.so and the service say to each other.
//! * [`limits`]: the sizes that both sides rely on.
//!
//! ```
//! use profil_common::{Convention, Region, Request};
//!
//! // "A scale of 65536 maps each bin to 2 bytes of address range" (4.4BSD profil(2)).
//! let request = Request { offset: 0x40_0000, scale: 65536, bufsiz: 4096, width: 2 };
//! let region = Region::new(Convention::Bsd, request).unwrap().unwrap();
//! assert_eq!(region.bin_of(0x40_0002), Some(1));
//! assert_eq!(region.addrs_of(1), Some(0x40_0002..=0x40_0003));
//! assert_eq!(region.bin_of(0x3f_ffff), None);
//! ```
#![no_std]

pub mod limits;
pub mod wire;

mod chunk;
mod convention;
mod counters;
mod event;
#[cfg(feature = "user")]
mod pod;
mod process;
mod region;
mod row;
mod settings;

pub use chunk::BinChunk;
pub use convention::{Convention, ConventionError, Errno, Request};
pub use counters::{Counters, Outcome};
pub use event::{Event, EventKind};
pub use process::{NearRegion, Process, Seat, process_flags, seat_index};
pub use region::{Range, RangeTable, Region};
pub use row::{FrontRow, RowKey, TickRecord, row_flags};
pub use settings::{FILTER_CPUS, Fields, Settings, settings_flags};
