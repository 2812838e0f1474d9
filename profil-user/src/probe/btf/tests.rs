//! Tests of the reader, on data made by hand and on the kernel that runs them.

use proptest::prelude::*;

use super::*;

/// BTF of: struct outer { int a; union { int b; struct inner c; }; int d:3; }, struct inner { int x; int y; }, where `c`
/// is reached through a typedef.
fn sample() -> Vec<u8> {
    let names = b"\0outer\0inner\0a\0b\0c\0d\0x\0y\0int\0";
    let name = |wanted: &str| -> u32 {
        let needle = [b"\0", wanted.as_bytes(), b"\0"].concat();
        let at = names.windows(needle.len()).position(|window| window == needle);
        at.map_or(0, |at| at as u32 + 1)
    };
    let info = |kind: u32, length: u32| kind << 24 | length;
    let types: Vec<u32> = [
        vec![name("int"), info(kind::INT, 0), 4, 32],
        vec![name("inner"), info(kind::STRUCT, 2), 8, name("x"), 1, 0, name("y"), 1, 32],
        vec![name("inner"), info(kind::TYPEDEF, 0), 2],
        vec![0, info(kind::UNION, 2), 8, name("b"), 1, 0, name("c"), 3, 0],
        // Bit fields: the top byte of the place is the width.
        [
            vec![name("outer"), info(kind::STRUCT, 3) | 1 << 31, 16],
            vec![name("a"), 1, 0, 0, 4, 32, name("d"), 1, 3 << 24 | 96],
        ]
        .concat(),
    ]
    .concat();
    let type_bytes = types.len() as u32 * 4;
    let header = [u32::from(MAGIC) | 1 << 16, 24, 0, type_bytes, type_bytes, names.len() as u32];
    let words = header.iter().chain(&types).flat_map(|word| word.to_ne_bytes());
    words.chain(names.iter().copied()).collect()
}

fn offset(structure: &str, field: &str) -> Result<u32, BtfError> {
    Btf::parse(sample()).expect("the sample is well formed").structure(structure)?.offset_of(field)
}

#[test]
#[cfg(target_endian = "little")]
fn members_are_found_in_named_and_anonymous_aggregates() {
    assert_eq!(offset("outer", "a").ok(), Some(0));
    assert_eq!(offset("outer", "b").ok(), Some(4));
    assert_eq!(offset("outer", "c.y").ok(), Some(8));
    assert_eq!(offset("inner", "y").ok(), Some(4));
}

#[test]
#[cfg(target_endian = "little")]
fn what_has_no_offset_is_named() {
    let message = |structure, field| offset(structure, field).expect_err("no offset").to_string();
    assert_eq!(
        message("nowhere", "a"),
        "cannot find struct nowhere in the kernel's type information: this kernel is not known to profil"
    );
    assert_eq!(message("outer", "c.z"), "cannot find field c.z of struct outer: this kernel is not known to profil");
    assert_eq!(message("outer", "a.x"), "cannot find field a.x of struct outer: this kernel is not known to profil");
    assert_eq!(message("outer", "d"), "cannot read field d of struct outer: it is a bit field");
}

#[test]
fn a_missing_file_says_which_kernel_option_is_wanted() {
    let error = Btf::from_file(Path::new("/nonexistent/btf")).expect_err("no such file");
    assert_eq!(
        error.to_string(),
        "cannot read the kernel's type information /nonexistent/btf: profil needs a kernel with CONFIG_DEBUG_INFO_BTF=y"
    );
}

#[test]
fn every_truncation_is_refused() {
    let whole = sample();
    for length in 0..whole.len() {
        assert!(Btf::parse(whole[..length].to_vec()).is_err(), "{length} bytes");
    }
}

/// Check against the kernel that runs the tests, where it shows its BTF.
#[test]
fn fields_of_the_running_kernel_are_apart_and_inside_their_structs() {
    if !Path::new(KERNEL_BTF).exists() {
        return;
    }
    let fields = kernel_fields().expect("this kernel's BTF has all fields");
    // task_struct: tgid follows pid, and no two fields share a place.
    assert_eq!(fields.task_tgid, fields.task_pid + 4);
    let mut places = [fields.task_pid, fields.task_tgid, fields.task_signal, fields.task_comm];
    places.sort_unstable();
    assert!(places.windows(2).all(|pair| pair[0] + 4 <= pair[1]), "{places:?}");
    assert!(places.iter().all(|place| (1..64 * 1024).contains(place)), "{places:?}");
    assert!(fields.task_signal.is_multiple_of(8) && fields.signal_runtime.is_multiple_of(8));
    assert!(fields.pid_numbers.is_multiple_of(8) && fields.signal_pids.is_multiple_of(8));
}

proptest! {
    /// Check that damaged data gives an error or an offset, and never a panic or an endless loop.
    #[test]
    fn damaged_data_never_panics(at in 0usize..400, byte: u8, second in 0usize..400, other: u8) {
        let mut data = sample();
        let length = data.len();
        data[at % length] = byte;
        data[second % length] = other;
        if let Ok(btf) = Btf::parse(data) {
            for (structure, field) in [("outer", "c.y"), ("inner", "x"), ("outer", "nothing")] {
                let _ = btf.structure(structure).map(|structure| structure.offset_of(field));
            }
        }
    }
}
