//! How many instructions each program in a BPF object has, so that growth of the tick is seen.

use std::path::Path;

use anyhow::{Context as _, Result};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind};

/// A function of a BPF object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// The ELF section, which tells the program type; `.text` holds functions that programs call.
    pub section: String,
    /// Its symbol.
    pub name: String,
    /// 8-byte instruction slots: a 64-bit load takes two, as the verifier counts them.
    pub instructions: u64,
}

/// What compiler_builtins adds to every object, called or not; aya loads only what is called.
const BUILTINS: [&str; 5] = ["bcmp", "memcmp", "memcpy", "memmove", "memset"];

/// The functions of the object at `path`, by section and name.
///
/// # Errors
///
/// If the file cannot be read or is no ELF object.
pub fn count(path: &Path) -> Result<Vec<Function>> {
    let data = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let object = object::File::parse(&*data).with_context(|| format!("cannot parse {}", path.display()))?;
    let mut functions = Vec::new();
    for symbol in object.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
        let Some(index) = symbol.section_index() else { continue };
        let section = object.section_by_index(index)?;
        let name = symbol.name()?;
        if section.kind() == SectionKind::Text && !BUILTINS.contains(&name) {
            functions.push(Function {
                section: section.name()?.to_owned(),
                name: name.to_owned(),
                instructions: symbol.size() / 8,
            });
        }
    }
    functions.sort();
    Ok(functions)
}
