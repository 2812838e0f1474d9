//! Builds, checks and tests profil.
fn main() {}
