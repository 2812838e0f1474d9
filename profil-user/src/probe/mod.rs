//! What this kernel and this user can do, found by trying it: versions lie, since distributions carry features back.

pub mod btf;
