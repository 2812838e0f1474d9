//! The arguments of profil(2), as people give them to `profil attach`.

use std::path::PathBuf;

use anyhow::Context;
use profil_common::limits::MAX_BINS;
use profil_common::{Convention, Region, Request};

use crate::attach::AttachError;
use crate::cli::failure::usage;
use crate::cli::values;
use crate::target_object::TargetObject;

/// A convention as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ConventionName {
    /// 4.4BSD, NetBSD, MINIX
    #[value(alias = "netbsd", alias = "minix")]
    Bsd,
    /// Linux libc of 1993
    Linux,
    /// CLIX
    Clix,
    /// Today's glibc
    Glibc,
}

impl From<ConventionName> for Convention {
    fn from(name: ConventionName) -> Convention {
        match name {
            ConventionName::Bsd => Convention::Bsd,
            ConventionName::Linux => Convention::Linux,
            ConventionName::Clix => Convention::Clix,
            ConventionName::Glibc => Convention::Glibc,
        }
    }
}

/// An address: a number, or a symbol with an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The address itself (AVMA).
    Number(u64),
    /// So many bytes behind the start of a symbol.
    Symbol {
        /// Its name.
        name: String,
        /// Bytes behind its start.
        offset: u64,
    },
}

/// An address: `0x601040`, `buffer`, `buffer+16`.
///
/// # Errors
/// What is wrong with it, for clap.
pub fn address(text: &str) -> Result<Address, String> {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return values::number(text).map(Address::Number);
    }
    let (name, offset) = match text.rsplit_once('+') {
        Some((name, offset)) => (name, values::number(offset)?),
        None => (text, 0),
    };
    if name.is_empty() {
        return Err(format!("`{text}` is no address; write 0x601040, buffer or buffer+16"));
    }
    Ok(Address::Symbol { name: name.to_owned(), offset })
}

/// A scale: a number of at most 32 bits.
///
/// # Errors
/// What is wrong with it, for clap.
pub fn scale(text: &str) -> Result<u32, String> {
    u32::try_from(values::number(text)?).map_err(|_| format!("scale {text} has more than 32 bits"))
}

/// The request.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "profil(2)")]
pub struct RegionArgs {
    /// The target's buffer: an address or a symbol [default: bins are kept by profil]
    #[arg(long, value_name = "ADDR|SYMBOL[+OFF]", value_parser = address)]
    pub(super) buf: Option<Address>,
    /// Bytes of the buffer [default: the symbol's size]
    #[arg(long, value_name = "BYTES", value_parser = values::number)]
    bufsiz: Option<u64>,
    /// Lowest address to count [default: the start of the text]
    #[arg(long, value_name = "ADDR|SYMBOL", value_parser = address)]
    offset: Option<Address>,
    /// 16.16 fixed point [default: the largest power of two up to 65536 at which the text fits]
    #[arg(long, value_name = "N", value_parser = scale)]
    scale: Option<u32>,
    /// Object of the target that symbols and the text are taken from [default: its program]
    #[arg(long, value_name = "PATH")]
    pub object: Option<PathBuf>,
    /// Bytes of a counter
    #[arg(long, value_name = "2|4", default_value = "2", value_parser = values::width)]
    pub width: u32,
    /// Manual page that the request is read by
    #[arg(long, value_enum, default_value = "glibc")]
    convention: ConventionName,
}

/// A request whose defaults are filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Manual page.
    pub convention: Convention,
    /// The request.
    pub request: Request,
    /// The buffer (AVMA).
    pub buffer: Option<u64>,
    /// The scale was chosen here, and is to be told.
    pub scale_chosen: bool,
}

impl RegionArgs {
    /// Whether an object is needed: a symbol is named, or the text decides.
    pub fn needs_object(&self) -> bool {
        let symbol = |address: &Option<Address>| matches!(address, Some(Address::Symbol { .. }));
        symbol(&self.buf)
            || symbol(&self.offset)
            || self.offset.is_none()
            || self.scale.is_none()
            || (self.buf.is_none() && self.bufsiz.is_none())
    }

