//! The `profil` command.
fn main() {}
