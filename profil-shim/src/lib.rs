//! libprofil.so: profil(3) and sprofil(3), counted by the kernel.
//!
//! Preloaded into a program, or linked to it before libc, it takes the place of libc's functions of the same names. A
//! call is carried to a service (`profil run` or `profil daemon`) over a Unix socket, in the messages of
//! [`profil_common::wire`]; from then on the kernel counts, and the service writes the counts into the program's
//! buffer. Where nobody can be asked, libc's own functions count. `include/profil.h` tells programs what to expect.
//!
//! It is loaded into strangers, which is why
//!
//! * nothing allocates, starts a thread, installs a signal handler, or holds a lock while it waits: profil(3) may be
//!   called from a signal handler that interrupted profil(3), see `claim`;
//! * nothing is a cancellation point and nothing panics: no frame of this library is ever unwound;
//! * errno is changed by a call that fails and by no other.
//!
//! | module | noun |
//! |---|---|
//! | `entry` | the functions that programs call |
//! | `switch`, `active` | turning profiling on and off; what is on |
//! | `service`, `deadline` | one call to the service, and how long it may take |
//! | `libc_functions` | what libc would have done |
//! | `fork` | what a forked child does |
//! | `overlay` | the kernel's array in the place of a buffer |
//! | `gmon`, `gmon_file`, `histogram`, `output_name`, `sigprof` | programs built with -pg |
//! | `settings`, `note` | environment variables; a line on stderr |
//! | `claim`, `descriptor`, `errno`, `syscall` | what the others stand on |
#![no_std]

// For its panic handler, which a library must have although it is never called. All else is core.
extern crate std;

mod active;
mod claim;
mod deadline;
mod descriptor;
mod entry;
mod errno;
mod fork;
mod gmon;
mod gmon_file;
mod histogram;
mod libc_functions;
mod note;
mod output_name;
mod overlay;
mod service;
mod settings;
mod sigprof;
mod switch;
mod syscall;

/// Runs when the library is loaded, before `main` and before any constructor of the program.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;

/// Does beforehand whatever a call could not do in a signal handler.
extern "C" fn construct() {
    settings::read();
    libc_functions::find();
    fork::watch();
}
