//! What the service refuses, with what errno, and what it says of it. Every attack is made by a user without rights, and
//! leaves nothing behind.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use profil_tests::attacker::{self, Attack, Attacker};
use profil_tests::{Daemon, Scratch, feature};

const EPERM: i64 = libc::EPERM as i64;
const EAGAIN: i64 = libc::EAGAIN as i64;
const ENOMEM: i64 = libc::ENOMEM as i64;
const EFAULT: i64 = libc::EFAULT as i64;
const EINVAL: i64 = libc::EINVAL as i64;
const EPROTONOSUPPORT: i64 = libc::EPROTONOSUPPORT as i64;

/// Bins of the largest size that a process may have at a time, in lanes: 8 MiB.
const LARGEST_IN_PROCESS: i64 = 8;

/// A service, and somebody to attack it.
struct Scene {
    scratch: Scratch,
    daemon: Daemon,
    attacker: Attacker,
}

fn scene() -> Scene {
    let scratch = Scratch::new();
    let daemon = Daemon::start(&scratch);
    let attacker = Attacker::new(&scratch, env!("CARGO_BIN_EXE_attacker"), daemon.socket());
    Scene { scratch, daemon, attacker }
}

/// Makes an attack to its end, sees that nothing of it is left, and returns what happened and what the service said.
fn attack(scene: Scene, attack: &[&str]) -> (attacker::Happened, String) {
    let Scene { scratch: _scratch, mut daemon, attacker } = scene;
    let before = daemon.descriptors();
    let happened = attacker.run(attack);
    daemon.await_calm(before);
    (happened, daemon.stop())
}

#[test]
fn malformed_short_oversized_and_unknown_messages_are_refused() {
    let (happened, log) = attack(scene(), &["malformed"]);
    let expected = [
        ("good", 0),
        ("empty", EINVAL),
        ("short", EINVAL),
        ("one_byte_less", EINVAL),
        ("one_byte_more", EINVAL),
        ("area_missing", EINVAL),
        ("area_too_many", EINVAL),
        ("areas_beyond_any_message", EINVAL),
        ("oversized", EINVAL),
        ("hugely_oversized", EINVAL),
        ("unknown_magic", EINVAL),
        ("unknown_version", EPROTONOSUPPORT),
        ("unknown_kind", EINVAL),
        ("unknown_convention", EINVAL),
        ("unknown_width", EINVAL),
        ("scale_of_64_bits", EINVAL),
    ];
    assert_eq!(happened.iter().collect::<Vec<_>>(), expected);
    assert!(log.contains("refused a call: a message of 39 bytes is no call"), "{log}");
    assert!(log.contains("15 calls refused"), "{log}");
}

#[test]
fn replayed_messages_are_refused() {
    let (happened, log) = attack(scene(), &["replayed"]);
    let expected = [
        ("nonce_of_another_connection", EPERM),
        ("served_of_two_uses", 1),
        ("old_nonce", EPERM),
        ("nonce_of_the_refused", EPERM),
        ("no_nonce", EPERM),
    ];
    assert_eq!(happened.iter().collect::<Vec<_>>(), expected);
    assert!(log.contains("refused a call: a replayed message"), "{log}");
}

#[test]
fn descriptors_sent_to_the_service_are_closed() {
    let (happened, _) = attack(scene(), &["with-descriptors"]);
    // From Linux 6.16 on the kernel keeps them from us.
    let expected = if feature::refuses_descriptors() { EPERM } else { 0 };
    assert_eq!(happened.all("errno"), [expected; 50]);
    assert_eq!(happened.one("afterwards"), 0);
}

/// Check that nobody makes the service close what takes an hour. Depends on `SO_PASSRIGHTS`.
#[test]
fn a_descriptor_that_lingers_when_it_is_closed_keeps_nobody_waiting() {
    const TEST: &str = "a_descriptor_that_lingers_when_it_is_closed_keeps_nobody_waiting";
    if !feature::refuses_descriptors() {
        return feature::skip_for_kernel(TEST, "this kernel has no SO_PASSRIGHTS");
    }
    let Scene { scratch: _scratch, mut daemon, attacker } = scene();
    let before = daemon.descriptors();
    let lingering = attacker.start(attacker::UID, &["lingering"]);
    let other = attacker.start(65_533, &["clients", "1"]);
    assert_eq!(other.happened.all("errno"), [0], "another user is served");
    assert_eq!(lingering.happened.one("sent"), EPERM);
    drop((lingering, other));
    daemon.await_calm(before);
    daemon.stop();
}

