//! Where windows and profiles go.