    /// Fills in the defaults.
    ///
    /// # Errors
    /// A symbol is missing, or what is given does not suffice.
    pub fn resolve(&self, mut object: Option<&mut TargetObject>) -> anyhow::Result<Resolved> {
        let convention = Convention::from(self.convention);
        let width = self.width;
        let (buffer, symbol_size) = match &self.buf {
            None => (None, None),
            Some(address) => {
                let (start, size) = place(address, object.as_deref_mut())?;
                (Some(start), size)
            }
        };
        let text = object.as_deref().map(TargetObject::text).transpose();
        let offset = match &self.offset {
            Some(address) => place(address, object)?.0,
            None => text_of(&text)?.start,
        };
        let given = match (self.bufsiz, buffer, symbol_size) {
            (Some(bufsiz), _, _) => Some(bufsiz),
            (None, Some(_), Some(size)) if size > 0 => Some(size),
            (None, Some(_), _) => return Err(usage("--bufsiz is needed: the size of the buffer is not known")),
            (None, None, _) => None,
        };
        let request = |scale, bufsiz| Request { offset, scale, bufsiz, width };
        if let (Some(scale), Some(bufsiz)) = (self.scale, given) {
            let request = request(scale, bufsiz);
            return Ok(Resolved { convention, request, buffer, scale_chosen: false });
        }
        let last = text_of(&text)?.end.saturating_sub(1);
        if last < offset {
            return Err(usage(format!(
                "--offset {offset:#x} is behind the text, which ends at {last:#x}; give --scale and --bufsiz"
            )));
        }
        let bins_allowed = given.map_or(u64::from(MAX_BINS), |bufsiz| bufsiz / u64::from(width.max(1)));
        let scales = match self.scale {
            Some(scale) => vec![scale],
            None => scales(convention),
        };
        for scale in scales {
            let needed = bins_up_to(convention, request(scale, u64::from(u32::MAX) * u64::from(width)), last)?;
            if self.scale.is_some() || needed.is_some_and(|needed| needed <= bins_allowed) {
                let bins = needed.unwrap_or(0).min(u64::from(MAX_BINS));
                let bufsiz = given.unwrap_or(bins * u64::from(width));
                let request = request(scale, bufsiz);
                return Ok(Resolved { convention, request, buffer, scale_chosen: self.scale.is_none() });
            }
        }
        Err(usage(match given {
            Some(bufsiz) if self.offset.is_none() => {
                format!("a buffer of {bufsiz} bytes is too small for the text at any scale; give --scale")
            }
            Some(bufsiz) => format!(
                "a buffer of {bufsiz} bytes does not reach from --offset {offset:#x} to the end of the text, {last:#x}, at \
                 any scale; give an --offset nearer to it, or --scale"
            ),
            None => format!(
                "--offset {offset:#x} is too far below the text, which ends at {last:#x}: {MAX_BINS} bins do not reach it at \
                 any scale; leave --offset out to count all of the text, or give --scale and --bufsiz"
            ),
        }))
    }
}

/// Scales to try, the finest first: powers of two, which gprof needs.
fn scales(convention: Convention) -> Vec<u32> {
    let finest = match convention {
        // There all ones stands for the next power of two, which itself is too large.
        Convention::Clix => 0xffff,
        Convention::Bsd | Convention::Linux | Convention::Glibc => 0x1_0000,
    };
    std::iter::once(finest).chain((2..16).rev().map(|power| 1 << power)).collect()
}

/// Bins that a region needs to reach a pc; `None` when it cannot.
fn bins_up_to(convention: Convention, request: Request, pc: u64) -> anyhow::Result<Option<u64>> {
    let region = Region::new(convention, request).map_err(|source| AttachError::Request { convention, source })?;
    Ok(region.and_then(|region| region.bin_of(pc)).map(|bin| u64::from(bin) + 1))
}

type Text = Result<Option<std::ops::Range<u64>>, crate::target_object::TargetObjectError>;

fn text_of(text: &Text) -> anyhow::Result<std::ops::Range<u64>> {
    match text {
        Ok(Some(text)) => Ok(text.clone()),
        Ok(None) => Err(usage("--offset, --scale and --bufsiz are needed")),
        Err(error) => Err(anyhow::anyhow!("{error}; give --offset, --scale and --bufsiz")),
    }
}

