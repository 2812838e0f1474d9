//! Attacks the service as a user without rights: `attacker SOCKET ATTACK [ARGUMENT...]`.
//!
//! Prints one line for each thing that happened: its name, and an errno (0: it was let pass; -1: the connection was
//! closed) or a count.
#![expect(clippy::print_stdout, reason = "the suite reads it")]

mod buffers;
mod connection;
mod deaths;
mod floods;
mod fork;
mod identity;
mod limits;
mod messages;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, attack, rest @ ..] = &arguments[..] else {
        return Err(std::io::Error::other("SOCKET and ATTACK are wanted"));
    };
    let path = Path::new(socket);
    let argument = rest.first().map_or("", String::as_str);
    match attack.as_str() {
        "malformed" => messages::malformed(path),
        "replayed" => messages::replayed(path),
        "with-descriptors" => messages::with_descriptors(path),
        "lingering" => messages::lingering(path),
        "impostors" => identity::impostors(path),
        "set-uid-relay" => identity::set_uid_relay(path, argument),
        "exec-meanwhile" => identity::exec_meanwhile(path, argument),
        "exec-under-way" => identity::exec_under_way(path),
        "reply" => identity::reply(argument),
        "buffers" => buffers::all(path),
        "userfaultfd" => buffers::userfaultfd(path),
        "fuse" => buffers::fuse(path, argument),
        "fuse-park" => buffers::fuse_park(path, argument),
        "park" => buffers::park(path),
        "too-large" => limits::too_large(path),
        "hold-lanes" => limits::hold_lanes(path, argument),
        "hold-small-lanes" => limits::hold_small_lanes(path),
        "clients" => limits::clients(path, argument),
        "connections" => limits::connections(path, argument),
        "deaths" => deaths::at_every_step(path),
        "stops" => deaths::stops(path),
        "flood" => floods::flood(path, argument),
        other => Err(std::io::Error::other(format!("no attack {other}"))),
    }
}

/// Prints what happened.
fn tell(name: &str, value: impl Into<i64>) {
    println!("{name} {}", value.into());
}

/// Says that the attack is under way, and goes on until standard input ends.
fn hold() {
    println!("ready");
    // The suite closes it, or is gone.
    let _end = std::io::Read::read(&mut std::io::stdin(), &mut [0]);
}
