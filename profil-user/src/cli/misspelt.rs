//! A first word that is no command.
//!
//! `profil` itself takes options and a command after `--`, so that clap holds such a word for an argument that is one too
//! many, and has no idea what was meant.

use std::ffi::{OsStr, OsString};

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// The error of a command line whose first word is neither an option nor a command: it names the command that was
/// probably meant, and how a program of that name is run.
pub fn error(command: &Command, mut arguments: impl Iterator<Item = OsString>) -> Option<clap::Error> {
    let word = arguments.nth(1)?;
    let is_option = word.as_encoded_bytes().starts_with(b"-");
    if is_option
        || command.get_subcommands().any(|verb| verb.get_name_and_visible_aliases().iter().any(|name| word == *name))
    {
        return None;
    }
    // With nothing but the commands, clap compares with them.
    let verbs = command.get_subcommands().cloned();
    let only = Command::new("profil").disable_help_subcommand(true).subcommand_required(true).subcommands(verbs);
    let mut error = only.try_get_matches_from([OsStr::new("profil"), &word]).err()?;
    let tip = format!("to run a program and record it, use 'profil -- {}'", word.to_string_lossy());
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    Some(error)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn told(words: &[&str]) -> Option<String> {
        let command = Command::new("profil").subcommands([Command::new("record"), Command::new("report")]);
        let error = error(&command, words.iter().map(OsString::from))?;
        assert_eq!((error.kind(), error.exit_code()), (ErrorKind::InvalidSubcommand, 2));
        Some(error.to_string())
    }

    #[test]
    fn a_misspelt_command_gets_the_one_that_was_meant_and_the_way_to_run_a_program() {
        for (word, meant) in [("recrod", "'record'"), ("repotr", "'report'"), ("reprot", "'report'")] {
            let text = told(&["profil", word, "-p", "1"]).expect("no command");
            assert!(text.contains(meant) && text.contains(&format!("'profil -- {word}'")), "{text}");
        }
    }

    #[test]
    fn a_program_gets_the_way_to_run_it() {
        let text = told(&["profil", "python3", "work.py"]).expect("no command");
        assert!(text.contains("'profil -- python3'") && !text.contains("similar"), "{text}");
    }

    #[test]
    fn commands_options_and_nothing_are_left_alone() {
        for words in
            [&["profil"] as &[_], &["profil", "record"], &["profil", "-p", "recrod"], &["profil", "--", "recrod"]]
        {
            assert_eq!(told(words), None, "{words:?}");
        }
    }
}
