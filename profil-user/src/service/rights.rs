//! What the service may do once it has started.

use crate::privileges::{Capability, Rights};

/// The capabilities that serving takes. All else is to be given up before the first caller is let in.
pub const RIGHTS: Rights<'static> = Rights {
    always: &[
        // Makes bins and puts them into slots.
        Capability::Bpf,
        // Opens the memory and maps of callers.
        Capability::SysPtrace,
        // Ends copiers, which are of another user, and passes signals on to the command of `profil run`.
        Capability::Kill,
        // Copiers become a user without rights, and give up these capabilities as well.
        Capability::Setuid,
        Capability::Setgid,
        Capability::Setpcap,
    ],
    at_times: &[
        // The memory of a caller is a file of the caller's user.
        Capability::DacOverride,
        // The kernel tells only who has it whether lanes are gone.
        Capability::SysAdmin,
    ],
};
