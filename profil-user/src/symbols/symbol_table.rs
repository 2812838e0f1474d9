//! The symbol tables of an ELF file: from an address to a name, and from a name to an address.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use object::elf;
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, pod};

use super::elf_headers::{ElfError, ElfHeaders, Image, Section, string_at};

/// Most bytes of one symbol table and of one table of names; the largest browsers have some 200 MB of names.
const TABLE_LIMIT: u64 = 512 << 20;
/// Most bytes of a name.
const NAME_LIMIT: usize = 64 * 1024;

/// Most symbols that a lookup passes over.
///
/// Symbols nest (labels in a function, a part of a function): some steps back find the one around. The bound keeps a
/// hostile table from making each lookup a walk through all of it.
const STEPS: usize = 256;

/// A symbol found by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// First address (SVMA).
    pub svma: u64,
    /// Bytes; 0 when the table does not say.
    pub size: u64,
}

/// A symbol found by an address in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// Its name, as it stands in the table.
    pub name: &'a [u8],
    /// Its addresses (SVMA).
    pub svmas: Range<u64>,
}

/// The functions and data objects that the symbol tables of a file name.
#[derive(Debug, Default)]
pub struct SymbolTable<'i> {
    /// The bytes of `.strtab` and of `.dynstr`, as far as they are there.
    names: Vec<Cow<'i, [u8]>>,
    /// Sorted by address.
    entries: Vec<Entry>,
    /// Addresses of sections with code, sorted: a symbol without a size ends with its section.
    code: Vec<Range<u64>>,
    /// Whether there was a full table (`.symtab`), not just the names that the dynamic linker needs.
    pub is_full: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    svma: u64,
    size: u64,
    /// Offset in the names of its table.
    name: u32,
    /// Which of `names` it is in.
    names: u8,
    kind: Kind,
    rank: Rank,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Data,
    /// Without type, as labels in assembly are.
    Label,
    Function,
}

/// Which of several symbols of a kind at one address gives the name: the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Local,
    Weak,
    Global,
}

impl<'i> SymbolTable<'i> {
    /// Reads `.symtab` and `.dynsym` of an image.
    ///
    /// A file without either gives an empty table.
    ///
    /// # Errors
    /// [`ElfError`] when a table cannot be read or is larger than 512 MiB.
    pub fn read(headers: &ElfHeaders, image: &'i (impl Image + ?Sized)) -> Result<SymbolTable<'i>, ElfError> {
        let mut table = SymbolTable::default();
        for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
            // In a debug file .dynsym is there by header only, as SHT_NOBITS.
            if let Some(section) = headers.section_of_kind(kind) {
                table.read_section(headers, image, section)?;
                table.is_full |= kind == elf::SHT_SYMTAB;
            }
        }
        table.entries.sort_by_key(|entry| entry.svma);
        table.code = headers
            .sections
            .iter()
            .filter(|section| section.flags & u64::from(elf::SHF_EXECINSTR) != 0)
            .map(|section| section.svma..section.svma.saturating_add(section.size))
            .collect();
        table.code.sort_by_key(|range| range.start);
        Ok(table)
    }

    fn read_section(
        &mut self,
        headers: &ElfHeaders,
        image: &'i (impl Image + ?Sized),
        section: &Section,
    ) -> Result<(), ElfError> {
        let Some(strings) = headers.sections.get(section.link as usize).filter(|strings| strings.has_bytes()) else {
            return Ok(());
        };
        for Section { file_offset: offset, size, .. } in [section, strings] {
            if *size > TABLE_LIMIT {
                return Err(ElfError::TooLarge { offset: *offset, size: *size, limit: TABLE_LIMIT });
            }
        }
        let symbols = image.bytes_at(section.file_offset, section.size)?;
        self.names.push(image.bytes_at(strings.file_offset, strings.size)?);
        if headers.is_64 {
            self.add::<elf::FileHeader64<Endianness>>(headers.endian, &symbols);
        } else {
            self.add::<elf::FileHeader32<Endianness>>(headers.endian, &symbols);
        }
        Ok(())
    }

    fn add<Elf: FileHeader<Endian = Endianness>>(&mut self, endian: Endianness, symbols: &[u8]) {
        let Some((names, text)) = self.names.iter().enumerate().next_back() else { return };
        let count = symbols.len() / size_of::<Elf::Sym>();
        let Ok((symbols, _)) = pod::slice_from_bytes::<Elf::Sym>(symbols, count) else { return };
        for symbol in symbols {
            let kind = match symbol.st_type() {
                elf::STT_FUNC | elf::STT_GNU_IFUNC => Kind::Function,
                elf::STT_NOTYPE => Kind::Label,
                elf::STT_OBJECT => Kind::Data,
                _ => continue,
            };
            if symbol.st_shndx(endian) == elf::SHN_UNDEF {
                continue;
            }
            let name = symbol.st_name(endian);
            let text = string_at(text, name as usize, NAME_LIMIT);
            // `$x`, `$d.1` and the like mark code and data for disassemblers on Arm and RISC-V; `.L` labels are the
            // compiler's own.
            if text.is_empty() || text.starts_with(b"$") || text.starts_with(b".L") {
                continue;
            }
            let rank = match symbol.st_bind() {
                elf::STB_LOCAL => Rank::Local,
                elf::STB_WEAK => Rank::Weak,
                _ => Rank::Global,
            };
            self.entries.push(Entry {
                svma: symbol.st_value(endian).into(),
                size: symbol.st_size(endian).into(),
                name,
                names: names as u8,
                kind,
                rank,
            });
        }
    }

