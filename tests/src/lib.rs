//! Support for the suite that needs root and a kernel.
