//! The messages of `profile.proto`, written by hand so that a build needs no `protoc`.
//!
//! Indexes into the string table are 0 for "none", ids are 1 or more; see the format's own documentation for each
//! field.

use prost::Message;

/// A whole profile. Only the writer builds one; the reader takes the fields one by one as they come.
#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    /// What each of a sample's values counts.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// Samples.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    /// Executable segments.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// Places in the code.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// Strings that the other messages refer to; the first one is empty.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    /// Start of the recording, ns since the epoch.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// Length of the recording, ns.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// What the clock counts.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// What passes between two ticks, in units of `period_type`.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// Free text, by string index.
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
}

/// A kind and a unit, by string index.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ValueType {
    /// Kind, such as `samples` or `cpu`.
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    /// Unit, such as `count` or `nanoseconds`.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// Values at a call stack.
#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    /// Location ids, the leaf first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// One value for each sample type.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// What else is known.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// A key with a string or a number.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Label {
    /// Key, by string index.
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// Value, by string index; 0 when the value is a number.
    #[prost(int64, tag = "2")]
    pub str: i64,
    /// Value as a number.
    #[prost(int64, tag = "3")]
    pub num: i64,
    /// Unit of the number, by string index.
    #[prost(int64, tag = "4")]
    pub num_unit: i64,
}

/// An executable segment.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Mapping {
    /// Unique, not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// First address.
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    /// First address past the end.
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    /// Byte of the file that `memory_start` stands for.
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    /// Path, by string index.
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// Build ID in hexadecimal, by string index.
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    /// Functions were resolved: a reader need not try.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// Source files were resolved.
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// Lines were resolved.
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    /// Inlined functions were resolved.
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

/// A place in the code.
#[derive(Clone, PartialEq, Message)]
pub struct Location {
    /// Unique, not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Mapping, or 0.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// Address, in the mapping when there is one.
    #[prost(uint64, tag = "3")]
    pub address: u64,
    /// Functions at the address, the innermost inlined one first.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

/// A function and a line of it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Line {
    /// Function, or 0.
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    /// Line in the function's file, from 1.
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Function {
    /// Unique, not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Demangled name, by string index.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// Name in the symbol table, by string index.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// Source file, by string index.
    #[prost(int64, tag = "4")]
    pub filename: i64,
    /// First line.
    #[prost(int64, tag = "5")]
    pub start_line: i64,
}