    /// Whether no symbol at all is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of memory that the table takes.
    pub fn size_bytes(&self) -> usize {
        self.names.len() + self.entries.len() * size_of::<Entry>()
    }

    /// The name of the code at an address (SVMA).
    ///
    /// The innermost symbol whose size covers the address gives it, so past the end of a symbol its name is not used.
    /// Where there is none, a symbol without a size, as in assembly, covers what follows it up to the next symbol,
    /// within its section.
    pub fn name_of(&self, svma: u64) -> Option<&[u8]> {
        self.covering(svma).map(|entry| self.text(entry))
    }

    /// The symbol that gives the code at an address (SVMA) its name, with its extent.
    ///
    /// One without a size ends where the next symbol begins, or else with its section.
    pub fn function_at(&self, svma: u64) -> Option<Function<'_>> {
        let entry = self.covering(svma)?;
        let (start, name) = (entry.svma, self.text(entry));
        if entry.size > 0 {
            return Some(Function { name, svmas: start..start.saturating_add(entry.size) });
        }
        let section = self.section_of(start)?.end;
        let after = self.entries.partition_point(|entry| entry.svma <= svma);
        let next = self.entries.get(after).map(|entry| entry.svma.min(section));
        Some(Function { name, svmas: start..next.unwrap_or(section) })
    }

    fn covering(&self, svma: u64) -> Option<&Entry> {
        let end = self.entries.partition_point(|entry| entry.svma <= svma);
        let last_start = self.entries[..end].last()?.svma;
        let code = || self.entries[..end].iter().rev().take(STEPS).filter(|entry| entry.kind != Kind::Data);
        let sized = code().find(|entry| svma - entry.svma < entry.size).map(|entry| entry.svma);
        let start = match sized {
            Some(start) => start,
            None if self.in_same_section(last_start, svma) => last_start,
            None => return None,
        };
        code()
            .filter(|entry| entry.svma == start)
            .filter(|entry| if sized.is_some() { svma - start < entry.size } else { entry.size == 0 })
            // Of names that are worth the same, the last of the table, as other readers have it.
            .min_by_key(|entry| Reverse((entry.kind, entry.rank)))
    }

    /// Addresses (SVMA) in a range at which a symbol of code begins, ascending, each once.
    pub fn code_starts(&self, range: Range<u64>) -> impl Iterator<Item = u64> {
        let first = self.entries.partition_point(|entry| entry.svma < range.start);
        let entries = self.entries[first..].iter().take_while(move |entry| entry.svma < range.end);
        let mut last = None;
        entries
            .filter(|entry| entry.kind != Kind::Data)
            .map(|entry| entry.svma)
            .filter(move |svma| last.replace(*svma) != Some(*svma))
    }

    /// Finds a function or data object by name; a global one before a local one.
    ///
    /// Symbol versions (`name@@VERSION`) are not part of the name.
    pub fn find(&self, name: &str) -> Option<Symbol> {
        self.entries
            .iter()
            .filter(|entry| {
                let text = self.text(entry);
                text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"@"))
            })
            .max_by_key(|entry| (entry.rank, entry.size > 0))
            .map(|entry| Symbol { svma: entry.svma, size: entry.size })
    }

    /// The same, without its image.
    pub fn into_owned(self) -> SymbolTable<'static> {
        let SymbolTable { names, entries, code, is_full } = self;
        let names = names.into_iter().map(|names| Cow::Owned(names.into_owned())).collect();
        SymbolTable { names, entries, code, is_full }
    }

    fn in_same_section(&self, symbol: u64, svma: u64) -> bool {
        self.section_of(symbol).is_some_and(|section| section.contains(&svma))
    }

    /// The section with code that an address lies in.
    fn section_of(&self, svma: u64) -> Option<&Range<u64>> {
        let index = self.code.partition_point(|range| range.start <= svma).checked_sub(1)?;
        Some(&self.code[index]).filter(|range| range.contains(&svma))
    }

    fn text(&self, entry: &Entry) -> &[u8] {
        self.names.get(usize::from(entry.names)).map_or(&[], |names| string_at(names, entry.name as usize, NAME_LIMIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_ends_with_its_size_or_else_at_the_next_one_or_with_its_section() {
        let entry = |svma, size, name, kind| Entry { svma, size, name, names: 0, kind, rank: Rank::Global };
        let table = SymbolTable {
            names: vec![Cow::Borrowed(b"sized\0data\0bare\0last\0")],
            entries: vec![
                entry(0x1000, 0x18, 0, Kind::Function),
                entry(0x1020, 0, 11, Kind::Function),
                entry(0x1028, 4, 6, Kind::Data),
                entry(0x1040, 0, 16, Kind::Label),
                entry(0x3000, 4, 6, Kind::Data),
            ],
            code: std::iter::once(0x1000..0x1080).collect(),
            is_full: true,
        };
        let at = |svma| table.function_at(svma).map(|function| (function.name, function.svmas));
        assert_eq!(at(0x1010), Some((&b"sized"[..], 0x1000..0x1018)));
        assert_eq!(at(0x1018), None);
        assert_eq!(at(0x1024), Some((&b"bare"[..], 0x1020..0x1028)));
        assert_eq!(at(0x102a), None);
        assert_eq!(at(0x1040), Some((&b"last"[..], 0x1040..0x1080)));
        assert_eq!(at(0x1080), None);
    }
}
