//! What a target may do while profil is attached to it, and what profil must not do then.

mod support_attach;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use profil_common::{Convention, Request};
use profil_user::address_space::{AddressSpace, Purpose};
use profil_user::attach::{AttachConfig, AttachError, Attachment, End, Recording};
use profil_user::process::TargetProcess;
use profil_user::rate::Rate;
use profil_user::sink::target::Loss;
use support_attach::{
    BYTES, Profil, Target, build, fixed_target, freeze, let_run, movable_target, profil_or_skip, scratch, signal, skip,
    state, thaw, until,
};

const COUNTING: [&str; 5] = ["--buf", "buf", "--json", "-F", "1000"];

/// Has the target do something to its buffer while profil stands still with ticks yet to be written.
fn with_ticks_in_hand(profil: &Path, target: &Target, command: u8) -> support_attach::Left {
    let running = Profil::attach(profil, target.pid(), &COUNTING);
    running.until_counting(target);
    freeze(running.pid());
    let_run(target.pid(), Duration::from_millis(100));
    target.obey(command, 0);
    thaw(running.pid());
    running.wait()
}

#[test]
fn a_buffer_made_read_only_is_not_written() {
    let name = "a_buffer_made_read_only_is_not_written";
    let Some(profil) = profil_or_skip(name) else { return };
    let mut target = Target::start(&fixed_target());
    let left = with_ticks_in_hand(&profil, &target, b'r');
    left.assert_conserved();
    assert_eq!(left.status, 1);
    let unwritten = left.json["outcomes"]["binned"].as_u64().expect("binned") - left.number("written");
    assert!(unwritten > 50, "{left:?}");
    let line = format!("profil: profiling is off: the buffer was made read-only; {unwritten} ticks were not written\n");
    assert!(left.stderr.contains(&line), "{left:?}");
    assert_eq!(target.sum(), left.number("written"));
    target.assert_unharmed();
}

#[test]
fn a_buffer_that_is_unmapped_turns_profiling_off() {
    let name = "a_buffer_that_is_unmapped_turns_profiling_off";
    let Some(profil) = profil_or_skip(name) else { return };
    let mut target = Target::start(&fixed_target());
    let left = with_ticks_in_hand(&profil, &target, b'u');
    left.assert_conserved();
    assert_eq!(left.status, 1);
    assert!(left.stderr.contains("profil: profiling is off: the buffer was unmapped; "), "{left:?}");
    target.assert_unharmed();
}

#[test]
fn shared_memory_mapped_over_the_buffer_is_not_written() {
    let name = "shared_memory_mapped_over_the_buffer_is_not_written";
    let Some(profil) = profil_or_skip(name) else { return };
    let mut target = Target::start(&fixed_target());
    let left = with_ticks_in_hand(&profil, &target, b'm');
    left.assert_conserved();
    assert_eq!(left.status, 1);
    assert!(left.stderr.contains("profil: profiling is off: shared memory was mapped over the buffer; "), "{left:?}");
    assert_eq!(target.sum(), 0);
    target.assert_unharmed();
}

/// Check that profil does not wait for pages that the target says to serve, and never does.
#[test]
fn pages_that_nobody_serves_do_not_hold_profil_up() {
    let name = "pages_that_nobody_serves_do_not_hold_profil_up";
    let Some(profil) = profil_or_skip(name) else { return };
    let mut target = Target::start(&fixed_target());
    if target.address("served") == 0 {
        skip(name, "the target cannot open a userfaultfd");
        return;
    }
    let left = with_ticks_in_hand(&profil, &target, b'v');
    left.assert_conserved();
    assert_eq!(left.status, 1);
    assert!(
        left.stderr.contains("profil: profiling is off: the kernel cannot write to the buffer any more; "),
        "{left:?}"
    );
    target.assert_unharmed();
}

/// A copy of the usual target, by which its exec is told.
fn copy_of_target(name: &str) -> PathBuf {
    let copy = scratch(name);
    std::fs::copy(fixed_target(), &copy).expect("the scratch directory is writable");
    copy
}

