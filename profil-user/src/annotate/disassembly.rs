//! From the bytes of a function to its instructions.

use iced_x86::{Code, Decoder, DecoderOptions, Formatter, GasFormatter, OpKind};
use object::elf;
use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Opcode, Operand};

/// Column of the operands, from 0, as objdump has it.
const OPERANDS: u32 = 7;

/// What a machine's instructions look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// x86, with 32 or 64 bits.
    X86 {
        /// Bits of its addresses.
        bits: u32,
    },
    /// 64-bit Arm.
    Arm64,
}

impl Architecture {
    /// The architecture of an ELF file by its machine (`EM_X86_64` and others); `None` for others than x86 and 64-bit Arm.
    pub fn of(machine: u16) -> Option<Architecture> {
        match machine {
            elf::EM_X86_64 => Some(Architecture::X86 { bits: 64 }),
            elf::EM_386 => Some(Architecture::X86 { bits: 32 }),
            elf::EM_AARCH64 => Some(Architecture::Arm64),
            _ => None,
        }
    }
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// First address (SVMA).
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// As an assembler has it: AT&T syntax on x86.
    pub text: String,
    /// The address (SVMA) that it jumps to, calls, or forms relative to itself.
    pub refers_to: Option<u64>,
    /// Whether it is a system call.
    pub is_system_call: bool,
}

/// Takes code apart, from its first byte (at `svma`) on.
///
/// What is no instruction stands as data, so that the addresses go on without a gap.
pub fn disassemble(architecture: Architecture, code: &[u8], svma: u64) -> Vec<Instruction> {
    match architecture {
        Architecture::X86 { bits } => x86(bits, code, svma),
        Architecture::Arm64 => arm64(code, svma),
    }
}

fn x86(bits: u32, code: &[u8], svma: u64) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(bits, code, svma, DecoderOptions::NONE);
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_rip_relative_addresses(true);
    options.set_first_operand_char_index(OPERANDS);
    let mut instructions = Vec::new();
    while decoder.can_decode() {
        let (start, address) = (decoder.position(), decoder.ip());
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            instructions.push(data(address, &code[start..=start]));
            // One byte further on there may be an instruction; the decoder is at the end of what it took for one.
            if decoder.set_position(start + 1).is_err() {
                break;
            }
            decoder.set_ip(address.wrapping_add(1));
            continue;
        }
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        let branches =
            matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
        let refers_to = if branches {
            Some(instruction.near_branch_target())
        } else {
            instruction.is_ip_rel_memory_operand().then(|| instruction.ip_rel_memory_address())
        };
        let interrupt = instruction.code() == Code::Int_imm8 && instruction.immediate8() == 0x80;
        let is_system_call = matches!(instruction.code(), Code::Syscall | Code::Sysenter) || interrupt;
        instructions.push(Instruction { address, size: instruction.len() as u64, text, refers_to, is_system_call });
    }
    instructions
}

fn arm64(code: &[u8], svma: u64) -> Vec<Instruction> {
    const SIZE: usize = 4;
    let decoder = InstDecoder::default();
    let one = |(index, bytes): (usize, &[u8])| {
        let address = svma.wrapping_add((index * SIZE) as u64);
        let Ok(instruction) = decoder.decode(&mut U8Reader::new(bytes)) else {
            return data(address, bytes);
        };
        let offset = instruction.operands.iter().find_map(|operand| match operand {
            Operand::PCOffset(offset) => Some(*offset),
            _ => None,
        });
        let base = if instruction.opcode == Opcode::ADRP { address & !0xfff } else { address };
        let refers_to = offset.map(|offset| base.wrapping_add_signed(offset));
        let mut text = instruction.to_string();
        // The decoder knows no address and writes the distance; which address it is, is what a reader wants.
        if let (Some(target), Some(at)) = (refers_to, text.find('$')) {
            let end = text[at + 2..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(text.len(), |end| at + 2 + end);
            text.replace_range(at..end, &format!("{target:#x}"));
        }
        let is_system_call = instruction.opcode == Opcode::SVC;
        Instruction { address, size: bytes.len() as u64, text, refers_to, is_system_call }
    };
    code.chunks(SIZE).enumerate().map(one).collect()
}

/// Bytes that are no instruction.
fn data(address: u64, bytes: &[u8]) -> Instruction {
    let list: Vec<String> = bytes.iter().map(|byte| format!("{byte:#04x}")).collect();
    let text = format!(".byte {}", list.join(","));
    Instruction { address, size: bytes.len() as u64, text, refers_to: None, is_system_call: false }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(instructions: &[Instruction]) -> Vec<String> {
        let line = |instruction: &Instruction| {
            let Instruction { address, size, text, refers_to, is_system_call } = instruction;
            let refers_to = refers_to.map_or(String::new(), |to| format!(" -> {to:#x}"));
            format!("{address:#x}+{size} {text}{refers_to}{}", if *is_system_call { " !" } else { "" })
        };
        instructions.iter().map(line).collect()
    }

    #[test]
    fn x86_is_written_as_objdump_writes_it() {
        // push %rbp; mov %rsp,%rbp; mov 0x2ee2(%rip),%rax; syscall; int $0x80; jne .-9; an invalid byte; ret
        let code = b"\x55\x48\x89\xe5\x48\x8b\x05\xe2\x2e\0\0\x0f\x05\xcd\x80\x75\xf5\x06\xc3";
        insta::assert_snapshot!(shown(&disassemble(Architecture::X86 { bits: 64 }, code, 0x1129)).join("\n"), @r"
        0x1129+1 push   %rbp
        0x112a+3 mov    %rsp,%rbp
        0x112d+7 mov    0x2ee2(%rip),%rax -> 0x4016
        0x1134+2 syscall !
        0x1136+2 int    $0x80 !
        0x1138+2 jne    0x112f -> 0x112f
        0x113a+1 .byte 0x06
        0x113b+1 ret
        ");
    }

    #[test]
    fn sixty_four_bit_arm_shows_where_it_goes() {
        // stp x29, x30, [sp, #-16]!; adrp x0, +1 page; svc #0; b.ne .-8; bl .+16; udf #0; ret
        let words: [u32; 7] =
            [0xa9bf_7bfd, 0xb000_0000, 0xd400_0001, 0x54ff_ffc1, 0x9400_0004, 0x0000_0000, 0xd65f_03c0];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        insta::assert_snapshot!(shown(&disassemble(Architecture::Arm64, &code, 0x1_0788)).join("\n"), @r"
        0x10788+4 stp x29, x30, [sp, #-0x10]!
        0x1078c+4 adrp x0, 0x11000 -> 0x11000
        0x10790+4 svc #0x0 !
        0x10794+4 b.ne 0x1078c -> 0x1078c
        0x10798+4 bl 0x107a8 -> 0x107a8
        0x1079c+4 udf #0x0
        0x107a0+4 ret
        ");
    }

    #[test]
    fn other_machines_are_not_guessed_at() {
        assert_eq!(Architecture::of(elf::EM_RISCV), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_apart_without_a_gap(code in prop::collection::vec(any::<u8>(), 0..300), arm: bool) {
            let architecture = if arm { Architecture::Arm64 } else { Architecture::X86 { bits: 64 } };
            let mut next = 0x1000;
            for instruction in disassemble(architecture, &code, next) {
                prop_assert_eq!(instruction.address, next);
                next += instruction.size;
            }
            prop_assert_eq!(next, 0x1000 + code.len() as u64);
        }
    }
}
