//! From a pc to an object, and from an object's address to a name.

pub mod elf_headers;
pub mod object_file;
pub mod symbol_table;
pub mod target_files;
