//! What the tests of libprofil.so stand on: a service that does as it is told, and C programs.

#![allow(dead_code, reason = "each test binary uses its part of it")]

pub mod program;
pub mod service;
