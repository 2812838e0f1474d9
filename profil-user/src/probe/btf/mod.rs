//! Offsets of kernel fields, from the kernel's own type information (BTF).
//!
//! The reader is our own because the crate `btf-rs` is LGPL and aya keeps the members of its types private. It reads
//! what it needs and no more: where each type starts, and the members of structs and unions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use profil_common::Fields;

/// Where the kernel shows its BTF (5.2, with CONFIG_DEBUG_INFO_BTF).
pub const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// First two bytes of BTF, in the byte order of the machine it describes.
const MAGIC: u16 = 0xeb9f;
/// Bytes of `struct btf_header` up to and including `str_len`.
const HEADER_BYTES: usize = 24;
/// Bytes of `struct btf_type`, which comes before what a kind adds.
const TYPE_BYTES: usize = 12;
/// Bytes of `struct btf_member`.
const MEMBER_BYTES: usize = 12;
/// Anonymous members and typedefs that are followed before the data is taken for a loop.
const DEPTH_MAX: u32 = 16;

/// Kinds of types, as `enum` in include/uapi/linux/btf.h numbers them.
mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FWD: u32 = 7;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const FLOAT: u32 = 16;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

/// Why an offset is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The kernel shows no BTF, or it cannot be read.
    #[error("cannot read the kernel's type information {path}: profil needs a kernel with CONFIG_DEBUG_INFO_BTF=y", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The bytes are not BTF as this reader knows it.
    #[error("cannot parse the kernel's type information: {problem} at byte {offset}")]
    Malformed {
        /// What is wrong.
        problem: &'static str,
        /// Where, in bytes from the start of the data.
        offset: usize,
    },
    /// No struct has that name.
    #[error("cannot find struct {structure} in the kernel's type information: this kernel is not known to profil")]
    NoStruct {
        /// Name of the struct.
        structure: String,
    },
    /// The struct has no such field.
    #[error("cannot find field {field} of struct {structure}: this kernel is not known to profil")]
    NoField {
        /// Name of the struct.
        structure: String,
        /// Path of the field, dotted.
        field: String,
    },
    /// The field does not start at a byte.
    #[error("cannot read field {field} of struct {structure}: it is a bit field")]
    BitField {
        /// Name of the struct.
        structure: String,
        /// Path of the field, dotted.
        field: String,
    },
}

/// Looks up the [`Fields`] that the eBPF hooks read, in the BTF of the running kernel.
///
/// # Errors
/// Says which file, struct or field is missing.
///
/// # Minimum kernel
/// 5.2, built with CONFIG_DEBUG_INFO_BTF.
pub fn kernel_fields() -> Result<Fields, BtfError> {
    fields_of(&Btf::from_kernel()?)
}

/// Looks up the [`Fields`] in some BTF.
///
/// # Errors
/// As [`kernel_fields`].
pub fn fields_of(btf: &Btf) -> Result<Fields, BtfError> {
    let task = btf.structure("task_struct")?;
    let signal = btf.structure("signal_struct")?;
    let pid = btf.structure("pid")?;
    let namespace = btf.structure("pid_namespace")?;
    Ok(Fields {
        task_pid: task.offset_of("pid")?,
        task_tgid: task.offset_of("tgid")?,
        task_signal: task.offset_of("signal")?,
        task_comm: task.offset_of("comm")?,
        task_runtime: task.offset_of("se.sum_exec_runtime")?,
        signal_live: signal.offset_of("live")?,
        signal_runtime: signal.offset_of("sum_sched_runtime")?,
        signal_pids: signal.offset_of("pids")?,
        pid_level: pid.offset_of("level")?,
        pid_numbers: pid.offset_of("numbers")?,
        namespace_inum: namespace.offset_of("ns.inum")?,
        reserved: 0,
    })
}

/// Type information: what types there are and where their members lie.
#[derive(Clone, Debug)]
pub struct Btf {
    data: Vec<u8>,
    /// Where each type starts in `data`; the type with id `n` is at index `n - 1`, id 0 being `void`.
    types: Vec<u32>,
    /// Where the names start and end in `data`.
    names: (usize, usize),
}

