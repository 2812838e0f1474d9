//! The live view without a screen: windows in, rows out.
//!
//! What each row of the profile got is kept as a total and as an exponential average: a tick counts the less, the longer
//! ago it was. Both are sums, so they are added up by function, process or CPU only when they are shown, and code that
//! gets a better name takes its past along.

mod average;
mod grouping;
mod model;
mod view;

#[cfg(test)]
mod tests;

pub use model::{Model, Pace};
pub use view::{CpuRow, Filter, Modes, Order, PlaceRow, Shown, Tab, TopRow, View};