/// Check that the next image gets nothing, at whatever moment profil learns of it.
fn next_image_is_left_alone(profil: &Path, program: &Path) {
    let mut target = Target::start_with(&fixed_target(), &[program]);
    let running = Profil::attach(profil, target.pid(), &COUNTING);
    running.until_counting(&target);
    freeze(running.pid());
    let_run(target.pid(), Duration::from_millis(100));
    target.tell(b'e', 0);
    until("the new image runs", || {
        let exe = std::fs::read_link(format!("/proc/{}/exe", target.pid())).unwrap_or_default();
        exe == std::fs::canonicalize(program).expect("the program is there")
    });
    target.after_exec();
    until("the new image has started its rounds", || target.long("rounds") > 10);
    thaw(running.pid());
    let left = running.wait();
    left.assert_conserved();
    assert_eq!(left.status, 0, "{left:?}");
    assert!(
        left.stderr.contains("runs another program: profiling is off, and nothing was written into it; "),
        "{left:?}"
    );
    assert!(left.number("written") < left.json["outcomes"]["binned"].as_u64().expect("binned"), "{left:?}");
    let_run(target.pid(), Duration::from_millis(200));
    assert_eq!(target.sum(), 0);
    target.assert_unharmed();
}

#[test]
fn the_image_after_an_exec_is_left_alone() {
    let name = "the_image_after_an_exec_is_left_alone";
    let Some(profil) = profil_or_skip(name) else { return };
    next_image_is_left_alone(&profil, &copy_of_target("next"));
}

#[test]
fn a_set_uid_image_is_left_alone() {
    let name = "a_set_uid_image_is_left_alone";
    let Some(profil) = profil_or_skip(name) else { return };
    let program = copy_of_target("setuid");
    // Another user's, so that the exec changes what the process may do.
    std::os::unix::fs::chown(&program, Some(65534), Some(65534)).expect("the suite runs as root");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).expect("the file is ours");
    next_image_is_left_alone(&profil, &program);
}

/// Check attaching again and again to a process that does nothing but exec itself.
#[test]
fn an_exec_loop_receives_no_byte() {
    let name = "an_exec_loop_receives_no_byte";
    let Some(profil) = profil_or_skip(name) else { return };
    let program = build("attach_exec_loop.c", "exec-loop", &["-no-pie"]);
    let mut target = Target::start_with(&program, &[Path::new("first")]);
    let (buffer, text) = (format!("{:#x}", target.address("buf")), format!("{:#x}", target.address("text") & !0xfff));
    for round in 0..20 {
        let arguments: &[&str] = match round % 2 {
            0 => &["--buf", "buf", "--json", "-F", "1000", "-d", "150ms"],
            _ => &["--buf", &buffer, "--bufsiz", "65536", "--offset", &text, "--scale", "65536", "-d", "150ms"],
        };
        let left = Profil::attach(&profil, target.pid(), arguments).wait();
        assert_ne!(left.status, 2, "{left:?}");
        assert!(target.ended().is_none(), "an image found its buffer written to: {:?}", target.ended());
    }
}

/// Check the race of [`an_exec_loop_receives_no_byte`] at its worst moment: the exec comes right after the address
/// was looked up.
#[test]
fn an_exec_between_look_up_and_start_is_an_error() {
    let name = "an_exec_between_look_up_and_start_is_an_error";
    if profil_or_skip(name).is_none() {
        return;
    }
    let program = fixed_target();
    let mut target = Target::start_with(&program, &[&program]);
    let (process, space) = target.open();
    let config = config(&target);
    target.tell(b'e', 0);
    until("the old image is gone", || space.is_gone());
    let error = Attachment::start(process, space, &config).err().expect("the image is gone");
    assert!(matches!(error, AttachError::Exec { .. } | AttachError::Buffer { .. }), "{error:?}");
    target.after_exec();
    until("the new image has started its rounds", || target.long("rounds") > 10);
    assert_eq!(target.sum(), 0);
}

fn config(target: &Target) -> AttachConfig {
    let request = Request { offset: target.address("hot"), scale: 65536, bufsiz: BYTES, width: 2 };
    AttachConfig {
        convention: Convention::Bsd,
        request,
        buffer: Some(target.address("buf")),
        rate: Rate::new(1000.0).expect("a good rate"),
        recording: Recording::Off,
    }
}

#[test]
fn ticks_that_come_too_late_for_a_killed_target_are_said_to_be_unwritten() {
    let name = "ticks_that_come_too_late_for_a_killed_target_are_said_to_be_unwritten";
    if profil_or_skip(name).is_none() {
        return;
    }
    let mut target = Target::start(&movable_target());
    let (process, space) = target.open();
    let mut attachment = Attachment::start(process, space, &config(&target)).expect("a good request");
    until("there are ticks in the buffer", || {
        attachment.flush();
        target.sum() > 20
    });
    let written = target.sum();
    let_run(target.pid(), Duration::from_millis(100));
    target.kill();
    attachment.flush();
    assert!(matches!(attachment.end(), Some(End::Exited | End::Lost(Loss::Gone))), "{:?}", attachment.end());
    let report = attachment.stop().expect("the clock stops");
    assert!(report.adds_up(), "{report:?}");
    assert_eq!(report.written, Some(written));
    assert!(report.unwritten() > 50, "{report:?}");
    assert_eq!(report.end, Some(End::Exited));
}

