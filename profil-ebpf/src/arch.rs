//! What differs between architectures: where a trap frame keeps the pc and the mode.
//!
//! Every register is loaded with the full width that the verifier wants (a 16-bit load of `cs` is refused).

use aya_ebpf::bindings::{bpf_perf_event_data, pt_regs};

/// pc of the frame that the clock interrupted: user or kernel.
///
/// # Safety
/// `ctx` is the context that the kernel passed to a perf_event program.
#[inline(always)]
pub unsafe fn pc(ctx: *const bpf_perf_event_data) -> u64 {
    #[cfg(bpf_target_arch = "x86_64")]
    // SAFETY: the verifier types ctx as bpf_perf_event_data and turns this into a load from the saved registers.
    unsafe {
        (*ctx).regs.rip
    }
    #[cfg(bpf_target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        (*ctx).regs.pc
    }
}

/// Whether the clock interrupted user space.
///
/// # Safety
/// As for [`pc`].
#[inline(always)]
pub unsafe fn is_user(ctx: *const bpf_perf_event_data) -> bool {
    #[cfg(bpf_target_arch = "x86_64")]
    {
        // The two lowest bits of cs are the privilege level.
        // SAFETY: as for pc.
        let cs = unsafe { (*ctx).regs.cs };
        cs & 3 != 0
    }
    #[cfg(bpf_target_arch = "aarch64")]
    {
        // The four lowest bits of pstate are the exception level and stack pointer: 0 is EL0.
        // SAFETY: as for pc.
        let pstate = unsafe { (*ctx).regs.pstate };
        pstate & 0xf == 0
    }
}

/// pc that the kernel will return to in user space, from the frame that bpf_task_pt_regs found.
///
/// # Safety
/// `regs` was returned by bpf_task_pt_regs in this run of the program.
#[inline(always)]
pub unsafe fn return_pc(regs: *const pt_regs) -> u64 {
    #[cfg(bpf_target_arch = "x86_64")]
    // SAFETY: the verifier types the pointer as struct pt_regs of this kernel, and faults read as 0.
    unsafe {
        (*regs).rip
    }
    #[cfg(bpf_target_arch = "aarch64")]
    // SAFETY: as above; user_pt_regs is the first member of the kernel's pt_regs.
    unsafe {
        (*regs).pc
    }
}