impl Btf {
    /// The type information of the running kernel.
    ///
    /// # Errors
    /// [`BtfError::Unreadable`] where the kernel shows none, [`BtfError::Malformed`] when it is not understood.
    pub fn from_kernel() -> Result<Btf, BtfError> {
        Btf::from_file(Path::new(KERNEL_BTF))
    }

    /// The type information in a file of raw BTF, such as those below /sys/kernel/btf.
    ///
    /// # Errors
    /// As [`Btf::from_kernel`].
    pub fn from_file(path: &Path) -> Result<Btf, BtfError> {
        let data = fs::read(path).map_err(|source| BtfError::Unreadable { path: path.to_owned(), source })?;
        Btf::parse(data)
    }

    /// Type information from its bytes, in this machine's byte order.
    ///
    /// # Errors
    /// [`BtfError::Malformed`] says what is wrong and where.
    ///
    /// # Source
    /// Documentation/bpf/btf.rst of the kernel.
    pub fn parse(data: Vec<u8>) -> Result<Btf, BtfError> {
        let malformed = |problem, offset| BtfError::Malformed { problem, offset };
        let word = |offset| word_at(&data, offset).ok_or(malformed("the header is cut short", offset));
        let magic = data.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
        if magic != Some(MAGIC) {
            return Err(malformed("the magic number is wrong", 0));
        }
        let header = word(4)? as usize;
        if header < HEADER_BYTES {
            return Err(malformed("the header is too short", 4));
        }
        let section = |at: usize| -> Result<(usize, usize), BtfError> {
            let start = header.checked_add(word(at)? as usize);
            let end = word(at + 4).map(|length| start.and_then(|start| start.checked_add(length as usize)))?;
            match (start, end) {
                (Some(start), Some(end)) if end <= data.len() && end <= u32::MAX as usize => Ok((start, end)),
                _ => Err(malformed("a section lies outside the data", at)),
            }
        };
        let (start, end) = section(8)?;
        let names = section(16)?;

        let mut types = Vec::with_capacity((end - start) / 24);
        let mut offset = start;
        while offset < end {
            let info = word_at(&data[..end], offset + 4).ok_or(malformed("a type is cut short", offset))?;
            let extra = extra_bytes(info).ok_or(malformed("a type is of no known kind", offset))?;
            types.push(offset as u32);
            offset += TYPE_BYTES + extra;
        }
        if offset != end {
            return Err(malformed("the last type is cut short", offset));
        }
        Ok(Btf { data, types, names })
    }

    /// The structs with a name. There may be several of one name, when parts of the kernel define it apart.
    ///
    /// # Errors
    /// [`BtfError::NoStruct`] when there is none.
    pub fn structure<'b>(&'b self, name: &'b str) -> Result<Structure<'b>, BtfError> {
        let candidates: Vec<u32> = self
            .types
            .iter()
            .copied()
            .filter(|offset| {
                let [name_at, info, _] = self.words(*offset as usize);
                kind_of(info) == kind::STRUCT && self.is_named(name_at, name)
            })
            .collect();
        if candidates.is_empty() {
            return Err(BtfError::NoStruct { structure: name.to_owned() });
        }
        Ok(Structure { btf: self, name, candidates })
    }

    /// The id of the function with a name, by which programs attach to it.
    pub fn function_id(&self, name: &str) -> Option<u32> {
        let index = self.types.iter().position(|offset| {
            let [name_at, info, _] = self.words(*offset as usize);
            kind_of(info) == kind::FUNC && self.is_named(name_at, name)
        })?;
        u32::try_from(index + 1).ok()
    }

    /// Finds a member by name in the struct or union at `offset`, also in its anonymous members: its place in bits, its
    /// width in bits when it is a bit field, and the id of its type.
    fn member(&self, offset: u32, name: &str, depth: u32) -> Option<Member> {
        let [_, info, _] = self.words(offset as usize);
        if depth == 0 || !matches!(kind_of(info), kind::STRUCT | kind::UNION) {
            return None;
        }
        let has_bit_fields = info >> 31 != 0;
        (0..length_of(info)).find_map(|index| {
            let [name_at, type_id, place] = self.words(offset as usize + TYPE_BYTES + index * MEMBER_BYTES);
            let (bit_offset, bit_width) = if has_bit_fields { (place & 0x00ff_ffff, place >> 24) } else { (place, 0) };
            let member = Member { bit_offset: u64::from(bit_offset), bit_width, type_id };
            if self.is_named(name_at, name) {
                return Some(member);
            }
            // An anonymous struct or union lends its members to the one around it.
            if !self.is_named(name_at, "") {
                return None;
            }
            let inner = self.member(self.aggregate(type_id)?, name, depth - 1)?;
            Some(Member { bit_offset: member.bit_offset + inner.bit_offset, ..inner })
        })
    }

