//! Standard output as a page for a table: how wide it is, and whether it takes colour.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use crate::report::color::{ColorChoice, Medium};
use crate::report::table::Layout;

/// The layout of a table on `to`.
pub fn layout(to: &(impl IsTerminal + AsFd), limit: Option<usize>, color: ColorChoice) -> Layout {
    let terminal = to.is_terminal();
    let size = terminal.then(|| rustix::termios::tcgetwinsize(to).ok()).flatten();
    Layout {
        limit,
        // A terminal that does not know its size reports 0 columns.
        width: size.map(|size| size.ws_col.into()).filter(|columns| *columns > 0),
        paint: color.paint(medium(to), |name| std::env::var_os(name)),
    }
}

/// What `to` is.
pub fn medium(to: &impl IsTerminal) -> Medium {
    if to.is_terminal() { Medium::Terminal } else { Medium::File }
}

/// Rows to show: those asked for, 0 being all, or else the default.
pub fn rows(asked: Option<usize>, default: Option<usize>) -> Option<usize> {
    match asked {
        None => default,
        Some(0) => None,
        limit => limit,
    }
}
