//! The process that takes files apart, as profil sees it.
//!
//! ELF files and their debug information are made by whoever owns the program that was profiled, and profil is root. So
//! profil itself reads no more of them than headers and notes ([`super::elf_headers`], within limits and without
//! recursion). Symbol tables, debug information and mangled names are read by a process of its own, which gets open files
//! and addresses, and answers with names. It runs as nobody, can open nothing, and has limits; a file that kills it or
//! keeps it busy costs the names of that object, and the next object gets another process.
//!
//! It is started when the first name is asked for, and lives as long as the [`Reader`].

mod patience;
mod process;
pub mod serve;
mod span_wire;
pub mod wire;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use super::object_file::ObjectFile;
use super::source_spans::Span;
use super::symbol_table::Symbol;
use super::symbolizer::{NamedCode, Names, Unnamed};
use crate::jail;
use patience::Patience;
use process::{Lost, Process};
use wire::{Companions, Gathering, MAX_ADDRESSES, Reply, Request};

/// Most spans of source in one answer.
const SPANS_LIMIT: usize = 8 << 20;

/// The files that name the code of an object.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The one that ran.
    pub object: &'a ObjectFile,
    /// Its separate debug information.
    pub debug: Option<&'a ObjectFile>,
    /// What dwz(1) moved out of that.
    pub shared: Option<&'a ObjectFile>,
}

/// Asks a process for names, and starts another when it is lost.
#[derive(Debug)]
pub struct Reader {
    program: PathBuf,
    process: Option<Process>,
    patience: Patience,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::new()
    }
}

impl Reader {
    /// One that starts the program that runs now (`profil reader`), when it is first needed.
    pub fn new() -> Reader {
        Reader::with_program(jail::own_program())
    }

    /// As [`Reader::new`], for a program that is not `profil` itself.
    pub fn with_program(program: PathBuf) -> Reader {
        Reader { program, process: None, patience: Patience::default() }
    }

    /// Names addresses (SVMA) of an object. Ask for all addresses of an object at once: its files are read for each call
    /// anew.
    pub fn name(&mut self, sources: &Sources<'_>, svmas: &[u64]) -> Names {
        let mut gathering = Gathering::new(svmas.len());
        let question = |companions, count| Request::Name { companions, count };
        let answer = self.ask_about(sources, svmas, question, |process| match process.reply()? {
            Reply::Frames(frames) => gathering.add(frames).map(|()| None).ok_or(Lost::Ended),
            Reply::Named(unnamed) => Ok(Some(unnamed)),
            _ => Err(Lost::Ended),
        });
        match answer {
            Ok(unnamed) => gathering.finish(unnamed),
            Err(why) => Names::none(svmas.len(), why),
        }
    }

    /// The functions around addresses (SVMA) of an object, as its symbol tables have them.
    ///
    /// # Errors
    /// Why the file cannot be read.
    pub fn functions(&mut self, sources: &Sources<'_>, svmas: &[u64]) -> Result<Vec<Option<NamedCode>>, Unnamed> {
        let mut functions = vec![None; svmas.len()];
        let question = |companions, count| Request::Functions { companions, count };
        self.ask_about(sources, svmas, question, |process| match process.reply()? {
            Reply::Functions(found) => {
                for (index, function) in found {
                    let place = functions.get_mut(index as usize).filter(|place| place.is_none());
                    *place.ok_or(Lost::Ended)? = Some(function);
                }
                Ok(None)
            }
            Reply::Done => Ok(Some(())),
            _ => Err(Lost::Ended),
        })?;
        Ok(functions)
    }