    /// Where the struct or union with an id starts, seen through typedefs and qualifiers.
    fn aggregate(&self, mut type_id: u32) -> Option<u32> {
        for _ in 0..DEPTH_MAX {
            let offset = *self.types.get((type_id as usize).checked_sub(1)?)?;
            let [_, info, inner] = self.words(offset as usize);
            match kind_of(info) {
                kind::STRUCT | kind::UNION => return Some(offset),
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => type_id = inner,
                _ => return None,
            }
        }
        None
    }

    /// The three words of a type or member; zeros past the end, which [`Btf::parse`] has ruled out.
    fn words(&self, offset: usize) -> [u32; 3] {
        [0, 4, 8].map(|word| word_at(&self.data, offset + word).unwrap_or(0))
    }

    fn is_named(&self, name_at: u32, name: &str) -> bool {
        let (start, end) = self.names;
        let bytes = self.data[..end].get(start + name_at as usize..).unwrap_or(&[]);
        bytes.starts_with(name.as_bytes()) && bytes.get(name.len()) == Some(&0)
    }
}

/// The structs of one name in some [`Btf`].
#[derive(Clone, Debug)]
pub struct Structure<'b> {
    btf: &'b Btf,
    name: &'b str,
    candidates: Vec<u32>,
}

impl Structure<'_> {
    /// Offset of a field, bytes from the start of the struct. A dotted path (`se.sum_exec_runtime`) goes into members that
    /// are structs themselves; anonymous ones need no name.
    ///
    /// # Errors
    /// [`BtfError::NoField`], and [`BtfError::BitField`] for what has no byte offset.
    pub fn offset_of(&self, field: &str) -> Result<u32, BtfError> {
        let found = self.candidates.iter().find_map(|candidate| self.member_at(*candidate, field));
        let Some(member) = found else {
            return Err(BtfError::NoField { structure: self.name.to_owned(), field: field.to_owned() });
        };
        match u32::try_from(member.bit_offset / 8) {
            Ok(bytes) if member.bit_width == 0 && member.bit_offset.is_multiple_of(8) => Ok(bytes),
            _ => Err(BtfError::BitField { structure: self.name.to_owned(), field: field.to_owned() }),
        }
    }

    fn member_at(&self, start: u32, path: &str) -> Option<Member> {
        let mut aggregate = start;
        let mut bit_offset = 0;
        let mut names = path.split('.').peekable();
        loop {
            let member = self.btf.member(aggregate, names.next()?, DEPTH_MAX)?;
            bit_offset += member.bit_offset;
            if names.peek().is_none() {
                return Some(Member { bit_offset, ..member });
            }
            aggregate = self.btf.aggregate(member.type_id)?;
        }
    }
}

/// Where a member lies in the struct it was looked up in.
#[derive(Clone, Copy, Debug)]
struct Member {
    bit_offset: u64,
    /// 0 for what is no bit field.
    bit_width: u32,
    type_id: u32,
}

fn kind_of(info: u32) -> u32 {
    (info >> 24) & 0x1f
}

fn length_of(info: u32) -> usize {
    (info & 0xffff) as usize
}

/// Bytes that follow a `struct btf_type`; `None` for a kind that is not known, behind which nothing can be found.
fn extra_bytes(info: u32) -> Option<usize> {
    let length = length_of(info);
    Some(match kind_of(info) {
        kind::INT | kind::VAR | kind::DECL_TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION => length * MEMBER_BYTES,
        kind::ENUM | kind::FUNC_PROTO => length * 8,
        kind::DATASEC | kind::ENUM64 => length * 12,
        kind::PTR | kind::FWD | kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT => 0,
        kind::FUNC | kind::FLOAT | kind::TYPE_TAG => 0,
        _ => return None,
    })
}

fn word_at(data: &[u8], offset: usize) -> Option<u32> {
    data.get(offset..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests;
