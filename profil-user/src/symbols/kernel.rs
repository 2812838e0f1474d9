//! Names of kernel code, from `/proc/kallsyms`.
//!
//! The addresses are those of this boot: with KASLR they mean nothing on another machine or after a restart.

use std::io;

use super::elf_headers;
use crate::build_id::BuildId;
use crate::profile::Frame;

/// Why kernel code cannot be named.
#[derive(Debug, thiserror::Error)]
pub enum KernelSymbolsError {
    /// The kernel has no `/proc/kallsyms`, or it cannot be read.
    #[error("cannot read /proc/kallsyms; the kernel may have been built without CONFIG_KALLSYMS")]
    Read {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// All addresses are zero.
    #[error(
        "cannot name kernel code: the addresses in /proc/kallsyms are hidden (kernel.kptr_restrict is {kptr_restrict}); \
         run as root and `sysctl kernel.kptr_restrict=1`"
    )]
    Restricted {
        /// The setting: 2 hides them from everybody, others from those without CAP_SYSLOG.
        kptr_restrict: String,
    },
}

/// The functions of the running kernel and its modules.
#[derive(Debug)]
pub struct KernelSymbols {
    /// Names, zero-terminated.
    names: Vec<u8>,
    /// Sorted by address; one entry per address.
    entries: Vec<Entry>,
    modules: Vec<Module>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    /// Offset in `names`; `None` where data begins, which ends the function before.
    name: Option<u32>,
    /// Index in `modules`.
    module: Option<u32>,
}

#[derive(Debug)]
struct Module {
    name: String,
    /// First address past it, where `/proc/modules` says.
    end: Option<u64>,
}

/// A kernel function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSymbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// First address.
    pub address: u64,
    /// The module that it is from; `bpf` for programs; `None` for the kernel proper.
    pub module: Option<&'a str>,
}

impl KernelSymbols {
    /// Reads the symbols of the running kernel.
    ///
    /// # Errors
    /// [`KernelSymbolsError`].
    pub fn of_this_boot() -> Result<KernelSymbols, KernelSymbolsError> {
        let text = std::fs::read("/proc/kallsyms").map_err(|source| KernelSymbolsError::Read { source })?;
        // A kernel without modules has no such file.
        let modules = std::fs::read("/proc/modules").unwrap_or_default();
        let symbols = KernelSymbols::parse(&text, &modules);
        if symbols.entries.is_empty() {
            let setting = std::fs::read_to_string("/proc/sys/kernel/kptr_restrict").unwrap_or_default();
            return Err(KernelSymbolsError::Restricted { kptr_restrict: setting.trim().to_owned() });
        }
        Ok(symbols)
    }

    /// Parses the text of `/proc/kallsyms` and `/proc/modules`; lines in another form are passed over.
    ///
    /// Symbols at address 0 are left out: either the addresses are hidden, or it is an offset in per-CPU data.
    pub fn parse(kallsyms: &[u8], modules: &[u8]) -> KernelSymbols {
        let mut symbols = KernelSymbols { names: Vec::new(), entries: Vec::new(), modules: parse_modules(modules) };
        for line in kallsyms.split(|byte| *byte == b'\n') {
            symbols.add(line);
        }
        // Of several names at one address a function comes before data; after that, the first in the file stays.
        symbols.entries.sort_by_key(|entry| (entry.address, entry.name.is_none()));
        symbols.entries.dedup_by_key(|entry| entry.address);
        symbols
    }

    fn add(&mut self, line: &[u8]) -> Option<()> {
        let mut fields = str::from_utf8(line).ok()?.split_ascii_whitespace();
        let address = u64::from_str_radix(fields.next()?, 16).ok().filter(|address| *address != 0)?;
        let kind = fields.next()?;
        let name = fields.next()?;
        let module = fields.next().and_then(|field| field.strip_prefix('[')?.strip_suffix(']'));
        let module = module.map(|module| {
            self.modules.iter().position(|known| known.name == module).unwrap_or_else(|| {
                self.modules.push(Module { name: module.to_owned(), end: None });
                self.modules.len() - 1
            }) as u32
        });
        // The linker's own labels for the end of the code are of type T too.
        let is_function = matches!(kind, "t" | "T" | "w" | "W") && !matches!(name, "_etext" | "_einittext");
        let name = is_function
            .then(|| {
                let offset = u32::try_from(self.names.len()).ok();
                self.names.extend_from_slice(name.as_bytes());
                self.names.push(0);
                offset
            })
            .flatten();
        self.entries.push(Entry { address, name, module });
        Some(())
    }