/// Check that a map which the kernel closes to the service fails one call and no more. Depends on nothing but bpf(2).
#[test]
fn a_map_that_takes_nothing_more_fails_the_call_and_not_the_service() {
    let Scene { scratch: _scratch, mut daemon, attacker } = scene();
    let before = daemon.descriptors();
    let first = attacker.start(attacker::UID, &["clients", "1"]);
    assert_eq!(first.happened.all("errno"), [0]);
    drop(first);
    daemon.await_calm(before);
    daemon.freeze_map(RANGES_BYTES);
    let later = attacker.start(attacker::UID, &["clients", "2"]);
    assert_eq!(later.happened.all("errno"), [libc::EIO as i64; 2]);
    assert_eq!(attacker.run(&["malformed"]).one("good"), 0, "turning off is possible");
    drop(later);
    daemon.await_calm(before);
    daemon.stop();
}

/// Bytes of the ranges of one process, by which their map is known.
const RANGES_BYTES: usize = size_of::<profil_common::RangeTable>();

#[test]
fn one_user_leaves_descriptors_for_others_where_there_are_few() {
    let scratch = Scratch::new();
    let mut daemon = Daemon::with_descriptors(&scratch, 1024);
    let attacker = Attacker::new(&scratch, env!("CARGO_BIN_EXE_attacker"), daemon.socket());
    let before = daemon.descriptors();
    let clients = attacker.start(attacker::UID, &["clients", "258"]);
    assert_eq!(clients.happened.all("errno"), [EAGAIN; 4]);
    let other = attacker.start(65_533, &["clients", "1"]);
    assert_eq!(other.happened.all("errno"), [0], "another user is served: {}", daemon.log());
    drop((clients, other));
    daemon.await_calm(before);
    assert!(!daemon.stop().contains("cannot accept"), "there were descriptors all the time");
}

#[test]
fn a_user_keeps_at_most_256_lanes_that_are_off() {
    let Scene { scratch: _scratch, mut daemon, attacker } = scene();
    let before = daemon.descriptors();
    let holder = attacker.start(attacker::UID, &["hold-small-lanes"]);
    let held = holder.happened.one("held");
    // The last one is on, and those that went off since the last flush are not seen yet.
    assert!((257..320).contains(&held), "{held}");
    assert_eq!(holder.happened.one("errno"), 0, "then bins are copied");
    drop(holder);
    daemon.await_calm(before);
    daemon.stop();
}

#[test]
fn a_sender_that_is_not_the_connections_process_is_refused() {
    let (happened, log) = attack(scene(), &["impostors"]);
    let expected = [
        ("forked_child", EPERM),
        ("passed_descriptor", EPERM),
        ("child_of_one_who_is_gone", EPERM),
        ("forged_credentials_by_the_kernel", EPERM),
        ("the_one_who_connected", 0),
    ];
    assert_eq!(happened.iter().collect::<Vec<_>>(), expected);
    assert!(log.contains("sent a message on the connection of process"), "{log}");
}