    /// Where the functions around addresses (SVMA) are in the source.
    ///
    /// # Errors
    /// Why the file cannot be read.
    pub fn spans(&mut self, sources: &Sources<'_>, svmas: &[u64]) -> Result<Vec<Span>, Unnamed> {
        let mut spans = Vec::new();
        let question = |companions, count| Request::Spans { companions, count };
        self.ask_about(sources, svmas, question, |process| match process.reply()? {
            Reply::Spans(more) => {
                spans.extend(more);
                if spans.len() > SPANS_LIMIT { Err(Lost::Ended) } else { Ok(None) }
            }
            Reply::Done => Ok(Some(())),
            _ => Err(Lost::Ended),
        })?;
        Ok(spans)
    }

    /// Asks a question about addresses of an object, and takes messages until one is the last.
    fn ask_about<T>(
        &mut self,
        sources: &Sources<'_>,
        svmas: &[u64],
        question: impl FnOnce(Companions, u32) -> Request,
        mut take: impl FnMut(&mut Process) -> Result<Option<T>, Lost>,
    ) -> Result<T, Unnamed> {
        let Sources { object, debug, shared } = *sources;
        let file = object.handle.file().map_err(|_| Unnamed::FileGone)?;
        let debug_file = debug.and_then(|debug| debug.handle.file().ok());
        let shared_file = shared.and_then(|shared| shared.handle.file().ok());
        let companions = Companions { debug: debug_file.is_some(), shared: shared_file.is_some() };
        let files: Vec<BorrowedFd<'_>> =
            [Some(&file), debug_file.as_ref(), shared_file.as_ref()].into_iter().flatten().map(AsFd::as_fd).collect();
        let count = u32::try_from(svmas.len()).map_err(|_| Unnamed::NoSymbol)?;
        let sizes = [Some(object), debug, shared].into_iter().flatten().map(ObjectFile::debug_info_bytes);
        self.ask(sizes.fold(0, u64::saturating_add), |process| {
            process.send(&question(companions, count), &files)?;
            for svmas in svmas.chunks(MAX_ADDRESSES) {
                process.send(&Request::Addresses(svmas.to_vec()), &[])?;
            }
            loop {
                if let Some(answer) = take(process)? {
                    return Ok(answer);
                }
            }
        })
    }

    /// CPU time that the process took so far, while there is one.
    pub fn cpu_time(&self) -> Duration {
        self.process.as_ref().map(Process::cpu_time).unwrap_or_default()
    }

    /// Finds a function or data object by name in the symbol tables of a file.
    ///
    /// # Errors
    /// Why the file cannot be read.
    pub fn find(&mut self, object: &ObjectFile, name: &str) -> Result<Option<Symbol>, Unnamed> {
        let file = object.handle.file().map_err(|_| Unnamed::FileGone)?;
        let request = Request::Find { name: name.to_owned() };
        if request.to_bytes().len() > wire::MAX_MESSAGE {
            return Ok(None);
        }
        self.ask(0, |process| {
            process.send(&request, &[file.as_fd()])?;
            match process.reply()? {
                Reply::Found(symbol) => Ok(symbol),
                _ => Err(Lost::Ended),
            }
        })
    }

    /// Has a process answer; one that is lost over it is not asked again.
    fn ask<T>(
        &mut self,
        debug_info_bytes: u64,
        conversation: impl FnOnce(&mut Process) -> Result<T, Lost>,
    ) -> Result<T, Unnamed> {
        // One that was killed meanwhile knows of no file, so none is to blame.
        let idle = self.process.take().filter(Process::is_there);
        let mut process = match idle {
            Some(process) => process,
            None => Process::start(&self.program).map_err(|_| Unnamed::NoReader)?,
        };
        process.allow(self.patience.for_bytes(debug_info_bytes));
        match conversation(&mut process) {
            Ok(answer) => {
                self.process = Some(process);
                Ok(answer)
            }
            Err(Lost::NotElf) => {
                self.process = Some(process);
                Err(Unnamed::NotElf)
            }
            Err(Lost::Ended) => Err(Unnamed::ReaderEnded),
            Err(Lost::Stalled) => {
                self.patience.was_abused();
                Err(Unnamed::ReaderStalled)
            }
        }
    }
}
