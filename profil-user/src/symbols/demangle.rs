//! Readable names of mangled Rust and C++ symbols.

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

use crate::profile::Frame;

/// Longest mangled and longest readable name, bytes: a C++ name of a hundred bytes can stand for one of gigabytes.
const LENGTH_LIMIT: usize = 16 * 1024;
/// Deepest nesting; the demangler recurses.
const DEPTH_LIMIT: u32 = 96;

/// The readable form of a mangled name; `None` when it is not mangled, or too long.
pub fn demangle(name: &str) -> Option<String> {
    if name.len() > LENGTH_LIMIT {
        return None;
    }
    // Rust first: its old names are valid C++ ones, with a hash for a last component.
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        let mut text = Bounded::default();
        return write!(text, "{rust:#}").is_ok().then_some(text.0);
    }
    if !name.starts_with("_Z") && !name.starts_with("__Z") {
        return None;
    }
    let symbol = Symbol::new_with_options(name, &ParseOptions::default().recursion_limit(DEPTH_LIMIT)).ok()?;
    let mut text = Bounded::default();
    symbol.structured_demangle(&mut text, &DemangleOptions::new().recursion_limit(DEPTH_LIMIT)).ok()?;
    Some(text.0)
}

/// A frame named by a symbol, with no place in the source.
pub fn frame(symbol: &str) -> Frame {
    match demangle(symbol) {
        Some(function) if function != symbol => {
            Frame { function, system_name: Some(symbol.to_owned()), file: None, line: 0 }
        }
        _ => Frame { function: symbol.to_owned(), system_name: None, file: None, line: 0 },
    }
}

/// Text that refuses to grow past the limit.
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LENGTH_LIMIT {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rust_and_cpp_names_become_readable() {
        for (mangled, readable) in [
            ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN3foo3barEi", "foo::bar(int)"),
            ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back(int&&)"),
        ] {
            assert_eq!(demangle(mangled).as_deref(), Some(readable), "{mangled}");
            assert_eq!(frame(mangled).system_name.as_deref(), Some(mangled));
        }
    }

    #[test]
    fn plain_names_stay_as_they_are() {
        for name in ["main", "_init", "", "_Z", "Zürich", "foo.constprop.0"] {
            assert_eq!(demangle(name), None, "{name}");
            assert_eq!(frame(name).system_name, None);
        }
    }

    #[test]
    fn names_that_expand_without_end_are_left_mangled() {
        // Each parameter is a function type that takes the one before twice: 2^n parts.
        let mut name = String::from("_Z1fFivE");
        for index in 0..40 {
            let index = char::from_digit(index % 36, 36).expect("a digit").to_ascii_uppercase();
            write!(name, "FvS{index}_S{index}_E").expect("a string takes it all");
        }
        assert!(demangle(&name).is_none_or(|text| text.len() <= LENGTH_LIMIT));
        assert_eq!(demangle(&format!("_Z{}", "N".repeat(100_000))), None);
    }

    proptest! {
        #[test]
        fn no_name_makes_it_panic(name in "(_Z|_R|__Z)[A-Za-z0-9_.$]{0,80}") {
            let _ = demangle(&name);
        }
    }
}