#[test]
fn a_killed_target_is_said_to_have_exited() {
    let name = "a_killed_target_is_said_to_have_exited";
    let Some(profil) = profil_or_skip(name) else { return };
    let mut target = Target::start(&fixed_target());
    let running = Profil::attach(&profil, target.pid(), &COUNTING);
    running.until_counting(&target);
    target.kill();
    let left = running.wait();
    left.assert_conserved();
    assert_eq!(left.status, 0);
    assert!(left.stderr.contains(&format!("profil: process {} has exited", target.pid())), "{left:?}");
}

#[test]
fn a_process_that_gets_the_pid_is_left_alone() {
    let name = "a_process_that_gets_the_pid_is_left_alone";
    let Some(profil) = profil_or_skip(name) else { return };
    let mut old = Target::start(&fixed_target());
    let running = Profil::attach(&profil, old.pid(), &COUNTING);
    running.until_counting(&old);
    freeze(running.pid());
    let_run(old.pid(), Duration::from_millis(100));
    old.kill();
    let Some(new) = target_with_pid(old.pid()) else {
        skip(name, "/proc/sys/kernel/ns_last_pid cannot be written");
        return;
    };
    let_run(new.pid(), Duration::from_millis(200));
    thaw(running.pid());
    let left = running.wait();
    left.assert_conserved();
    assert!(left.stderr.contains("has exited; "), "{left:?}");
    assert_eq!(new.sum(), 0);
}

/// A target that has a PID which was another's. Others start processes meanwhile, so it may take many attempts.
fn target_with_pid(pid: u32) -> Option<Target> {
    for _ in 0..1000 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let target = Target::start(&fixed_target());
        if target.pid() == pid {
            return Some(target);
        }
    }
    panic!("1000 processes were started and none got the PID {pid}");
}

/// Check a process whose first thread has ended: /proc/PID has no memory then, but its threads have.
#[test]
fn a_process_without_its_first_thread_has_an_address_space() {
    let name = "a_process_without_its_first_thread_has_an_address_space";
    let Some(profil) = profil_or_skip(name) else { return };
    let program = build("attach_leaderless.c", "leaderless", &["-no-pie", "-pthread"]);
    let target = Target::start(&program);
    until("the first thread has ended", || state(target.pid()) == b'Z');
    let process = TargetProcess::open(target.pid()).expect("the process runs");
    let space = AddressSpace::of(&process, Purpose::Write).expect("the process runs");
    assert!(!space.is_gone());
    let running = Profil::attach(&profil, target.pid(), &COUNTING);
    let buffer = target.address("buf");
    let sum = || {
        let mut bytes = vec![0; BYTES as usize];
        space.read_at(&mut bytes, buffer).expect("the buffer is mapped");
        bytes.chunks_exact(2).map(|pair| u64::from(u16::from_ne_bytes([pair[0], pair[1]]))).sum::<u64>()
    };
    until("profil adds to the buffer", || sum() > 0);
    let left = running.stop();
    left.assert_all_written();
    assert_eq!(sum(), left.number("written"));
}

/// Check that a process which shares a fork's pages of the buffer keeps its own: only the target's are written.
#[test]
fn a_forked_child_keeps_its_own_copy() {
    let name = "a_forked_child_keeps_its_own_copy";
    let Some(profil) = profil_or_skip(name) else { return };
    let mut target = Target::start(&fixed_target());
    let running = Profil::attach(&profil, target.pid(), &COUNTING);
    running.until_counting(&target);
    target.obey(b'k', 0);
    let child = target.long("child") as u32;
    running.until_counting(&target);
    let sum_of_child = sum_of(child, target.address("buf"));
    running.until_counting(&target);
    assert_eq!(sum_of(child, target.address("buf")), sum_of_child);
    let left = running.stop();
    left.assert_all_written();
    assert_eq!(target.sum(), left.number("written"));
    signal(child, libc::SIGKILL);
    target.assert_unharmed();
}

fn sum_of(pid: u32, buffer: u64) -> u64 {
    let space = AddressSpace::open(pid, Purpose::Write).expect("the child runs");
    let mut bytes = vec![0; BYTES as usize];
    space.read_at(&mut bytes, buffer).expect("the buffer is mapped");
    bytes.chunks_exact(2).map(|pair| u64::from(u16::from_ne_bytes([pair[0], pair[1]]))).sum()
}
