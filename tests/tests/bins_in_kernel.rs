//! The search and the bin formula as the kernel runs them, against the vectors and the code of this side.

#[path = "../../profil-common/tests/oracle/mod.rs"]
mod oracle;

use aya::maps::{Array, MapData};
use aya::programs::{TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use oracle::{Verdict, rows, verdict};
use profil_common::limits::MAX_RANGES;
use profil_common::{Convention, Range, RangeTable, Region, Request};

/// Bytes of the packet that the program is handed and does not look at: an Ethernet frame at its shortest.
const PACKET: [u8; 64] = [0; 64];

/// `XDP_PASS` of include/uapi/linux/bpf.h: the program has found its maps.
const XDP_PASS: u32 = 2;

/// What the program writes for a pc that is outside.
const OUTSIDE: u64 = u64::MAX;

/// The program, loaded.
struct Kernel {
    ebpf: Ebpf,
    table: Array<MapData, RangeTable>,
    pc_and_bin: Array<MapData, u64>,
}

impl Kernel {
    /// Loads the object that xtask builds for the suite; `None`, with the reason said, where there is none.
    #[expect(clippy::print_stdout, reason = "skips are counted by what the tests print")]
    fn load(test: &str) -> Option<Kernel> {
        let Some(path) = std::env::var_os("PROFIL_EBPF_TESTRUN_OBJECT") else {
            let required = std::env::var_os("PROFIL_REQUIRE_BPF").is_some();
            assert!(!required, "PROFIL_EBPF_TESTRUN_OBJECT names no object; `cargo xtask test` builds it");
            println!("SKIP: {test}: PROFIL_EBPF_TESTRUN_OBJECT is not set");
            return None;
        };
        let mut ebpf = EbpfLoader::new().load_file(path).expect("the kernel takes the object");
        let program: &mut Xdp = ebpf.program_mut("bin_of").expect("the program").try_into().expect("an XDP program");
        program.load().expect("the verifier accepts the program");
        let table = ebpf.take_map("TABLE").expect("the map").try_into().expect("an array");
        let pc_and_bin = ebpf.take_map("PC_AND_BIN").expect("the map").try_into().expect("an array");
        Some(Kernel { ebpf, table, pc_and_bin })
    }

    fn use_table(&mut self, table: &RangeTable) {
        self.table.set(0, table, 0).expect("the map has element 0");
    }

    /// The bin of a pc in the table in use.
    fn bin_of(&mut self, pc: u64) -> Option<u32> {
        self.pc_and_bin.set(0, pc, 0).expect("the map has element 0");
        // A value that is no answer, so that a program that does not run is noticed.
        self.pc_and_bin.set(1, OUTSIDE - 1, 0).expect("the map has element 1");
        let program: &Xdp = self.ebpf.program("bin_of").expect("the program").try_into().expect("an XDP program");
        let options = TestRunOptions { data_in: Some(&PACKET), ..TestRunOptions::default() };
        let result = program.test_run(options).expect("the kernel runs the program");
        assert_eq!(result.return_value, XDP_PASS);
        match self.pc_and_bin.get(&1, 0).expect("the map has element 1") {
            OUTSIDE => None,
            bin => Some(u32::try_from(bin).expect("the program has written a bin")),
        }
    }
}

#[test]
fn every_row_of_the_vectors_comes_to_the_same_in_the_kernel() {
    let Some(mut kernel) = Kernel::load("every_row_of_the_vectors_comes_to_the_same_in_the_kernel") else { return };
    let rows = rows();
    let mut ran = 0;
    for row in &rows {
        match Region::new(row.convention, row.request) {
            Err(error) => assert_eq!(Verdict::Fails(error.errno()), row.expected, "{row:?}"),
            Ok(None) => assert_eq!(Verdict::Off, row.expected, "{row:?}"),
            Ok(Some(region)) => {
                kernel.use_table(&RangeTable::single(region));
                let bin = kernel.bin_of(row.pc);
                assert_eq!(bin.map_or(Verdict::Outside, Verdict::Bin), row.expected, "{row:?}");
                ran += 1;
            }
        }
    }
    let refused = rows.iter().filter(|row| matches!(row.expected, Verdict::Off | Verdict::Fails(_))).count();
    assert_eq!((rows.len(), ran), (1036, 1036 - refused));
}

#[test]
fn four_byte_counters_come_to_the_same_in_the_kernel() {
    let Some(mut kernel) = Kernel::load("four_byte_counters_come_to_the_same_in_the_kernel") else { return };
    for row in rows() {
        let request = Request { width: 4, ..row.request };
        if let Ok(Some(region)) = Region::new(row.convention, request) {
            kernel.use_table(&RangeTable::single(region));
            let bin = kernel.bin_of(row.pc).map_or(Verdict::Outside, Verdict::Bin);
            assert_eq!(bin, verdict(row.convention, request, row.pc), "{row:?}");
        }
    }
}

/// A table of `len` ranges: of growing sizes and all conventions, with gaps after two of three.
fn table(len: usize) -> RangeTable {
    let mut table = RangeTable { len: len as u32, ..RangeTable::empty(0) };
    let mut low = 0x40_0000;
    for (index, range) in table.ranges.iter_mut().enumerate().take(len) {
        let convention = Convention::ALL[index % 4];
        let request = Request { offset: low, scale: 0x8001 + 37 * index as u32, bufsiz: 64 + index as u64, width: 2 };
        let region = Region::new(convention, request).expect("a good request").expect("a request that is on");
        let high = low + 127 + index as u64;
        *range = Range { low, high, first_bin: table.nbins, reserved: 0, region };
        table.nbins += region.nbins;
        low = high + 1 + (index as u64 % 3) * 0x1_0000_0000;
    }
    table
}

/// Check the search at both ends of every range, within, and in the gaps, for every length of a table.
#[test]
fn the_search_in_a_table_comes_to_the_same_in_the_kernel() {
    let Some(mut kernel) = Kernel::load("the_search_in_a_table_comes_to_the_same_in_the_kernel") else { return };
    for len in [0, 1, 2, 3, 7, 31, 32, 33, 63, MAX_RANGES] {
        let table = table(len);
        kernel.use_table(&table);
        let ranges = &table.ranges[..len];
        let pcs =
            ranges.iter().flat_map(|range| [range.low - 1, range.low, range.low + 40, range.high, range.high + 1]);
        for pc in pcs.chain([0, 0x40_0000, u64::MAX]) {
            let range = ranges.iter().find(|range| (range.low..=range.high).contains(&pc));
            let expected = range.and_then(|range| Some(range.first_bin + range.region.bin_of(pc)?));
            assert_eq!(kernel.bin_of(pc), expected, "{len} {pc:#x}");
        }
    }
}
