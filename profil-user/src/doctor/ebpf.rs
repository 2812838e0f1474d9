//! What the eBPF programs need of the kernel.

use super::{Finding, State, Trial, caps};
use crate::privileges::{Capability, Privileges};
use crate::probe::btf::{self, KERNEL_BTF};
use crate::probe::support::{self, Helper, MapUse};

/// Findings on bpf(2), BTF, helpers, maps, instructions and tracepoints.
pub(super) fn examine(privileges: &Privileges) -> Vec<Finding> {
    // With all rights there, a refusal comes from a filter on system calls.
    let cure = if privileges.has(Capability::Bpf) && privileges.has(Capability::Perfmon) && caps::has_seccomp_filter() {
        "allow bpf and perf_event_open: --security-opt seccomp=unconfined, or seccompProfile.type: Unconfined"
            .to_owned()
    } else {
        privileges.cure()
    };
    let tried =
        |name, needed, state, lost, support| Finding::tried(Trial { name, needed, state, lost }, &support, &cure);
    let mut findings = vec![
        tried(
            "perf_event program",
            "4.9, CONFIG_BPF_SYSCALL, CONFIG_BPF_EVENTS",
            State::Missing,
            "everything",
            support::perf_event_program(),
        ),
        kernel_types(),
    ];
    findings.extend(
        HELPERS.map(|(helper, needed, state, lost)| tried(helper.name(), needed, state, lost, support::helper(helper))),
    );
    findings.extend(MAPS.map(|(map, name, needed, state, lost)| tried(name, needed, state, lost, support::map(map))));
    findings.push(tried(
        "atomic fetch and cmpxchg",
        "5.12",
        State::Degraded,
        "bins without copying in profil run",
        support::fetch_atomics(),
    ));
    for (name, lost, state) in [
        (c"sched_process_fork", "descendants of the target", State::Missing),
        (c"sched_process_exec", "the change of program in a process", State::Missing),
        (c"sched_process_exit", "the end of a process", State::Missing),
        (c"sched_process_free", "the last ticks of a process", State::Degraded),
    ] {
        let label = name.to_str().unwrap_or_default();
        findings.push(tried(label, "4.17, raw tracepoints", state, lost, support::raw_tracepoint(name)));
    }
    findings.push(tried(
        "membarrier GLOBAL",
        "4.3, without nohz_full",
        State::Degraded,
        "certainty that no tick is late: a short pause is made instead",
        support::membarrier_global(),
    ));
    findings.push(tried(
        "PROCMAP_QUERY",
        "6.11",
        State::Degraded,
        "speed: all of /proc/PID/maps is read instead",
        support::procmap_query(),
    ));
    findings
}

const HELPERS: [(Helper, &str, State, &str); 8] = [
    (Helper::KtimeGetNs, "4.1", State::Missing, "everything"),
    (
        Helper::ProbeReadKernel,
        "5.5, lockdown not at confidentiality",
        State::Missing,
        "everything: the programs read fields of the kernel's tasks",
    ),
    (
        Helper::CurrentTaskBtf,
        "5.11",
        State::Degraded,
        "the user pc of ticks taken in the kernel by the short way: bpf_get_stack is used",
    ),
    (
        Helper::TaskPtRegs,
        "5.15",
        State::Degraded,
        "the user pc of ticks taken in the kernel by the short way: bpf_get_stack is used",
    ),
    (Helper::GetStack, "4.18", State::Degraded, "the user pc of ticks taken in the kernel, before 5.15"),
    (Helper::AncestorCgroupId, "5.6", State::Degraded, "the filter by control group (-G)"),
    (Helper::FindVma, "5.17", State::Degraded, "names of processes that end before their mappings are read"),
    (Helper::RingbufReserve, "5.8", State::Missing, "news of processes that start and end"),
];

const MAPS: [(MapUse, &str, &str, State, &str); 4] = [
    (MapUse::Hash, "hash map", "3.19", State::Missing, "everything"),
    (MapUse::MmapableArray, "mmapable array map", "5.5", State::Missing, "everything: bins are read by mmap"),
    (
        MapUse::ArraysOfAnySize,
        "arrays of any size",
        "5.10",
        State::Missing,
        "profil(2) and attach: one array for each process",
    ),
    (MapUse::RingBuf, "ring buffer map", "5.8", State::Missing, "news of processes that start and end"),
];

fn kernel_types() -> Finding {
    let (name, needed) = ("kernel BTF", "5.2, CONFIG_DEBUG_INFO_BTF=y");
    match btf::kernel_fields() {
        Ok(_) => Finding::ok(name, KERNEL_BTF, needed),
        Err(error) => Finding::ok(name, error.to_string(), needed)
            .but(State::Missing, "everything: the programs read fields of the kernel's tasks")
            .cure("a kernel built with CONFIG_DEBUG_INFO_BTF=y (every current distribution's is)"),
    }
}