    /// The function that an address is in.
    pub fn symbol(&self, address: u64) -> Option<KernelSymbol<'_>> {
        let index = self.entries.partition_point(|entry| entry.address <= address).checked_sub(1)?;
        let entry = self.entries[index];
        let module = entry.module.map(|module| &self.modules[module as usize]);
        if module.and_then(|module| module.end).is_some_and(|end| address >= end) {
            return None;
        }
        let name = str::from_utf8(elf_headers::string_at(&self.names, entry.name? as usize, usize::MAX)).ok()?;
        Some(KernelSymbol { name, address: entry.address, module: module.map(|module| module.name.as_str()) })
    }

    /// The frames at an address: one, or none when no function is known there.
    pub fn frames(&self, address: u64) -> Vec<Frame> {
        let frame = |symbol: KernelSymbol<'_>| Frame {
            function: symbol.name.to_owned(),
            system_name: None,
            file: None,
            line: 0,
        };
        self.symbol(address).map(frame).into_iter().collect()
    }
}

/// Lines such as `ext4 1048576 1 - Live 0xffffffffc0000000`.
fn parse_modules(text: &[u8]) -> Vec<Module> {
    let line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let name = fields.next()?.to_owned();
        let size: u64 = fields.next()?.parse().ok()?;
        let start = fields.nth(3).and_then(|start| u64::from_str_radix(start.strip_prefix("0x")?, 16).ok());
        let end = start.filter(|start| *start != 0).and_then(|start| start.checked_add(size));
        Some(Module { name, end })
    };
    String::from_utf8_lossy(text).lines().filter_map(line).collect()
}

/// Build ID of the running kernel, from `/sys/kernel/notes`.
pub fn build_id() -> Option<BuildId> {
    elf_headers::build_id_in_notes(&std::fs::read("/sys/kernel/notes").ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KALLSYMS: &[u8] = b"\
0000000000000000 A fixed_percpu_data\n\
ffffffff81000000 T _stext\n\
ffffffff81000000 T _text\n\
ffffffff81000100 t do_one_initcall\n\
ffffffff81000180 W weak_one\n\
ffffffff81001000 T _etext\n\
ffffffff82000000 D jiffies\n\
ffffffffc0000000 t ext4_read\t[ext4]\n\
ffffffffc0000800 d ext4_data\t[ext4]\n\
ffffffffc0001000 t bpf_prog_6deef7357e7b4530_tick\t[bpf]\n\
garbage\n";
    const MODULES: &[u8] = b"ext4 1536 1 - Live 0xffffffffc0000000\nlost\n";

    #[test]
    fn an_address_gets_the_function_before_it() {
        let symbols = KernelSymbols::parse(KALLSYMS, MODULES);
        for (address, expected) in [
            (0xffff_ffff_8000_0000, None),
            (0xffff_ffff_8100_0000, Some(("_stext", None))),
            (0xffff_ffff_8100_017f, Some(("do_one_initcall", None))),
            (0xffff_ffff_8100_0180, Some(("weak_one", None))),
            (0xffff_ffff_8100_1000, None),
            (0xffff_ffff_8200_0010, None),
            (0xffff_ffff_c000_0004, Some(("ext4_read", Some("ext4")))),
            // Past the end of the module.
            (0xffff_ffff_c000_0600, None),
            (0xffff_ffff_c000_1010, Some(("bpf_prog_6deef7357e7b4530_tick", Some("bpf")))),
        ] {
            let found = symbols.symbol(address).map(|symbol| (symbol.name, symbol.module));
            assert_eq!(found, expected, "{address:#x}");
        }
    }

    #[test]
    fn hidden_addresses_leave_no_symbol() {
        assert!(KernelSymbols::parse(b"0000000000000000 T _stext\n", b"").entries.is_empty());
    }

    #[test]
    fn the_running_kernel_is_read_or_hidden() {
        match KernelSymbols::of_this_boot() {
            Ok(symbols) => {
                // Modules are ordered by address, the kernel proper too: its first function names itself.
                let first = symbols.entries.iter().find(|entry| entry.name.is_some()).expect("a function");
                assert_eq!(symbols.symbol(first.address).expect("named").address, first.address);
            }
            Err(KernelSymbolsError::Restricted { kptr_restrict }) => assert_ne!(kptr_restrict, ""),
            Err(KernelSymbolsError::Read { source }) => assert_eq!(source.kind(), io::ErrorKind::NotFound),
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in proptest::collection::vec(any::<u8>(), 0..300), address: u64) {
            let _ = KernelSymbols::parse(&text, &text).symbol(address);
        }
    }
}