/// Where an address lies, and the size of what lies there.
fn place(address: &Address, object: Option<&mut TargetObject>) -> anyhow::Result<(u64, Option<u64>)> {
    match (address, object) {
        (Address::Number(number), _) => Ok((*number, None)),
        (Address::Symbol { name, offset }, Some(object)) => {
            let symbol = object.symbol(name)?;
            let address = symbol.address.checked_add(*offset).with_context(|| format!("{name}+{offset} wraps"))?;
            Ok((address, Some(symbol.size.saturating_sub(*offset))))
        }
        (Address::Symbol { name, .. }, None) => Err(usage(format!("no object to look `{name}` up in"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::{AddressSpace, Purpose};
    use crate::symbols::Symbols;
    use crate::symbols::debug_files::DebugFiles;

    #[test]
    fn addresses_are_numbers_or_symbols() {
        assert_eq!(address("0x601040"), Ok(Address::Number(0x60_1040)));
        assert_eq!(address("buf"), Ok(Address::Symbol { name: "buf".into(), offset: 0 }));
        assert_eq!(address("buf+0x10"), Ok(Address::Symbol { name: "buf".into(), offset: 16 }));
        for bad in ["+4", "buf+x", "0xzz"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }

    /// This test program, as a target: an object with symbols and a large text.
    fn own_object() -> Option<TargetObject> {
        let target = crate::process::TargetProcess::open(std::process::id()).ok()?;
        let space = AddressSpace::of(&target, Purpose::Look).expect("a process may open its own memory");
        let files = DebugFiles { directories: Vec::new(), debuginfod: None };
        Some(TargetObject::find(&target, &space, None, Symbols::new(files, "/".into())).expect("a program of symbols"))
    }

    fn args(convention: ConventionName, width: u32) -> RegionArgs {
        RegionArgs { buf: None, bufsiz: None, offset: None, scale: None, object: None, width, convention }
    }

    /// Check that the scale which is chosen fits the text into the buffer, and that the next finer one would not.
    #[test]
    fn the_chosen_scale_is_the_finest_at_which_the_text_fits() {
        let Some(mut object) = own_object() else { return };
        let text = object.text().expect("a program has text");
        let conventions = [ConventionName::Bsd, ConventionName::Linux, ConventionName::Clix, ConventionName::Glibc];
        for convention in conventions {
            for (width, bufsiz) in [(2, 4096), (2, 8193), (4, 1 << 16), (2, 1 << 20), (4, 64 << 20)] {
                let args = RegionArgs { bufsiz: Some(bufsiz), ..args(convention, width) };
                let resolved = args.resolve(Some(&mut object)).expect("some scale fits");
                let Resolved { convention, request, buffer, scale_chosen } = resolved;
                assert_eq!((request.offset, request.bufsiz, buffer, scale_chosen), (text.start, bufsiz, None, true));
                let reaches = |scale| {
                    let region = Region::new(convention, Request { scale, ..request }).ok().flatten();
                    region.is_some_and(|region| region.bin_of(text.end - 1).is_some())
                };
                assert!(reaches(request.scale), "{resolved:?}");
                let finer = scales(convention).into_iter().take_while(|scale| *scale != request.scale);
                assert!(!finer.into_iter().any(reaches), "{resolved:?}");
            }
        }
    }

    #[test]
    fn without_a_buffer_the_region_ends_with_the_text() {
        let Some(mut object) = own_object() else { return };
        let text = object.text().expect("a program has text");
        let resolved = args(ConventionName::Bsd, 2).resolve(Some(&mut object)).expect("the text decides");
        let region =
            Region::new(resolved.convention, resolved.request).expect("a good request").expect("one that is on");
        assert!(region.nbins <= MAX_BINS);
        let span = region.span().expect("a region with bins");
        assert_eq!(*span.start(), text.start);
        let width = 131_072 / u64::from(resolved.request.scale);
        assert!(*span.end() >= text.end - 1 && *span.end() < text.end + width, "{span:x?} {text:x?}");
    }

    #[test]
    fn an_offset_that_no_scale_brings_to_the_text_is_told_without_a_buffer_that_nobody_named() {
        let Some(mut object) = own_object() else { return };
        let args = RegionArgs { offset: Some(Address::Number(0)), ..args(ConventionName::Glibc, 2) };
        let error = args.resolve(Some(&mut object)).expect_err("a position-independent program lies high").to_string();
        assert!(error.contains("--offset 0x0 is too far below the text") && !error.contains("a buffer of"), "{error}");
        let args = RegionArgs { bufsiz: Some(4096), ..args };
        let error = args.resolve(Some(&mut object)).expect_err("nor with a buffer").to_string();
        assert!(error.contains("a buffer of 4096 bytes does not reach from --offset 0x0"), "{error}");
    }

    #[test]
    fn a_symbol_brings_its_size_and_an_offset_takes_from_it() {
        let Some(mut object) = own_object() else { return };
        let symbol = object.symbol("main").expect("a program has a main");
        assert!(symbol.size > 2, "{symbol:?}");
        let buf = |offset| RegionArgs {
            buf: Some(Address::Symbol { name: "main".into(), offset }),
            ..args(ConventionName::Glibc, 2)
        };
        let given = |offset| RegionArgs { scale: Some(2), ..buf(offset) };
        let resolved = given(0).resolve(Some(&mut object)).expect("the symbol has a size");
        assert_eq!((resolved.buffer, resolved.request.bufsiz), (Some(symbol.address), symbol.size));
        assert!(!resolved.scale_chosen);
        let resolved = given(2).resolve(Some(&mut object)).expect("the symbol has a size");
        assert_eq!((resolved.buffer, resolved.request.bufsiz), (Some(symbol.address + 2), symbol.size - 2));
        let error = given(symbol.size).resolve(Some(&mut object)).expect_err("nothing is left of it");
        assert!(error.to_string().contains("--bufsiz is needed"), "{error}");
        let error = given(u64::MAX).resolve(Some(&mut object)).expect_err("no such address");
        assert!(error.to_string().contains("wraps"), "{error}");
    }

    #[test]
    fn every_scale_that_is_tried_is_one_that_the_convention_takes() {
        for convention in Convention::ALL {
            for scale in scales(convention) {
                let request = Request { offset: 0, scale, bufsiz: 4096, width: 2 };
                assert!(matches!(Region::new(convention, request), Ok(Some(_))), "{convention:?} {scale}");
            }
        }
    }
}