/// A set-uid program of root's that passes words on.
fn relay(scratch: &Scratch) -> String {
    let relay = scratch.build_as("set_uid_relay", "set_uid_relay", &["-no-pie"]);
    fs::set_permissions(&relay, fs::Permissions::from_mode(0o4755)).expect("chmod of our own file");
    relay.to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn a_set_uid_program_that_passes_a_call_on_is_not_written_into() {
    let mut scene = scene();
    let relay = relay(&scene.scratch);
    let before = scene.daemon.descriptors();
    // So that the exec comes before the service looks who has connected.
    scene.daemon.freeze();
    let attack = scene.attacker.start(attacker::UID, &["set-uid-relay", &relay]);
    scene.daemon.signal(libc::SIGCONT);
    let happened = attack.end();
    assert_eq!((happened.one("touched"), happened.one("errno")), (0, EPERM));
    scene.daemon.await_calm(before);
    let log = scene.daemon.stop();
    assert!(log.contains("refused a call: cannot serve process"), "{log}");
}

#[test]
fn a_caller_that_execs_a_set_uid_program_meanwhile_is_not_written_into() {
    let scene = scene();
    let relay = relay(&scene.scratch);
    let (happened, _) = attack(scene, &["exec-meanwhile", &relay]);
    assert_eq!(happened.all("touched"), [0; 40]);
    assert_eq!(happened.all("failed"), [0; 0]);
}

/// Check that an exec is seen while a call is under way and another has turned profiling off. Depends on the process
/// staying known to the hooks meanwhile: else the second call is judged by what the new program has at its address.
#[test]
fn a_caller_that_execs_while_one_call_is_under_way_and_another_turned_off_is_gone() {
    let (happened, _) = attack(scene(), &["exec-under-way"]);
    let expected = [("on", 0), ("unchanged", EINVAL), ("errno", libc::ESRCH as i64)];
    assert_eq!(happened.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn buffers_outside_the_callers_private_writable_memory_are_refused() {
    let (happened, _) = attack(scene(), &["buffers"]);
    for (name, value) in happened.iter() {
        let expected = match name.strip_suffix("_by_glibc") {
            // 1: on.
            Some("private" | "private_file") => 1,
            // By glibc's manual page the call succeeds, and counts nothing.
            Some(_) => 0,
            None if name.starts_with("private") => 0,
            None => EFAULT,
        };
        assert_eq!(value, expected, "{name} in {happened:?}");
    }
    assert_eq!(happened.iter().count(), 2 * 14);
}

/// Makes the attack with `/dev/userfaultfd` as its standard error.
fn with_userfaultfd(test: &str, scene: &Scene, attack: &[&str]) -> Option<Command> {
    const PATH: &str = "/dev/userfaultfd";
    if !feature::has_file(test, PATH) {
        return None;
    }
    let mut command = scene.attacker.command(attacker::UID, attack);
    command.stderr(fs::OpenOptions::new().read(true).write(true).open(PATH).expect("root may open it"));
    Some(command)
}

#[test]
fn a_buffer_whose_page_faults_user_space_serves_is_refused() {
    const TEST: &str = "a_buffer_whose_page_faults_user_space_serves_is_refused";
    let mut scene = scene();
    let before = scene.daemon.descriptors();
    let Some(mut command) = with_userfaultfd(TEST, &scene, &["userfaultfd"]) else {
        return;
    };
    let output = command.output().expect("the attacker runs");
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).expect("UTF-8 from the attacker");
    assert_eq!(text, format!("userfaultfd {EFAULT}\nuserfaultfd_by_glibc 0\n"));
    scene.daemon.await_calm(before);
    scene.daemon.stop();
}

#[test]
fn a_buffer_of_a_file_whose_pages_user_space_serves_is_refused() {
    const TEST: &str = "a_buffer_of_a_file_whose_pages_user_space_serves_is_refused";
    let mut scene = scene();
    let Some(fuse) = feature::fuse(TEST, &scene.scratch) else { return };
    let before = scene.daemon.descriptors();
    let file = fuse.file();
    let mut command = scene.attacker.command(attacker::UID, &["fuse", file.to_str().expect("a path in UTF-8")]);
    let output = command.output().expect("the attacker runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8 from the attacker");
    assert_eq!(text, format!("fuse {EFAULT}\nfuse_by_glibc 0\n"), "{}", output.status);
    scene.daemon.await_calm(before);
    scene.daemon.stop();
}

/// Check that a copier which no signal ends is given up, and that another user is served meanwhile. Depends on copiers of
/// their own for each user: a service that writes itself hangs here until the file system is gone.
#[test]
fn a_client_whose_pages_never_come_is_dropped() {
    const TEST: &str = "a_client_whose_pages_never_come_is_dropped";
    let mut scene = scene();
    let Some(fuse) = feature::fuse(TEST, &scene.scratch) else { return };
    let before = scene.daemon.descriptors();
    let file = fuse.file();
    let parked =
        Attack::of(scene.attacker.command(attacker::UID, &["fuse-park", file.to_str().expect("a path in UTF-8")]));
    assert_eq!(parked.happened.one("on"), 0);
    profil_tests::patience::until("the service drops the client", || {
        scene.daemon.log().contains("profiling of process").then_some(())
    });
    let other = scene.attacker.start(65_533, &["clients", "1"]);
    assert_eq!(other.happened.all("errno"), [0], "another user is served");
    drop((other, parked, fuse));
    scene.daemon.await_calm(before);
    scene.daemon.stop();
}

/// Check that a copier which cannot go on is ended, and that others are served meanwhile. Depends on copiers of their own
/// for each user: a service that writes itself hangs here.
#[test]
fn a_client_that_parks_its_copier_is_dropped() {
    const TEST: &str = "a_client_that_parks_its_copier_is_dropped";
    let mut scene = scene();
    let before = scene.daemon.descriptors();
    let Some(command) = with_userfaultfd(TEST, &scene, &["park"]) else {
        return;
    };
    let parked = Attack::of(command);
    assert_eq!(parked.happened.one("on"), 0);
    profil_tests::patience::until("the service drops the client", || {
        scene.daemon.log().contains("profiling of process").then_some(())
    });
    assert_eq!(scene.attacker.run(&["malformed"]).one("good"), 0, "the same user is served again");
    drop(parked);
    scene.daemon.await_calm(before);
    scene.daemon.stop();
}

#[test]
fn buffers_beyond_what_a_process_may_have_are_refused() {
    let (happened, _) = attack(scene(), &["too-large"]);
    let expected = [("one_bin_more", ENOMEM), ("all_memory", ENOMEM), ("many_areas", ENOMEM), ("many_regions", EINVAL)];
    assert_eq!(happened.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn bins_count_for_their_process_their_user_and_all_until_they_are_gone() {
    let Scene { scratch: _scratch, mut daemon, attacker } = scene();
    let before = daemon.descriptors();
    let users = [65_530, 65_531, 65_532, 65_533];
    let holders: Vec<Attack> = users
        .iter()
        .map(|uid| {
            let holder = attacker.start(*uid, &["hold-lanes", "5"]);
            // 64 MiB for each process, and 256 MiB for the user: the fifth gets nothing.
            assert_eq!(
                holder.happened.all("held"),
                [[LARGEST_IN_PROCESS; 4].as_slice(), &[0]].concat(),
                "{}",
                daemon.log()
            );
            assert_eq!(holder.happened.all("errno"), [ENOMEM; 5]);
            holder
        })
        .collect();
    // 1 GiB is taken.
    let late = attacker.start(attacker::UID, &["hold-lanes", "1"]);
    assert_eq!((late.happened.one("held"), late.happened.one("errno")), (0, ENOMEM));
    drop((holders, late));
    profil_tests::patience::until("the memory is free again", || {
        let holder = attacker.start(attacker::UID, &["hold-lanes", "1"]);
        (holder.happened.one("held") == LARGEST_IN_PROCESS).then_some(())
    });
    daemon.await_calm(before);
    let log = daemon.stop();
    assert!(log.contains("that a process may have"), "{log}");
}

#[test]
fn a_user_has_at_most_256_profiled_processes() {
    let Scene { scratch: _scratch, mut daemon, attacker } = scene();
    let before = daemon.descriptors();
    let clients = attacker.start(attacker::UID, &["clients", "258"]);
    assert_eq!(clients.happened.all("errno"), [0, 0, EAGAIN, EAGAIN]);
    let other = attacker.start(65_533, &["clients", "1"]);
    assert_eq!(other.happened.all("errno"), [0], "another user is served");
    drop((clients, other));
    daemon.await_calm(before);
    assert!(daemon.stop().contains("user 65534 has 256 profiled processes already"));
}

#[test]
fn a_user_has_at_most_32_connections() {
    let Scene { scratch: _scratch, mut daemon, attacker } = scene();
    let before = daemon.descriptors();
    let connections = attacker.start(attacker::UID, &["connections", "40"]);
    assert_eq!((connections.happened.one("greeted"), connections.happened.one("errno")), (32, 0));
    let other = attacker.start(65_533, &["connections", "1"]);
    assert_eq!(other.happened.one("greeted"), 1, "another user is served");
    // Nobody hung up: the service does, when no call comes.
    daemon.await_calm(before);
    drop((connections, other));
    let log = daemon.stop();
    assert!(log.contains("put off a connection of user 65534, who has 32 already"), "{log}");
    assert!(log.contains("no call came within"), "{log}");
}
