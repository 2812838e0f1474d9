//! How libprofil.so is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A program linked with -lprofil asks for this name.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libprofil.so");
    // Handlers of fork(2) and addresses of libc's functions outlive a dlclose(3).
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
