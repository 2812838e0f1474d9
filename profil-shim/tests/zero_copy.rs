//! The kernel's array in the place of a buffer; a memfd stands for the array.

mod support;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use profil_common::wire::{Reply, call_flags, reply_flags};
use rustix::fs::{MemfdFlags, memfd_create};
use support::program::Run;
use support::service::{Answer, ON, Received, Service, obliging};

const PAGES_BYTES: u64 = 8192;
const MAPPED: Reply = Reply { flags: reply_flags::ON | reply_flags::ZERO_COPY, ..ON };

/// An array of counters of 0, as large as the buffer of `on-pages`.
fn array(bytes: u64) -> File {
    let file = File::from(memfd_create("profil-array", MemfdFlags::CLOEXEC).expect("a memfd"));
    file.set_len(bytes).expect("room");
    file
}

/// Gives the array whenever it is asked for, and counts into it before it does.
fn giving(array: &File, count: u16) -> impl FnMut(&Received) -> Answer + Send + 'static {
    let array = array.try_clone().expect("a descriptor");
    move |received| {
        if received.call.flags & call_flags::ZERO_COPY == 0 {
            return obliging(received);
        }
        array.write_all_at(&count.to_ne_bytes(), 0).expect("room");
        Answer::WithDescriptor(MAPPED, OwnedFd::from(array.try_clone().expect("a descriptor")))
    }
}

fn run(service: &Service, arguments: &str) -> Vec<String> {
    let run = Run::calls().env("PROFIL_SOCKET", service.socket());
    run.env("PROFIL_ZEROCOPY", "1").args(arguments).lines()
}

fn first(array: &File) -> u16 {
    let mut bytes = [0; 2];
    array.read_exact_at(&mut bytes, 0).expect("a counter");
    u16::from_ne_bytes(bytes)
}

#[test]
fn counts_appear_without_being_copied_until_off() {
    let array = array(PAGES_BYTES);
    let service = Service::start(giving(&array, 41));
    // pages[1] holds 5 before the call: nothing is zeroed, and what the kernel has counted meanwhile is not lost.
    let lines = run(&service, "on-pages mapped await 41 first off mapped first store 9 first");
    let wanted =
        ["on-pages: 0 77", "mapped: 1", "await: 41", "first: 0 41 5", "off: 0 77", "mapped: 0", "first: 0 41 5"];
    assert_eq!(lines[..7], wanted);
    // What the program writes after off stays its own.
    assert_eq!((lines[7].as_str(), first(&array)), ("first: 0 9 5", 41));
}

#[test]
fn a_replacing_call_gives_the_old_buffer_back() {
    let array = array(PAGES_BYTES);
    let service = Service::start(giving(&array, 3));
    let lines = run(&service, "on-pages on mapped store 9 first");
    assert_eq!(lines[2..], ["mapped: 0", "first: 0 9 5"]);
    assert_eq!(first(&array), 3);
}

#[test]
fn a_call_that_is_refused_while_the_old_one_stays_on_keeps_the_array() {
    let array = array(PAGES_BYTES);
    let mut give = giving(&array, 3);
    let answer = move |received: &Received| match received.areas[0].scale {
        65_537 => Answer::Reply(Reply { errno: 22, ..ON }),
        _ => give(received),
    };
    let service = Service::start(answer);
    assert_eq!(run(&service, "on-pages profil buf 64 0 65537 mapped")[1..], ["profil: -1 22", "mapped: 1"]);
}

#[test]
fn a_second_call_for_the_same_buffer_adds_up() {
    let array = array(PAGES_BYTES);
    let service = Service::start(giving(&array, 3));
    // The array is the same, and set to 3 again: 3 and the 3 that the buffer had, 5 and 5 that array and buffer had.
    let lines = run(&service, "on-pages on-pages first off first mapped");
    assert_eq!(lines[2..], ["first: 0 6 10", "off: 0 77", "first: 0 6 10", "mapped: 0"]);
}

#[test]
fn a_forked_child_has_a_copy_of_its_own() {
    let array = array(PAGES_BYTES);
    let service = Service::start(giving(&array, 3));
    let lines = run(&service, "on-pages fork mapped store 9 first");
    assert_eq!(lines, ["on-pages: 0 77", "child: 77", "mapped: 0", "first: 0 9 5", "parent: 0"]);
    assert_eq!(first(&array), 3);
}

#[test]
fn a_service_that_is_gone_takes_its_array_along() {
    let array = array(PAGES_BYTES);
    let service = Service::start(giving(&array, 3));
    let lines = run(&service, &format!("on-pages unlink {} off mapped first", service.socket().display()));
    assert_eq!(lines[1..], ["off: -1 2", "mapped: 0", "first: 0 3 5"]);
}

#[test]
fn only_whole_pages_are_asked_for() {
    let service = Service::start(obliging);
    let calls = "on profil pages 8190 0 65536 profil pages 0 0 65536 on-pages sprofil 1 0 off";
    run(&service, calls);
    let flags: Vec<_> = service.received().iter().map(|received| received.call.flags).collect();
    assert_eq!(flags, [0, 0, 0, call_flags::ZERO_COPY, 0, 0]);
}

#[test]
fn nothing_is_asked_for_unless_wanted() {
    let service = Service::start(obliging);
    let run = Run::calls().env("PROFIL_SOCKET", service.socket());
    run.env("PROFIL_ZEROCOPY", "yes").args("on-pages").lines();
    assert_eq!(service.received()[0].call.flags, 0);
}

#[test]
fn what_cannot_be_mapped_is_copied() {
    let array = File::open("/dev/null").expect("a file that cannot be mapped");
    let service = Service::start(move |received| {
        if received.call.flags & call_flags::ZERO_COPY == 0 {
            return obliging(received);
        }
        Answer::WithDescriptor(MAPPED, OwnedFd::from(array.try_clone().expect("a descriptor")))
    });
    assert_eq!(run(&service, "on-pages first"), ["on-pages: 0 77", "first: 0 0 5"]);
    let flags: Vec<_> = service.received().iter().map(|received| received.call.flags).collect();
    assert_eq!(flags, [call_flags::ZERO_COPY, 0]);
}
